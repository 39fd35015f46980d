package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"halley/function/app/internal/account"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger"
)

func statusCommand(source settings.Source) *cobra.Command {
	var flags statusOptions
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how far each function is behind, by lease",
		Long: `Status reads the leases of the enabled functions and looks at the feed behind
each: its owner, how many changes it is behind (? is not known; up to 100 are
counted, and more are estimated as transactions, also those of other containers
that share the throughput of the database), the age in seconds of the oldest change that
is not checkpointed, how long ago the owner wrote the lease and moved the
checkpoint, how many changes were dead-lettered, and the saved continuation.
PROBLEM says why a range makes no progress, as its owner wrote it into the lease
at the last renewal. Below the table are the request units an hour that each
function costs, as its hosts have measured them; --forecast adds those of a month,
and money if HALLEY_PRICES names prices. Status writes nothing, owns nothing, and needs no host to run.

The exit code is 0 if all lag is known, however large it is, and no range is
stalled for longer than HALLEY_STALL_AFTER; otherwise it is 1. With --watch it
looks again until Ctrl-C, and the last look decides; with --json each look is one
line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd.Context(), source, cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&flags.function, "function", "", "this function only")
	f.BoolVar(&flags.json, "json", false, "print JSON")
	f.BoolVar(&flags.forecast, "forecast", false, "print what each function costs in a month")
	f.BoolVar(&flags.watch, "watch", false, "look again and again")
	f.DurationVar(&flags.every, "every", 2*time.Second, "how often --watch looks")
	return c
}

type statusOptions struct {
	function              string
	json, watch, forecast bool
	every                 time.Duration
}

// run prints one look, or with --watch several. Its error is that of the last.
func (o statusOptions) run(ctx context.Context, source settings.Source, out io.Writer) error {
	if o.every <= 0 {
		return fmt.Errorf("--every %v: must be above 0", o.every)
	}
	s, err := settings.Load(source)
	if err == nil {
		err = s.Only(o.function)
	}
	if err != nil {
		return err
	}
	clients, last := account.CommandClients(), error(nil)
	for {
		clients.ForgetReached() // tried again at each look
		report, err := operate.Look(ctx, s, clients)
		if ctx.Err() != nil {
			return last // the look was cut off
		}
		if o.forecast {
			report.AddForecast(s)
		}
		if err := o.print(out, report); err != nil {
			return err
		}
		if last = err; !o.watch || !hosting.Pause(ctx, o.every) {
			return last
		}
	}
}

func (o statusOptions) print(out io.Writer, r operate.LagReport) error {
	if o.json {
		return json.NewEncoder(text.SafeWriter(out)).Encode(r)
	}
	if o.watch {
		if text.IsTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		fmt.Fprintln(out, r.Time.Format(time.RFC3339))
	}
	return printReport(out, r)
}

// waitText tells what a range without a problem waits for: the rest of its snapshot, or
// postponed changes.
func waitText(l trigger.Lag, now time.Time) string {
	if g := l.Snapshot; g != nil {
		read := fmt.Sprintf("snapshot read up to LSN %d of %d in %s", g.Position, g.Until, now.Sub(g.Begun).Round(time.Second))
		if g.Expires.IsZero() {
			return read
		}
		return fmt.Sprintf("%s; it begins again unless it is read within %s", read, max(g.Expires.Sub(now), 0).Round(time.Second))
	}
	if l.Postponed == 0 {
		return ""
	}
	return fmt.Sprintf("%s postponed by the handler, next due in %s", text.Count(l.Postponed, "key"), max(l.NextDue.Sub(now), 0).Round(time.Second))
}

// printReport writes the report as a table.
func printReport(out io.Writer, r operate.LagReport) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FUNCTION\tRANGE\tOWNER\tBEHIND\tSECONDS\tRENEWED\tCHECKPOINT\tDEAD-LETTERED\tCONTINUATION\tPROBLEM")
	for _, f := range r.Functions {
		for _, l := range f.Leases {
			row := operate.LagTotal{Changes: l.Changes, Exact: l.Exact, Known: l.Known, Seconds: l.Seconds}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", f.Name, text.Cell(l.Range), operate.OwnerName(l.Owner), row.Behind(), row.Age(),
				operate.Ago(l.Renewed, r.Time), operate.Ago(l.Checkpointed, r.Time), l.DeadLettered, text.Cell(l.Continuation), text.Line(cmp.Or(l.Problem, waitText(l, r.Time))))
		}
		fmt.Fprintf(t, "%s\ttotal\t\t%s\t%s\t\t\t\t\t%s\n", f.Name, f.Total(), f.Age(), text.Line(cmp.Or(f.Problem, f.Warning)))
	}
	if len(r.Functions) > 1 {
		fmt.Fprintf(t, "all\ttotal\t\t%s\t%s\t\t\t\t\t\n", r.Total(), r.Age())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range r.Functions {
		if f.Units != nil {
			fmt.Fprintf(out, "%s costs %s\n", f.Name, f.Units)
		}
		if f.Forecast != nil {
			fmt.Fprintf(out, "%s costs in a month: %s\n", f.Name, f.Forecast)
		}
	}
	return nil
}

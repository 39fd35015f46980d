package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"halley/handlers"
	"halley/trigger"
)

func statusCommand() *cobra.Command {
	var o statusOptions
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how far each function is behind, by lease",
		Long: `Status reads the leases of the enabled functions and looks at the feed behind
each: its owner, how many changes it is behind (~ marks an estimate, which counts
transactions), the age in seconds of the oldest change that is not checkpointed,
and the saved continuation. It writes nothing, owns nothing, and needs no host to
run.

The exit code is 0 if all of that is known, however large the lag, and 1 if not,
for example if no lease covers a range: the problem is shown. With --watch it
looks again until Ctrl-C, and the last look decides; with --json each look is one
line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&o.function, "function", "", "this function only")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.watch, "watch", false, "look again and again")
	f.DurationVar(&o.every, "every", 2*time.Second, "how often --watch looks")
	return c
}

type statusOptions struct {
	function    string
	json, watch bool
	every       time.Duration
}

// lagReport is the result of one look.
type lagReport struct {
	Time      time.Time     `json:"time"`
	Functions []functionLag `json:"functions"`
	lagTotal
}

// functionLag is the part of one function.
type functionLag struct {
	Name   string        `json:"name"`
	Leases []trigger.Lag `json:"leases"`
	lagTotal
	Problem string `json:"problem,omitempty"` // the reason if there are no leases to show
}

// lagTotal sums over leases: the number of changes, and the age of the oldest.
type lagTotal struct {
	Changes int64   `json:"changes"`
	Exact   bool    `json:"exact"`
	Seconds float64 `json:"seconds"`
}

func (t *lagTotal) add(changes int64, exact bool, seconds float64) {
	t.Changes += changes
	t.Exact = t.Exact && exact
	t.Seconds = max(t.Seconds, seconds)
}

// run prints one look, or with --watch several. Its error is that of the last.
func (o statusOptions) run(ctx context.Context, out io.Writer) error {
	if o.every <= 0 {
		return fmt.Errorf("--every %v: must be above 0", o.every)
	}
	s, err := loadSettings(handlers.All())
	if err == nil {
		err = s.only(o.function)
	}
	if err != nil {
		return err
	}
	clients, last := newAccounts(nil), error(nil)
	for {
		report, err := look(ctx, s, clients)
		if ctx.Err() != nil {
			return last // the look was cut off
		}
		if err := o.print(out, report); err != nil {
			return err
		}
		if last = err; !o.watch || !pause(ctx, o.every) {
			return last
		}
	}
}

// look estimates the lag of all functions. It returns an error if the lag is not
// known completely.
func look(ctx context.Context, s *settings, clients accounts) (lagReport, error) {
	r := lagReport{Time: time.Now().UTC(), lagTotal: lagTotal{Exact: true}}
	unknown := 0
	for _, f := range s.Functions {
		l := lagOf(ctx, f, clients)
		if l.Problem != "" {
			unknown++
		}
		for _, lease := range l.Leases {
			if lease.Problem != "" {
				unknown++
			}
		}
		r.add(l.Changes, l.Exact, l.Seconds)
		r.Functions = append(r.Functions, l)
	}
	if unknown > 0 {
		return r, errors.New("the lag is not completely known: see PROBLEM")
	}
	return r, nil
}

func lagOf(ctx context.Context, f functionSettings, clients accounts) functionLag {
	l := functionLag{Name: f.Name, Leases: []trigger.Lag{}, lagTotal: lagTotal{Exact: true}}
	at, err := clients.open(f)
	if err == nil {
		var leases []trigger.Lag
		leases, err = trigger.EstimateLag(ctx, at.leases, f.function(at.monitored))
		l.Leases = append(l.Leases, leases...)
	}
	switch {
	case err != nil:
		l.Problem, l.Exact = err.Error(), false
	case len(l.Leases) == 0:
		l.Problem, l.Exact = "no leases: its hosts never ran", false
	}
	for _, lease := range l.Leases {
		l.add(lease.Changes, lease.Exact, lease.Seconds)
	}
	return l
}

func (o statusOptions) print(out io.Writer, r lagReport) error {
	if o.json {
		return json.NewEncoder(terminalSafe{out}).Encode(r)
	}
	if o.watch {
		if isTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		fmt.Fprintln(out, r.Time.Format(time.RFC3339))
	}
	return r.print(out)
}

// print writes the report as a table.
func (r lagReport) print(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FUNCTION\tRANGE\tOWNER\tBEHIND\tSECONDS\tCONTINUATION\tPROBLEM")
	for _, f := range r.Functions {
		for _, l := range f.Leases {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\t%s\t%s\n", f.Name, cell(l.Range), free(l.Owner), behind(l.Changes, l.Exact), l.Seconds,
				cell(l.Continuation), printableLine(l.Problem))
		}
		fmt.Fprintf(t, "%s\ttotal\t\t%s\t%.0f\t\t%s\n", f.Name, behind(f.Changes, f.Exact), f.Seconds, printableLine(f.Problem))
	}
	if len(r.Functions) > 1 {
		fmt.Fprintf(t, "all\ttotal\t\t%s\t%.0f\t\t\n", behind(r.Changes, r.Exact), r.Seconds)
	}
	return t.Flush()
}

// behind marks an estimate with ~.
func behind(changes int64, exact bool) string {
	if exact {
		return fmt.Sprint(changes)
	}
	return fmt.Sprintf("~%d", changes)
}

func free(owner string) string {
	if owner == "" {
		return "(free)"
	}
	return cell(owner)
}

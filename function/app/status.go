package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"halley/function/app/internal/account"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/stall"
)

func (o Options) statusCommand() *cobra.Command {
	var flags statusOptions
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how far each function is behind, by lease",
		Long: `Status reads the leases of the enabled functions and looks at the feed behind
each: its owner, how many changes it is behind (? is not known, and ~ marks an
estimate, which counts transactions), the age in seconds of the oldest change that
is not checkpointed, how long ago the owner wrote the lease and moved the
checkpoint, how many changes were dead-lettered, and the saved continuation.
PROBLEM says why a range makes no progress, as its owner wrote it into the lease
at the last renewal. Status writes nothing, owns nothing, and needs no host to run.

The exit code is 0 if all lag is known, however large it is, and no range is
stalled for longer than HALLEY_STALL_AFTER; otherwise it is 1. With --watch it
looks again until Ctrl-C, and the last look decides; with --json each look is one
line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&flags.function, "function", "", "this function only")
	f.BoolVar(&flags.json, "json", false, "print JSON")
	f.BoolVar(&flags.watch, "watch", false, "look again and again")
	f.DurationVar(&flags.every, "every", 2*time.Second, "how often --watch looks")
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

	stallAfter time.Duration
}

// lagTotal sums over leases: the number of changes, and the age of the oldest. If the
// lag of some lease is not known, they are lower bounds.
type lagTotal struct {
	Changes int64   `json:"changes"`
	Exact   bool    `json:"exact"`
	Known   bool    `json:"known"`
	Seconds float64 `json:"seconds"`
}

func (t *lagTotal) add(changes int64, exact, known bool, seconds float64) {
	t.Changes += changes
	t.Exact = t.Exact && exact
	t.Known = t.Known && known
	t.Seconds = max(t.Seconds, seconds)
}

// nothingBehind is the total of no leases.
var nothingBehind = lagTotal{Exact: true, Known: true}

// MarshalJSON implements [json.Marshaler]: what is not known is null.
func (l functionLag) MarshalJSON() ([]byte, error) {
	type fields functionLag
	return json.Marshal(struct {
		fields
		Changes *int64   `json:"changes"`
		Seconds *float64 `json:"seconds"`
	}{fields(l), l.orNull(&l.Changes), orNull(l.Known, &l.Seconds)})
}

// MarshalJSON implements [json.Marshaler]: what is not known is null.
func (r lagReport) MarshalJSON() ([]byte, error) {
	type fields lagReport
	return json.Marshal(struct {
		fields
		Changes *int64   `json:"changes"`
		Seconds *float64 `json:"seconds"`
	}{fields(r), r.orNull(&r.Changes), orNull(r.Known, &r.Seconds)})
}

// orNull returns a number of changes, or nil if nothing is known about it.
func (t lagTotal) orNull(changes *int64) *int64 { return orNull(t.Known || t.Changes > 0, changes) }

func orNull[T any](known bool, v *T) *T {
	if !known {
		return nil
	}
	return v
}

// run prints one look, or with --watch several. Its error is that of the last.
func (o statusOptions) run(ctx context.Context, of Options, out io.Writer) error {
	if o.every <= 0 {
		return fmt.Errorf("--every %v: must be above 0", o.every)
	}
	s, err := settings.Load(of.source())
	if err == nil {
		err = s.Only(o.function)
	}
	if err != nil {
		return err
	}
	clients, last := account.CommandClients(), error(nil)
	for {
		clients.ForgetReached() // tried again at each look
		report, err := look(ctx, s, clients)
		if ctx.Err() != nil {
			return last // the look was cut off
		}
		if err := o.print(out, report); err != nil {
			return err
		}
		if last = err; !o.watch || !hosting.Pause(ctx, o.every) {
			return last
		}
	}
}

// look estimates the lag of all functions. It returns an error if the lag is not
// known completely, or if a range is stalled for longer than its function allows.
func look(ctx context.Context, s *settings.Settings, clients account.Clients) (lagReport, error) {
	r := lagReport{Time: time.Now().UTC(), lagTotal: nothingBehind}
	unknown, stalled := 0, 0
	for _, f := range s.Functions {
		l := lagOf(ctx, f, clients)
		if l.Problem != "" {
			unknown++
		}
		for _, lease := range l.Leases {
			if !lease.Known {
				unknown++
			}
			if l.isStalled(lease, r.Time) {
				stalled++
			}
		}
		r.add(l.Changes, l.Exact, l.Known, l.Seconds)
		r.Functions = append(r.Functions, l)
	}
	switch {
	case unknown > 0:
		return r, errors.New("the lag is not completely known: see PROBLEM")
	case stalled > 0:
		return r, fmt.Errorf("%d ranges are stalled: see PROBLEM", stalled)
	}
	return r, nil
}

// isStalled reports whether a range makes no progress for longer than its function
// allows, and not because of a limit.
func (l *functionLag) isStalled(lease trigger.Lag, now time.Time) bool {
	return slices.ContainsFunc(lease.Stalls, func(s stall.Stall) bool { return !s.Kind.IsLimit() && now.Sub(s.Since) >= l.stallAfter })
}

func lagOf(ctx context.Context, f settings.Function, clients account.Clients) functionLag {
	l := functionLag{Name: f.Name, Leases: []trigger.Lag{}, lagTotal: nothingBehind, stallAfter: time.Duration(f.StallAfter)}
	at, err := clients.Open(f)
	if err == nil {
		err = clients.Reach(ctx, f)
	}
	if err == nil {
		var leases []trigger.Lag
		leases, err = trigger.EstimateLag(ctx, at.Leases, f.TriggerFunction(at.Monitored).FeedSource)
		l.Leases = append(l.Leases, leases...)
	}
	switch {
	case err != nil:
		l.Problem, l.Exact, l.Known = err.Error(), false, false
	case len(l.Leases) == 0:
		l.Problem, l.Exact, l.Known = "no leases: its hosts never ran, or the leases were deleted", false, false
	}
	for _, lease := range l.Leases {
		l.add(lease.Changes, lease.Exact, lease.Known, lease.Seconds)
	}
	return l
}

func (o statusOptions) print(out io.Writer, r lagReport) error {
	if o.json {
		return json.NewEncoder(text.SafeWriter(out)).Encode(r)
	}
	if o.watch {
		if text.IsTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		fmt.Fprintln(out, r.Time.Format(time.RFC3339))
	}
	return r.print(out)
}

// postponedText tells of the postponed changes of a range, which are no problem.
func postponedText(l trigger.Lag, now time.Time) string {
	if l.Postponed == 0 {
		return ""
	}
	return fmt.Sprintf("%s postponed by the handler, next due in %s", text.Count(l.Postponed, "key"), max(l.NextDue.Sub(now), 0).Round(time.Second))
}

// print writes the report as a table.
func (r lagReport) print(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FUNCTION\tRANGE\tOWNER\tBEHIND\tSECONDS\tRENEWED\tCHECKPOINT\tDEAD-LETTERED\tCONTINUATION\tPROBLEM")
	for _, f := range r.Functions {
		for _, l := range f.Leases {
			row := lagTotal{l.Changes, l.Exact, l.Known, l.Seconds}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", f.Name, text.Cell(l.Range), free(l.Owner), row.behind(), row.age(),
				ago(l.Renewed, r.Time), ago(l.Checkpointed, r.Time), l.DeadLettered, text.Cell(l.Continuation), text.Line(cmp.Or(l.Problem, postponedText(l, r.Time))))
		}
		fmt.Fprintf(t, "%s\ttotal\t\t%s\t%s\t\t\t\t\t%s\n", f.Name, f.total(), f.age(), text.Line(f.Problem))
	}
	if len(r.Functions) > 1 {
		fmt.Fprintf(t, "all\ttotal\t\t%s\t%s\t\t\t\t\t\n", r.total(), r.age())
	}
	return t.Flush()
}

// behind is the lag of one lease: ? if it is not known, and an estimate says that it
// counts transactions.
func (t lagTotal) behind() string {
	switch {
	case !t.Known:
		return "?"
	case t.Exact:
		return fmt.Sprint(t.Changes)
	}
	return fmt.Sprintf("~%d transactions", t.Changes)
}

// total is the lag of several leases, of which some may be known.
func (t lagTotal) total() string {
	if !t.Known && t.Changes > 0 {
		return fmt.Sprintf("at least %d", t.Changes)
	}
	return t.behind()
}

func (t lagTotal) age() string {
	if !t.Known {
		return "?"
	}
	return fmt.Sprintf("%.0f", t.Seconds)
}

// ago is the age of a time, or - if there is none.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return max(now.Sub(at), 0).Round(time.Second).String()
}

func free(owner string) string {
	if owner == "" {
		return "(free)"
	}
	return text.Cell(owner)
}

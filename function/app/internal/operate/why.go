package operate

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"halley/function/app/internal/text"
	"halley/trigger/stall"
)

// FunctionView is a function with its ranges, as a report or a page shows it.
type FunctionView struct {
	Name    string
	Problem string // of the whole function
	Warning string // see [SharedText]
	Ranges  []RangeView
}

// RangeView is a range of a function, and the reasons why it makes no progress.
type RangeView struct {
	Range, Owner          string
	Lag                   LagTotal
	Renewed, Checkpointed time.Time     // zero: not known
	Stalls                []stall.Stall // some of the reasons in Problem
	Problem               string        // "" if the range makes progress
}

// Cause is one reason why ranges of a function make no progress, in words.
type Cause struct {
	Title    string // the function, and its ranges that share the reason
	Cause    string // as status and page say it of the range that waits longest
	Since    string
	Evidence string
	Next     string // step of an operator

	isLimit bool // the function sets a limit, and the ranges wait for it
	harm    int  // place in harmOrder
	since   time.Time
}

// lagUnknown stands for a range whose lag this look does not know. Its owner tells of no stall.
const lagUnknown stall.Kind = ""

// harmOrder has the kinds of stall, the most harmful first: those that last until an operator
// acts and hold up everything, those of the function and its sinks, those that end by
// themselves, and those that are wanted.
var harmOrder = []stall.Kind{
	stall.Unreadable, stall.NewerForm, stall.RetentionMissed, stall.PositionAhead, stall.FeedFails, stall.LeaseFails, stall.NoOwner, stall.OwnerSilent, stall.RangeWaits,
	stall.StorePending, stall.Breaker, stall.Flushing, stall.Removing, stall.Opening, stall.HandlerFails, stall.CallRuns,
	stall.FeedThrottled, lagUnknown, stall.Paused, stall.ReadsLimited, stall.RateLimited,
}

// Explain returns the reasons why ranges make no progress, the most harmful first. Ranges of a
// function that have the same reason share one.
func Explain(functions []FunctionView, now time.Time) (causes []Cause) {
	for _, f := range functions {
		if f.Problem != "" {
			whole := stall.Stall{Kind: stall.RangeWaits}
			causes = append(causes, Cause{Title: f.Name + ": no progress", Cause: f.Problem, Since: "not known", Evidence: "the function as a whole", Next: Advice(whole), harm: -1})
		}
		if f.Warning != "" {
			causes = append(causes, Cause{Title: f.Name + ": leases are shared", Cause: f.Warning, Since: "not known", Evidence: "the owners that its leases name", Next: "stop the app that does not belong here", harm: -1})
		}
		causes = append(causes, f.causes(now)...)
	}
	sort.SliceStable(causes, func(i, j int) bool {
		a, b := &causes[i], &causes[j]
		if a.harm != b.harm {
			return a.harm < b.harm
		}
		return a.since.Before(b.since)
	})
	return causes
}

// causes returns the reasons of the ranges of one function.
func (f FunctionView) causes(now time.Time) (causes []Cause) {
	type reason struct {
		kind stall.Kind
		text string
	}
	stalled := map[reason][]RangeView{}
	var reasons []reason // in the order of the ranges
	for _, r := range f.Ranges {
		if r.Problem == "" {
			continue
		}
		cause := r.worstStall()
		key := reason{cause.Kind, strings.ReplaceAll(cause.Text, "range "+r.Range, "")} // errors of the feed name the range
		if stalled[key] == nil {
			reasons = append(reasons, key)
		}
		stalled[key] = append(stalled[key], r)
	}
	for _, key := range reasons {
		causes = append(causes, f.cause(stalled[key], now))
	}
	return causes
}

// cause describes a reason by the range that has it for the longest time.
func (f FunctionView) cause(sharing []RangeView, now time.Time) Cause {
	oldest := sharing[0]
	names := make([]string, len(sharing))
	for i, r := range sharing {
		names[i] = text.Cell(r.Range)
		if r.worstStall().Since.Before(oldest.worstStall().Since) {
			oldest = r
		}
	}
	worst := oldest.worstStall()
	title, next := "no progress", Advice(worst)
	if worst.Kind == lagUnknown {
		title, next = "lag not known", Advice(stall.Stall{Kind: stall.RangeWaits})
	}
	return Cause{
		Title: fmt.Sprintf("%s: %s in %d of %s: %s", f.Name, title, len(sharing), text.Count(len(f.Ranges), "range"), someOf(names)),
		Cause: oldest.Problem, Since: sinceText(worst.Since, now), Evidence: oldest.evidence(now), Next: next,
		isLimit: worst.Kind.IsLimit(), harm: slices.Index(harmOrder, worst.Kind), since: worst.Since,
	}
}

// someOf names some of many.
func someOf(names []string) string {
	const shown = 8
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// worstStall is the most harmful reason of a range. If its problem is not a stall, only the lag
// of the range is not known.
func (r RangeView) worstStall() stall.Stall {
	worst := stall.Stall{Kind: lagUnknown}
	for i, s := range r.Stalls {
		if i == 0 || slices.Index(harmOrder, s.Kind) < slices.Index(harmOrder, worst.Kind) {
			worst = s
		}
	}
	return worst
}

// evidence tells of the lease of a range and of the changes behind it.
func (r RangeView) evidence(now time.Time) string {
	parts := []string{fmt.Sprintf("range %s: owner %s", text.Cell(r.Range), OwnerName(r.Owner))}
	if !r.Renewed.IsZero() {
		parts = append(parts, "lease written "+Ago(r.Renewed, now)+" ago")
	}
	if !r.Checkpointed.IsZero() {
		parts = append(parts, "position moved "+Ago(r.Checkpointed, now)+" ago")
	}
	return strings.Join(append(parts, "changes behind: "+r.Lag.Total(), "seconds behind: "+r.Lag.Age()), ", ")
}

func sinceText(since, now time.Time) string {
	if since.IsZero() {
		return "not known"
	}
	return since.UTC().Format(time.RFC3339) + ", " + Ago(since, now) + " ago"
}

// Ago is the time since a moment, "-" if it is not known.
func Ago(moment, now time.Time) string {
	if moment.IsZero() {
		return "-"
	}
	return max(now.Sub(moment), 0).Round(time.Second).String()
}

// Why returns the reasons why ranges of a report make no progress, and the number of those
// that are not limits that the functions set.
func (r LagReport) Why() (causes []Cause, problems int) {
	var views []FunctionView
	for _, f := range r.Functions {
		view := FunctionView{Name: f.Name, Problem: f.Problem, Warning: f.Warning}
		for _, l := range f.Leases {
			view.Ranges = append(view.Ranges, RangeView{
				Range: l.Range, Owner: l.Owner, Lag: LagTotal{l.Changes, l.Transactions, l.Exact, l.Known, l.Seconds},
				Renewed: l.Renewed, Checkpointed: l.Checkpointed, Stalls: l.Stalls, Problem: l.Problem,
			})
		}
		views = append(views, view)
	}
	causes = Explain(views, r.Time)
	for _, c := range causes {
		if !c.isLimit {
			problems++
		}
	}
	return causes, problems
}

package operatorpage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"halley/function/app/internal/account"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/page"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/stall"
)

// Host is a host of this process, as the page needs it.
type Host struct {
	Name   string
	Killed bool // in a development run
	Status []trigger.Status
}

// Source tells the page of the hosts of this process, and of the leases of all hosts.
// Its method look is called by one goroutine at a time.
type Source struct {
	settings *settings.Settings
	accounts account.Clients // its own, for looks at the lag as the command status takes them
	Hosts    func() []Host
	Saved    func() map[RangeKey]string // newer continuations than those in lags; may be nil
	LagEvery time.Duration

	lags   []operate.FunctionLag // of a moment ago, but see keepLags
	lagsAt time.Time
	readAt map[string]time.Time // when the leases of each function last answered
	live   int                  // hosts at lagsAt
}

// Time between two looks at the leases. The hosts know the ranges that they hold; the
// leases tell of the others.
const (
	DevLagEvery  = 2 * time.Second // of the embedded account
	pageLagEvery = 5 * time.Second
	pageLagTime  = 3 * time.Second // bounds a look: the feed has 2 s of it
)

// RangeKey identifies a range of a function.
type RangeKey struct{ Function, Range string }

// pageView is one look at everything.
type pageView struct {
	page.State
	held     map[RangeKey]page.Range // by hosts of this process
	reported map[RangeKey]page.Range // by hosts of this process about ranges that they do not hold
	own      map[string]bool         // names of the hosts of this process that run
	problems map[string]string       // by function
	warnings map[string]string       // likewise, see operate.SharedText
	units    map[string]string       // likewise, see operate.FunctionLag.Units
}

func (d *Source) look(ctx context.Context) page.State {
	hosts := d.Hosts()
	live := 0
	for _, h := range hosts {
		if !h.Killed {
			live++
		}
	}
	if live != d.live || time.Since(d.lagsAt) >= d.LagEvery {
		d.keepLags(d.lookAtLags(ctx), time.Now())
		d.live = live
	}
	v := pageView{held: map[RangeKey]page.Range{}, reported: map[RangeKey]page.Range{}, own: map[string]bool{}, problems: map[string]string{}, warnings: map[string]string{}, units: map[string]string{}}
	for _, h := range hosts {
		v.addHost(h)
	}
	v.addLeases(d.lags)
	if d.Saved != nil {
		for key, continuation := range d.Saved() {
			v.setPosition(key, continuation, time.Time{})
		}
	}
	for _, r := range v.held {
		v.Ranges = append(v.Ranges, r)
	}
	for _, r := range v.reported {
		v.Ranges = append(v.Ranges, r)
	}
	for _, f := range d.settings.Functions {
		v.Functions = append(v.Functions, page.Function{
			Name: f.Name, Container: f.DatabaseName + "/" + f.ContainerName, DeadLetters: f.DeadLetters.String(),
			Keeps: f.DeadLetters.Row().Keeps, Problem: cmp.Or(v.problems[f.Name], v.warnings[f.Name]), Units: v.units[f.Name],
		})
	}
	// (slices.SortFunc would be compiled for this type: 15 kB.)
	sort.Slice(v.Ranges, func(i, j int) bool {
		a, b := &v.Ranges[i], &v.Ranges[j]
		return cmp.Or(cmp.Compare(a.Function, b.Function), cmp.Compare(len(a.Range), len(b.Range)), cmp.Compare(a.Range, b.Range)) < 0
	})
	for _, c := range operate.Explain(v.functionViews(), time.Now()) {
		v.Why = append(v.Why, page.Cause{Title: c.Title, Cause: c.Cause, Since: c.Since, Evidence: c.Evidence, Next: c.Next})
	}
	return v.State
}

// functionViews are the functions with their ranges.
func (v *pageView) functionViews() (views []operate.FunctionView) {
	for _, f := range v.Functions {
		view := operate.FunctionView{Name: f.Name, Problem: v.problems[f.Name], Warning: v.warnings[f.Name]}
		for _, r := range v.Ranges {
			if r.Function == f.Name {
				view.Ranges = append(view.Ranges, operate.RangeView{
					Range: r.Range, Owner: r.Owner, Lag: operate.LagTotal{Changes: r.Changes, Exact: r.Exact, Known: r.Known, Seconds: r.Seconds},
					Renewed: r.Renewed, Checkpointed: r.Checkpointed, Stalls: r.Stalls, Problem: r.Problem,
				})
			}
		}
		views = append(views, view)
	}
	return views
}

// lookAtLags estimates the lag of all functions.
func (d *Source) lookAtLags(ctx context.Context) []operate.FunctionLag {
	ctx, cancel := context.WithTimeout(ctx, pageLagTime)
	defer cancel()
	d.accounts.ForgetReached() // tried again at each look
	return operate.EstimateLags(ctx, d.settings.Functions, d.accounts)
}

// behind returns how many changes each function is behind in the ranges that hosts of this process
// hold, if that is known of all of them.
func (d *Source) behind() map[string]int64 {
	sums, unknown := map[string]int64{}, map[string]bool{}
	for _, h := range d.Hosts() {
		for _, status := range h.Status {
			for _, f := range status.Functions {
				for _, r := range f.Ranges {
					if r.Epoch == 0 {
						continue // no host of this process holds it
					}
					sums[f.Name] += r.Behind
					unknown[f.Name] = unknown[f.Name] || !r.BehindKnown
				}
			}
		}
	}
	for function, is := range unknown {
		if is {
			delete(sums, function)
		}
	}
	return sums
}

// keepLags keeps the result of a look. The leases of a function that did not answer stay as they
// were, and its problem says since when.
func (d *Source) keepLags(lags []operate.FunctionLag, now time.Time) {
	if d.readAt == nil {
		d.readAt = map[string]time.Time{}
	}
	for i := range lags {
		f := &lags[i]
		last := slices.IndexFunc(d.lags, func(old operate.FunctionLag) bool { return old.Name == f.Name })
		switch {
		case !f.Unread:
			d.readAt[f.Name] = now
		case last >= 0 && len(d.lags[last].Leases) > 0:
			problem := fmt.Sprintf("leases of other hosts are shown as of %s: %s", d.readAt[f.Name].UTC().Format(time.RFC3339), f.Problem)
			*f = d.lags[last]
			f.Problem = problem
		}
	}
	d.lags, d.lagsAt = lags, now
}

func (v *pageView) addHost(h Host) {
	host := page.Host{Name: h.Name, State: "running"}
	if h.Killed {
		host.State = "killed"
		v.Hosts = append(v.Hosts, host)
		return
	}
	v.own[h.Name] = true
	for _, part := range h.Status {
		for _, f := range part.Functions {
			v.problems[f.Name] = cmp.Or(v.problems[f.Name], f.Problem)
			if len(f.SharedWith) > 0 {
				v.warnings[f.Name] = operate.SharedText(slices.Concat([]string{"this app"}, f.SharedWith))
			}
			for _, r := range f.Ranges {
				key := RangeKey{f.Name, r.Range}
				if r.Paused || r.Cooldown {
					v.reported[key] = heldRange(f.Name, "", r)
					continue
				}
				host.Leases++
				v.held[key] = heldRange(f.Name, h.Name, r)
			}
		}
	}
	v.Hosts = append(v.Hosts, host)
}

// addLeases adds what the leases tell of ranges that no host of this process holds, and of
// their owners.
func (v *pageView) addLeases(lags []operate.FunctionLag) {
	for _, f := range lags {
		if len(f.Leases) > 0 || !v.holds(f.Name) {
			v.problems[f.Name] = cmp.Or(v.problems[f.Name], f.Problem)
		}
		v.warnings[f.Name] = cmp.Or(v.warnings[f.Name], f.Warning)
		if f.Units != nil {
			v.units[f.Name] = f.Units.String()
		}
		for _, l := range f.Leases {
			key := RangeKey{f.Name, l.Range}
			if _, ok := v.held[key]; ok {
				v.setPosition(key, l.Continuation, l.Checkpointed)
				continue
			}
			if v.own[l.Owner] && len(l.Stalls) == 0 {
				continue // this process has just released it
			}
			row := leasedRange(l)
			if said, ok := v.reported[key]; ok {
				row.Problem, row.Advice, row.Paused = cmp.Or(row.Problem, said.Problem), cmp.Or(row.Advice, said.Advice), row.Paused || said.Paused
				row.Stalls = append(row.Stalls, said.Stalls...)
				delete(v.reported, key)
			}
			v.Ranges = append(v.Ranges, row)
			v.addOwner(l)
		}
	}
}

func (v *pageView) holds(function string) bool {
	for key := range v.held {
		if key.Function == function {
			return true
		}
	}
	return false
}

// setPosition sets what is saved of a range that this process holds.
func (v *pageView) setPosition(key RangeKey, continuation string, checkpointed time.Time) {
	r, ok := v.held[key]
	if !ok {
		return
	}
	r.Continuation = continuation
	if checkpointed.After(r.Checkpointed) {
		r.Checkpointed = checkpointed
	}
	v.held[key] = r
}

// addOwner counts a lease of a host of another process.
func (v *pageView) addOwner(l trigger.Lag) {
	if l.Owner == "" {
		return
	}
	i := slices.IndexFunc(v.Hosts, func(h page.Host) bool { return h.Name == l.Owner })
	if i < 0 {
		i = len(v.Hosts)
		v.Hosts = append(v.Hosts, page.Host{Name: l.Owner, State: "running", Elsewhere: true})
	}
	if h := &v.Hosts[i]; h.Elsewhere {
		h.Leases++
		if slices.ContainsFunc(l.Stalls, func(s stall.Stall) bool { return s.Kind == stall.OwnerSilent }) {
			h.State = "silent"
		}
	}
}

// heldRange is a range that a host of this process holds.
func heldRange(function, owner string, r trigger.RangeStatus) page.Range {
	row := page.Range{
		Function: function, Range: r.Range, Owner: owner, Epoch: r.Epoch, LastLSN: r.LastLSN, Paused: r.Paused,
		Changes: r.Behind, Exact: r.Behind == 0, Known: r.BehindKnown, Seconds: r.BehindSeconds,
		Counted: true, Batches: r.Batches, Handled: r.Changes, Retries: r.Retries, DeadLetters: r.DeadLetters,
		Waiting: r.WaitingKeys, Blocked: r.BlockedKeys, Postponed: r.PostponedKeys, NextDue: r.NextDue, Checkpointed: r.Checkpointed,
		Problem: r.Problem, Limited: r.Limited, Stalls: r.Stalls,
	}
	if len(r.Stalls) > 0 {
		row.Advice = operate.Advice(r.Stalls[0])
	}
	return row
}

// leasedRange is a range as its lease tells of it.
func leasedRange(l trigger.Lag) page.Range {
	row := page.Range{
		Function: l.Function, Range: l.Range, Owner: l.Owner, Continuation: l.Continuation, Checkpointed: l.Checkpointed,
		Changes: l.Changes, Exact: l.Exact, Known: l.Known, Seconds: l.Seconds, DeadLetters: l.DeadLettered, Problem: l.Problem, Stalls: l.Stalls, Renewed: l.Renewed,
	}
	for i, s := range l.Stalls {
		row.Limited = l.Known && s.Kind.IsLimit() && (i == 0 || row.Limited)
		row.Advice = cmp.Or(row.Advice, operate.Advice(s))
		row.Paused = row.Paused || s.Kind == stall.Paused
	}
	return row
}

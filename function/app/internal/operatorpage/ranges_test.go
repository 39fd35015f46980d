package operatorpage

import (
	"slices"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/page"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/stall"
	"halley/trigger/units"
)

// TestPageJoinsHostsAndLeases: a range that this process holds is shown as the process
// knows it, with the position that is saved. The leases tell of all others, also of those
// that this process has lost without a release.
func TestPageJoinsHostsAndLeases(t *testing.T) {
	silent := []stall.Stall{{Kind: stall.OwnerSilent, Since: time.Now()}}
	limited := []stall.Stall{{Kind: stall.RateLimited, Since: time.Now()}}
	status := trigger.Status{Owner: "host-a", Functions: []trigger.FunctionStatus{{Name: "orders", Ranges: []trigger.RangeStatus{
		{Range: "0", Epoch: 7, Continuation: `"9"`, Changes: 4, Problem: "handler has failed", Stalls: []stall.Stall{{Kind: stall.HandlerFails}}},
		{Range: "6", Problem: "held back by RATE", Limited: true, Stalls: []stall.Stall{{Kind: stall.RateLimited}}},
		{Range: "3", Paused: true, Problem: "paused by an operator", Stalls: []stall.Stall{{Kind: stall.Paused}}},
	}}}}
	lags := []operate.FunctionLag{{Name: "orders", Leases: []trigger.Lag{
		{Function: "orders", Range: "0", Owner: "host-a", Continuation: `"8"`},
		{Function: "orders", Range: "1", Owner: "host-a"}, // released since
		{Function: "orders", Range: "2", Owner: "host-a", Stalls: silent, Problem: "owner silent"},
		{Function: "orders", Range: "3"},
		{Function: "orders", Range: "4", Owner: "host-b"},
		{Function: "orders", Range: "5", Owner: "host-c", Stalls: silent, Problem: "owner silent"},
		{Function: "orders", Range: "7", Owner: "host-c", Known: true, Stalls: limited, Problem: "held back by RATE"},
		{Function: "orders", Range: "8", Owner: "host-c", Known: true, Stalls: append(limited[:1:1], silent...), Problem: "held back by RATE; owner silent"},
	}}, {Name: "other", Problem: "the leases cannot be read"}}
	d := &Source{
		settings: &settings.Settings{Functions: []settings.Function{settings.NewFunction(handlers.Entry{Name: "orders"})}},
		Hosts: func() []Host {
			return []Host{{Name: "host-a", Status: []trigger.Status{status}}, {Name: "host-x", Killed: true}}
		},
		lags: lags, lagsAt: time.Now(), live: 1, LagEvery: time.Hour,
	}
	state := d.look(t.Context())
	rows := map[string]page.Range{}
	for _, r := range state.Ranges {
		rows[r.Range] = r
	}
	if rows["2"].Counted || rows["4"].Counted {
		t.Error("this process has counts of a range of another one")
	}
	if r := rows["0"]; r.Continuation != `"8"` || r.Epoch != 7 || !r.Counted || r.Handled != 4 || r.Owner != "host-a" || r.Problem != "handler has failed" || r.Advice == "" {
		t.Errorf("a range that is held: %+v", r)
	}
	if _, shown := rows["1"]; shown {
		t.Error("a lease that was released is shown with its former owner")
	}
	if r := rows["2"]; r.Problem != "owner silent" || r.Advice == "" {
		t.Errorf("a lease that was lost: %+v", r)
	}
	if r := rows["3"]; !r.Paused || r.Owner != "" || r.Problem != "paused by an operator" || r.Advice == "" {
		t.Errorf("a paused range: %+v", r)
	}
	for row, want := range map[string]bool{"0": false, "2": false, "6": true, "7": true, "8": false} {
		if r := rows[row]; r.Limited != want || r.Problem == "" {
			t.Errorf("range %s is limited: %v", row, r.Limited)
		}
	}
	var titles []string
	for _, c := range state.Why {
		titles = append(titles, c.Title)
	}
	if want := []string{
		"orders: no progress in 3 of 8 ranges: 2, 5, 8", "orders: no progress in 1 of 8 ranges: 0",
		"orders: no progress in 1 of 8 ranges: 3", "orders: no progress in 2 of 8 ranges: 6, 7",
	}; !slices.Equal(titles, want) {
		t.Errorf("why: %q, want %q", titles, want)
	}
	hosts := map[string]page.Host{}
	for _, h := range state.Hosts {
		hosts[h.Name] = h
	}
	for name, want := range map[string]page.Host{
		"host-a": {Name: "host-a", State: "running", Leases: 2},
		"host-b": {Name: "host-b", State: "running", Leases: 1, Elsewhere: true},
		"host-c": {Name: "host-c", State: "silent", Leases: 3, Elsewhere: true},
		"host-x": {Name: "host-x", State: "killed"},
	} {
		if hosts[name] != want {
			t.Errorf("host %+v, want %+v", hosts[name], want)
		}
	}
}

// A host that shares its leases says so on the page, also if another app holds all of them.
func TestPageWarnsOfSharedLeases(t *testing.T) {
	status := trigger.Status{Owner: "host-a", Functions: []trigger.FunctionStatus{{Name: "orders", SharedWith: []string{"billing/orders"}}}}
	d := &Source{
		settings: &settings.Settings{Functions: []settings.Function{settings.NewFunction(handlers.Entry{Name: "orders"})}},
		Hosts:    func() []Host { return []Host{{Name: "host-a", Status: []trigger.Status{status}}} },
		lags:     []operate.FunctionLag{{Name: "orders"}}, lagsAt: time.Now(), live: 1, LagEvery: time.Hour,
	}
	state := d.look(t.Context())
	if problem := state.Functions[0].Problem; !strings.HasPrefix(problem, "this app and billing/orders take leases") || len(state.Why) != 1 {
		t.Errorf("problem %q, why %+v", problem, state.Why)
	}
}

// The page shows what a function costs, as all of its hosts tell it.
func TestPageShowsRequestUnits(t *testing.T) {
	d := &Source{
		settings: &settings.Settings{Functions: []settings.Function{settings.NewFunction(handlers.Entry{Name: "orders"})}},
		Hosts:    func() []Host { return nil },
		lags:     []operate.FunctionLag{{Name: "orders", Units: &units.Hourly{Pages: 10, Polls: 720, LeaseWrites: 3400, LeaseReads: 850}}}, lagsAt: time.Now(), LagEvery: time.Hour,
	}
	if got, want := d.look(t.Context()).Functions[0].Units, "4980 request units an hour: 10 for pages, 720 for empty polls, 3400 for lease writes, 850 for lists and reads of leases"; got != want {
		t.Errorf("the page says %q, want %q", got, want)
	}
}

// Leases that do not answer stay as they were, and the page says since when.
func TestPageMarksOldFigures(t *testing.T) {
	d, began := &Source{}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	look := func(after time.Duration, f operate.FunctionLag) operate.FunctionLag {
		d.keepLags([]operate.FunctionLag{f}, began.Add(after))
		return d.lags[0]
	}
	read := operate.FunctionLag{Name: "orders", Leases: []trigger.Lag{{Function: "orders", Range: "0", Owner: "host-b", Changes: 7}}}
	look(0, read)
	for _, after := range []time.Duration{time.Minute, 2 * time.Minute} {
		f := look(after, operate.FunctionLag{Name: "orders", Unread: true, Problem: "no answer"})
		if len(f.Leases) != 1 || f.Problem != "leases of other hosts are shown as of 2026-03-01T12:00:00Z: no answer" {
			t.Errorf("after %v: %+v", after, f)
		}
	}
	if f := look(3*time.Minute, operate.FunctionLag{Name: "orders", Problem: "no leases"}); len(f.Leases) != 0 || f.Problem != "no leases" {
		t.Errorf("after the leases were deleted: %+v", f)
	}
	if f := look(4*time.Minute, read); len(f.Leases) != 1 || f.Problem != "" {
		t.Errorf("when they answer again: %+v", f)
	}
}

package operatorpage

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"halley/function/app/internal/page"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/leases"
)

// TestPageBeyondLoopbackNeedsToken: other machines reach a page only if its token was
// chosen, and a short one is refused.
func TestPageBeyondLoopbackNeedsToken(t *testing.T) {
	const token = "0123456789abcdef"
	for name, test := range map[string]struct {
		address, token string
		says           string // "" listens
		private        bool
		printed        string // end of the address that is printed
	}{
		"loopback":                   {"127.0.0.1:0", "", "", false, "?token="},
		"loopback with a token":      {"127.0.0.1:0", token, "", false, "/"},
		"beyond, without a token":    {"0.0.0.0:0", "", "set HALLEY_PAGE_TOKEN", false, ""},
		"all addresses, no token":    {":0", "", "set HALLEY_PAGE_TOKEN", false, ""},
		"short token":                {"127.0.0.1:0", "secret", "has 6 characters: give it 16 or more", false, ""},
		"no address":                 {"8082", token, "write an address such as 127.0.0.1:8082", false, ""},
		"not asked for, short token": {"", "secret", "", false, ""},
	} {
		l, err := Listen(test.address, &settings.Settings{App: settings.App{PageToken: handlers.Secret(test.token)}})
		if (err == nil) != (test.says == "") || err != nil && (!strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: error %v", name, err)
		}
		if l == nil {
			continue
		}
		if address := l.Address(); l.private != test.private || !strings.Contains(address, test.printed) || test.token != "" && strings.Contains(address, test.token) {
			t.Errorf("%s: private %v, address %s", name, l.private, address)
		}
		l.Shut()
	}
}

// TestMovedLeasesAreNoticed: owners, ranges and positions that moved back make a plan
// invalid; progress does not.
func TestMovedLeasesAreNoticed(t *testing.T) {
	step := func(change func(*leases.Step)) leases.Plan {
		s := leases.Step{Range: "3", Owner: "host-a", Action: leases.ActionSeek, From: `"10"`, To: `"4"`, Repeated: 6, Known: true}
		if change != nil {
			change(&s)
		}
		return leases.Plan{Function: "orders", Steps: []leases.Step{s}}
	}
	for name, test := range map[string]struct {
		now  leases.Plan
		says string // "" is not moved
	}{
		"same":          {step(nil), ""},
		"progress":      {step(func(s *leases.Step) { s.From, s.Repeated = `"12"`, 8 }), ""},
		"owner":         {step(func(s *leases.Step) { s.Owner = "host-b" }), "range 3 moved from owner host-a to host-b"},
		"free":          {step(func(s *leases.Step) { s.Owner = "" }), "to (free)"},
		"moved back":    {step(func(s *leases.Step) { s.From, s.Repeated = `"6"`, 2 }), `range 3 is at "6", and was at "10"`},
		"there already": {step(func(s *leases.Step) { s.Nothing, s.Repeated = true, 6 }), "another state"},
		"refused":       {step(func(s *leases.Step) { s.Refused = "a .NET host owns it" }), ".NET host"},
		"replaced":      {step(func(s *leases.Step) { s.Range = "4" }), "range 3 has been replaced"},
		"split":         {leases.Plan{Steps: append(step(nil).Steps, step(nil).Steps...)}, "1 ranges, and now there are 2"},
	} {
		if err := movedSince(step(nil), test.now); (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v, want %q", name, err, test.says)
		}
	}
	ahead := step(func(s *leases.Step) { s.To, s.Repeated, s.Skipped = `"20"`, 0, 10 })
	passed := step(func(s *leases.Step) { s.From, s.To, s.Repeated = `"25"`, `"20"`, 5 })
	if movedSince(ahead, passed) == nil {
		t.Error("a position that was to be skipped to would be repeated from")
	}
}

// TestEffectsNameEachRange: a plan says what happens to each range, without the ones that
// stay as they are, and lists no more than a viewer can read.
func TestEffectsNameEachRange(t *testing.T) {
	plan := leases.Plan{Steps: []leases.Step{
		{Range: "0", Owner: "host-a", Action: leases.ActionSeek, From: `"9"`, To: `"4"`, Repeated: 5, Known: true},
		{Range: "1", Action: leases.ActionPause, From: `"2"`, Reason: "maintenance"},
		{Range: "2", Action: leases.ActionPause, Nothing: true},
		{Range: "3", Action: leases.ActionSeek, From: `"9"`, To: `"9"`, Repeated: 4, Known: true, Reason: "because"},
	}}
	want := []string{`Range 0, owner host-a: seek from "9" to "4": repeats up to 5 transactions.`, `Range 1, owner (free), at "2": stops: maintenance.`, `Range 3, owner (free): seek from "9" to "9": repeats up to 4 transactions, because.`}
	if got := leaseEffects(plan); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	plan.Steps = slices.Repeat(plan.Steps[:1], maxEffects+3)
	if got := leaseEffects(plan); len(got) != maxEffects+1 || got[maxEffects] != "And 3 ranges more." {
		t.Errorf("%d lines, the last is %s", len(got), got[len(got)-1])
	}
}

// TestDeadLettersOfUnopenedFunctionsAreErrors: if no host of dev runs, the page says so.
func TestDeadLettersOfUnopenedFunctionsAreErrors(t *testing.T) {
	o := &Operator{
		settings: &settings.Settings{Functions: []settings.Function{settings.NewFunction(handlers.Entry{Name: "orders"})}},
		opened:   func(string) (trigger.Function, error) { return trigger.Function{}, errors.New("no host runs") },
	}
	if l, err := o.deadLetters(t.Context(), page.LetterQuery{Limit: 10}); err != nil || l.Problem != "dead letters of orders: no host runs" {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := o.planDiscard(t.Context(), page.Request{Select: page.Selection{Function: "orders"}}); err == nil || !strings.Contains(err.Error(), "no host runs") {
		t.Errorf("error %v", err)
	}
}

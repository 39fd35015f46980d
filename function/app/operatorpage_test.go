package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
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
		l, err := listenForOperators(test.address, &settings.Settings{App: settings.App{PageToken: handlers.Secret(test.token)}})
		if (err == nil) != (test.says == "") || err != nil && (!strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: error %v", name, err)
		}
		if l == nil {
			continue
		}
		if address := l.address(); l.private != test.private || !strings.Contains(address, test.printed) || test.token != "" && strings.Contains(address, test.token) {
			t.Errorf("%s: private %v, address %s", name, l.private, address)
		}
		l.close()
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

// TestWrappedRequestsReachThePage: the Functions host's invocation becomes the request
// that the viewer sent, and the address without a slash is corrected.
func TestWrappedRequestsReachThePage(t *testing.T) {
	p, err := page.New(page.Options{
		App: "shop", Token: "0123456789abcdef", Recorder: &page.Recorder{}, Private: true, Polled: true,
		Source: page.Source{Look: func(context.Context) page.State { return page.State{} }, DeadLetters: (&operator{settings: &settings.Settings{}}).deadLetters},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	call := func(p *page.Page, req string) (status int, headers map[string]string, body string) {
		t.Helper()
		outputs, err := pageAnswers(p)(t.Context(), invocation{Data: map[string]json.RawMessage{"req": json.RawMessage(req)}})
		if err != nil {
			t.Fatal(err)
		}
		res := outputs["res"].(map[string]any)
		return res["statusCode"].(int), res["headers"].(map[string]string), res["body"].(string)
	}
	const headers = `"Headers":{"authorization":["Bearer 0123456789abcdef"],"x-forwarded-for":["203.0.113.7:1234"]},`
	for name, test := range map[string]struct {
		req    string
		status int
		has    string
	}{
		"page":          {`{"Url":"https://shop.example/api/status/","Method":"GET",` + headers + `"Params":{},"Body":null}`, 200, "page.js"},
		"data":          {`{"Url":"https://shop.example/api/status/api/v1/status","Method":"GET",` + headers + `"Params":{"path":"api/v1/status"}}`, 200, `"polled":true`},
		"text of JSON":  {`"{\"Url\":\"https://shop.example/api/status/page.css\",\"Method\":\"GET\",\"Params\":{\"path\":\"page.css\"}}"`, 200, "color-scheme"},
		"no token":      {`{"Url":"https://shop.example/api/status/api/v1/status","Method":"GET","Params":{"path":"api/v1/status"}}`, 401, "HALLEY_PAGE_TOKEN"},
		"sign in":       {`{"Url":"https://shop.example/api/status/sign-in","Method":"POST","Params":{"path":"sign-in"},"Body":"token=0123456789abcdef"}`, 303, ""},
		"another site":  {`{"Url":"https://shop.example/api/status/api/v1/plans","Method":"POST","Headers":{"sec-fetch-site":["cross-site"],"authorization":["Bearer 0123456789abcdef"]},"Params":{"path":"api/v1/plans"},"Body":"{}"}`, 403, "origin"},
		"without slash": {`{"Url":"https://shop.example/api/status?token=x","Method":"GET","Params":{}}`, 302, ""},
	} {
		status, got, body := call(p, test.req)
		if status != test.status || !strings.Contains(body, test.has) {
			t.Errorf("%s: status %d, want %d: %s", name, status, test.status, body)
		}
		switch name {
		case "sign in":
			if cookie := got["Set-Cookie"]; !strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "HttpOnly") || strings.Contains(cookie, "Path=") {
				t.Errorf("cookie %q", cookie)
			}
		case "without slash":
			if got["Location"] != "status/?token=x" {
				t.Errorf("location %q", got["Location"])
			}
		}
	}
	if status, _, body := call(nil, `{"Url":"https://shop.example/api/status/","Method":"GET"}`); status != http.StatusServiceUnavailable || !strings.Contains(body, "set HALLEY_PAGE_TOKEN") {
		t.Errorf("without a token: %d %s", status, body)
	}
	if _, err := pageAnswers(p)(t.Context(), invocation{}); err == nil {
		t.Error("an invocation without a request is answered")
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
	o := &operator{
		settings: &settings.Settings{Functions: []settings.Function{settings.NewFunction(pageApp().Handlers[0])}},
		opened:   func(string) (trigger.Function, error) { return trigger.Function{}, errors.New("no host runs") },
	}
	var problems []error
	for _, err := range o.deadLetters(t.Context(), trigger.RecordDead, 10) {
		problems = append(problems, err)
	}
	if len(problems) != 1 || problems[0] == nil {
		t.Errorf("problems %v", problems)
	}
	if _, err := o.planDiscard(t.Context(), page.Request{Select: page.Selection{Function: "orders"}}); err == nil || !strings.Contains(err.Error(), "no host runs") {
		t.Errorf("error %v", err)
	}
}

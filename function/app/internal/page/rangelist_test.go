package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// manyRanges are 1,000 ranges of four functions: each 250th is stalled, each 100th paused.
func manyRanges() State {
	s := State{}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.Functions = append(s.Functions, Function{Name: name})
	}
	for i := range 1000 {
		r := Range{Function: s.Functions[i/250].Name, Range: fmt.Sprint(i), Owner: "host", Known: true, Changes: int64(i % 2)}
		switch {
		case i%250 == 249:
			r.Problem = "handler has failed"
		case i%100 == 0:
			r.Owner, r.Paused, r.Problem = "", true, "paused by an operator"
		case i == 555:
			r.Limited, r.Problem = true, "held back"
		case i == 556:
			r.Owner = ""
		}
		s.Ranges = append(s.Ranges, r)
	}
	return s
}

func pageOfRanges(t *testing.T, look func() State) *Page {
	t.Helper()
	p := pageOf(t, func(context.Context, LetterQuery) (LetterPage, error) { return LetterPage{}, nil })
	p.options.Source.Look = func(context.Context) State { return look() }
	return p
}

func keysOf(l items[Range]) (keys []string) {
	for _, r := range l.Items {
		keys = append(keys, r.Range)
	}
	return keys
}

// The list has each range once, those with a problem first, and 100 in an answer.
func TestRangesComeWithProblemsFirst(t *testing.T) {
	p := pageOfRanges(t, manyRanges)
	seen, after := map[string]bool{}, ""
	for number := 0; ; number++ {
		l := decode[items[Range]](t, ask(t, p, "GET", "/api/v1/ranges?after="+after, "", nil), 200)
		if len(l.Items) != 100 || l.Total != 1000 {
			t.Fatalf("%d of %d ranges", len(l.Items), l.Total)
		}
		if number == 0 && strings.Join(keysOf(l)[:5], " ") != "249 499 749 999 0" {
			t.Errorf("the first ranges are %v", keysOf(l)[:5])
		}
		for _, key := range keysOf(l) {
			seen[key] = true
		}
		if after = l.Next; after == "" {
			break
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d ranges are listed", len(seen))
	}
	if l := decode[items[Range]](t, ask(t, p, "GET", "/api/v1/ranges?after=5000", "", nil), 200); len(l.Items) != 100 || l.Items[0].Range != "899" && l.Items[99].Range != "998" {
		t.Errorf("behind the end: %v", keysOf(l))
	}
	st := decode[status](t, ask(t, p, "GET", "/api/v1/status", "", nil), 200)
	if f := st.Functions[2]; f.Ranges != 250 || f.Stalled != 1 || st.Health.Problems != 4 || st.Health.Paused != 10 {
		t.Errorf("function %+v, health %+v", f, st.Health)
	}
}

func TestRangesAreFiltered(t *testing.T) {
	p := pageOfRanges(t, manyRanges)
	for _, test := range []struct {
		filter url.Values
		total  int
		first  string
	}{
		{url.Values{"function": {"b"}}, 250, "499"},
		{url.Values{"range": {"17"}}, 1, "17"},
		{url.Values{"rangeState": {"stalled"}}, 4, "249"},
		{url.Values{"rangeState": {"stalled"}, "function": {"d"}}, 1, "999"},
		{url.Values{"rangeState": {"paused"}}, 10, "0"},
		{url.Values{"rangeState": {"limited"}}, 1, "555"},
		{url.Values{"rangeState": {"free"}}, 1, "556"},
		{url.Values{"rangeState": {"caught up"}}, 489, "2"},
		{url.Values{"rangeState": {"behind"}}, 495, "1"},
		{url.Values{"range": {"nothing"}}, 0, ""},
	} {
		l := decode[items[Range]](t, ask(t, p, "GET", "/api/v1/ranges?"+test.filter.Encode(), "", nil), 200)
		if l.Total != test.total || len(l.Items) > 0 && l.Items[0].Range != test.first {
			t.Errorf("%v: %d ranges, the first are %v", test.filter, l.Total, keysOf(l)[:min(3, len(l.Items))])
		}
	}
	plain := ask(t, p, "GET", "/plain?rangeState=stalled&function=b", "", nil)
	text := make([]byte, 1<<20)
	n, _ := plain.Body.Read(text)
	if body := string(text[:n]); strings.Count(body, "stalled: handler has failed") != 1 || !strings.Contains(body, "1 of 1 ranges") {
		t.Error("the page without a script has no filter of ranges")
	}
}

// A stream sends the shown part of the ranges alone, then the rows that changed and the order.
func TestStreamSendsTheShownRanges(t *testing.T) {
	var stalled atomic.Int64
	stalled.Store(-1)
	p := pageOfRanges(t, func() State {
		s := manyRanges()
		if i := stalled.Load(); i >= 0 {
			s.Ranges[i].Problem = "owner silent"
		}
		return s
	})
	next, _ := openStream(t, serve(t, p), "?run="+p.run+"&since=0", "")
	ranges := func() (u rangeUpdate) {
		t.Helper()
		for {
			e := next()
			if e.name == "range" {
				if err := json.Unmarshal([]byte(e.data), &u); err != nil {
					t.Fatal(err)
				}
				return u
			}
		}
	}
	first := ranges()
	if len(first.Items) != 100 || len(first.Keys) != 100 || first.Total != 1000 || first.Keys[0] != "a\n249" {
		t.Fatalf("%d rows, %d keys", len(first.Items), len(first.Keys))
	}
	stalled.Store(701)
	second := ranges()
	if len(second.Items) != 1 || second.Items[0].Range != "701" || slices.Index(second.Keys, "c\n701") != 2 || len(second.Keys) != 100 {
		t.Errorf("%d rows, keys %q", len(second.Items), second.Keys[:5])
	}
}

// A link to one range or dead letter leads there after the viewer has signed in, and never to
// another site.
func TestSigningInKeepsTheAddress(t *testing.T) {
	p := pageOf(t, func(context.Context, LetterQuery) (LetterPage, error) { return LetterPage{}, nil })
	p.options.Private = true
	shown := ask(t, p, "GET", "/?letter=a%22b&function=orders", "", func(r *http.Request) { r.Header.Del("Authorization") })
	text := make([]byte, 1<<16)
	n, _ := shown.Body.Read(text)
	if !strings.Contains(string(text[:n]), `action="sign-in?function=orders&amp;letter=a%22b"`) {
		t.Errorf("the form is\n%s", text[:n])
	}
	for path, want := range map[string]string{
		"/sign-in?letter=a":         "./?letter=a",
		"/sign-in?//evil.example":   "./?%2F%2Fevil.example=",
		"/sign-in":                  "./",
		"/sign-in?token=x&letter=a": "./?letter=a",
	} {
		r := ask(t, p, "POST", path, "token=right", nil)
		if got := r.Header.Get("Location"); r.StatusCode != http.StatusSeeOther || got != want {
			t.Errorf("%s leads to %q with %d, want %q", path, got, r.StatusCode, want)
		}
	}
	if got := ask(t, p, "GET", "/?token=right&letter=a", "", nil).Header.Get("Location"); got != "./?letter=a" {
		t.Errorf("the address with the token leads to %q", got)
	}
}

package cosmos

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rangesBody returns the body of an answer that lists ranges.
func rangesBody(ranges ...Range) string {
	type entry struct {
		ID      string   `json:"id"`
		Min     string   `json:"minInclusive"`
		Max     string   `json:"maxExclusive"`
		Parents []string `json:"parents"`
	}
	var list []entry
	for _, r := range ranges {
		list = append(list, entry(r))
	}
	text, _ := json.Marshal(map[string]any{"_rid": "r", "PartitionKeyRanges": list, "_count": len(list)})
	return string(text)
}

func rangesAnswer(etag string, ranges ...Range) func() *http.Response {
	return func() *http.Response { return reply(200, rangesBody(ranges...), "Etag", etag) }
}

func unchanged(etag string) func() *http.Response {
	return func() *http.Response { return reply(304, "", "Etag", etag) }
}

var (
	root  = Range{ID: "0", Min: "", Max: "FF", Parents: []string{}}
	low   = Range{ID: "1", Min: "", Max: "1F", Parents: []string{"0"}}
	high  = Range{ID: "2", Min: "1F", Max: "FF", Parents: []string{"0"}}
	whole = Range{ID: "3", Min: "", Max: "FF", Parents: []string{"0", "1", "2"}}
)

func ids(ranges []Range) (ids string) {
	for _, r := range ranges {
		ids += r.ID
	}
	return ids
}

// The first read takes two requests, a later read without changes takes one.
// Splits and merges arrive as differences.
func TestRangesAreReadIncrementally(t *testing.T) {
	s := newService(t,
		rangesAnswer(`"1"`, root), unchanged(`"1"`),
		unchanged(`"1"`),
		rangesAnswer(`"2"`, high, low), unchanged(`"2"`),
		rangesAnswer(`"3"`, whole), unchanged(`"3"`))
	c := s.container()
	for i, want := range []struct {
		ids      string
		requests int
	}{{"0", 2}, {"0", 3}, {"12", 5}, {"3", 7}} {
		got, err := c.Ranges(t.Context())
		if err != nil || ids(got) != want.ids || len(s.requests) != want.requests {
			t.Fatalf("read %d: %+v after %d requests, %v", i, got, len(s.requests), err)
		}
	}
	var sent []string
	for _, r := range s.requests {
		sent = append(sent, r.Header.Get("If-None-Match"))
		if r.Header.Get("A-IM") != "Incremental Feed" || r.Header.Get("x-ms-max-item-count") != "-1" {
			t.Errorf("headers %v", r.Header)
		}
	}
	if diff := cmp.Diff([]string{"", `"1"`, `"1"`, `"1"`, `"2"`, `"2"`, `"3"`}, sent); diff != "" {
		t.Error(diff)
	}
}

func TestRangesOnSeveralPages(t *testing.T) {
	s := newService(t, rangesAnswer(`"1"`, low), rangesAnswer(`"2"`, high, root), unchanged(`"2"`))
	got, err := s.container().Ranges(t.Context())
	if diff := cmp.Diff([]Range{low, high}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A service without incremental reads returns all ranges and no new etag, which
// ends the read.
func TestRangesWithoutEtag(t *testing.T) {
	s := newService(t, func() *http.Response { return reply(200, rangesBody(low, high)) })
	got, err := s.container().Ranges(t.Context())
	if err != nil || ids(got) != "12" || len(s.requests) != 1 {
		t.Errorf("%+v after %d requests, %v", got, len(s.requests), err)
	}
}

// If the differences do not match the known ranges, all ranges are read again.
func TestInconsistentRangesAreReadAgain(t *testing.T) {
	s := newService(t,
		rangesAnswer(`"1"`, root), unchanged(`"1"`),
		rangesAnswer(`"2"`, low), unchanged(`"2"`),
		rangesAnswer(`"2"`, low, high), unchanged(`"2"`))
	c := s.container()
	for _, want := range []string{"0", "12"} {
		got, err := c.Ranges(t.Context())
		if err != nil || ids(got) != want {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if got := s.requests[4].Header.Get("If-None-Match"); got != "" {
		t.Errorf("read again from %s", got)
	}
}

func TestForgetReadsRangesAgain(t *testing.T) {
	s := newService(t, rangesAnswer(`"1"`, root), unchanged(`"1"`), rangesAnswer(`"9"`, low, high), unchanged(`"9"`))
	c := s.container()
	if _, err := c.Ranges(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Forget()
	c.Forget()
	if got, err := c.Ranges(t.Context()); err != nil || ids(got) != "12" || s.requests[2].Header.Get("If-None-Match") != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestInvalidRangesAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		answer any
		want   string
	}{
		"none":        {rangesAnswer(`"1"`), `ends at ""`},
		"gap":         {rangesAnswer(`"1"`, Range{ID: "1", Max: "10"}, Range{ID: "2", Min: "20", Max: "FF"}), `range 2 begins at "20" instead of "10"`},
		"overlap":     {rangesAnswer(`"1"`, Range{ID: "1", Max: "20"}, Range{ID: "2", Min: "10", Max: "FF"}), `range 2 begins at "10" instead of "20"`},
		"late start":  {rangesAnswer(`"1"`, Range{ID: "1", Min: "05", Max: "FF"}), `begins at "05" instead of ""`},
		"early end":   {rangesAnswer(`"1"`, Range{ID: "1", Max: "3F"}), `ends at "3F"`},
		"number ids":  {ok(`{"PartitionKeyRanges":[{"id":0,"minInclusive":"","maxExclusive":"FF"}]}`), "not the expected JSON"},
		"HTML":        {ok("<html>"), "not the expected JSON"},
		"no owner":    {status(404, "x-ms-substatus", "1003"), `database "Games", container "High Scores"`},
		"no end":      {func() *http.Response { return reply(200, rangesBody(root), "Etag", time.Now().String()) }, "not complete after 1000 pages"},
		"id is empty": {rangesAnswer(`"1"`, Range{Max: "FF"}), "a range without an id"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, test.answer, test.answer)
			if name == "no end" {
				n := 0
				s.answer = func(int, *http.Request) (*http.Response, error) {
					n++
					return reply(200, rangesBody(root), "Etag", strings.Repeat("x", n)), nil
				}
			}
			_, err := s.container().Ranges(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A caller that waits for another read returns when its context ends.
func TestRangesWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.answer = hang
		c := s.container()
		first, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		done := make(chan error)
		go func() { _, err := c.Ranges(first); done <- err }()
		synctest.Wait()
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := c.Ranges(second); err == nil || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		<-done
	})
}

func TestCompareKeys(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "00", 0}, {"", "0001", -1}, {"05C1", "05C10000", 0}, {"05C1", "05C2", -1},
		{"FF", "05C1E1", 1}, {"3F", "3FFF", -1}, {"FF", "FF", 0},
	} {
		if got := CompareKeys(test.a, test.b); got != test.want {
			t.Errorf("%q, %q: %d", test.a, test.b, got)
		}
		if got := CompareKeys(test.b, test.a); got != -test.want {
			t.Errorf("%q, %q: %d", test.b, test.a, got)
		}
	}
}

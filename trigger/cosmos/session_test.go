package cosmos

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

func TestSessionTokensMerge(t *testing.T) {
	for _, test := range []struct{ before, after, want string }{
		{"-1#5", "-1#7", "-1#7"},
		{"-1#7", "-1#5", "-1#7"},
		{"1#100#1=20#2=5", "1#90#1=19#2=8", "1#100#1=20#2=8"},
		{"1#100#3=99", "2#5#3=3", "2#5#3=99"}, // a failover has lost LSN 6 to 100
		{"2#5#3=3", "1#100#3=99", "2#5#3=99"},
		{"1#10", "2#20#3=19", "2#20#3=19"},
	} {
		oldToken, err := parseSessionToken(test.before)
		newToken, afterErr := parseSessionToken(test.after)
		if err != nil || afterErr != nil {
			t.Fatal(err, afterErr)
		}
		if got := oldToken.merge(newToken).text; got != test.want {
			t.Errorf("%s and %s: %s, want %s", test.before, test.after, got, test.want)
		}
	}
	for _, text := range []string{"", "7", "#7", "1#", "x#7", "1#x", "1#7#3", "1#7#3=", "1#7#3=x"} {
		if token, err := parseSessionToken(text); err == nil {
			t.Errorf("%q is read as %+v", text, token)
		}
	}
}

// Each feed read carries the newest token of its range from all answers about
// documents: pages, writes, failures and queries. Answers about the container and its
// ranges have tokens of other partitions.
func TestFeedReadsContinueSession(t *testing.T) {
	zero, one := Range{ID: "0", Max: "80"}, Range{ID: "1", Min: "80", Max: "FF"}
	child := Range{ID: "4", Max: "40", Parents: []string{"0"}}
	grandchild := Range{ID: "6", Max: "20", Parents: []string{"0", "4"}}
	merged := Range{ID: "8", Max: "FF", Parents: []string{"0", "4", "6", "1"}}

	var answer func() *http.Response
	s := newService(t)
	s.answer = func(_ int, req *http.Request) (*http.Response, error) {
		switch {
		case !strings.HasSuffix(req.URL.Path, "/pkranges"):
			return answer(), nil
		case req.Header.Get("If-None-Match") != "":
			return reply(304, "", "Etag", `"1"`, "x-ms-session-token", "0:-1#1000"), nil
		}
		return reply(200, rangesBody(root), "Etag", `"1"`, "x-ms-session-token", "0:-1#1000"), nil
	}
	c := s.container()
	read := func(r Range) func() error {
		return func() error {
			_, err := c.ReadFeed(t.Context(), FeedRequest{Range: r})
			return err
		}
	}
	explicitly := func() error {
		_, err := c.ReadFeed(t.Context(), FeedRequest{Range: merged, SessionToken: "8:0#50"})
		return err
	}
	write := func() error { return writeOne(t.Context(), c) }
	conflict := func() error {
		if err := write(); !IsPreconditionFailed(err) {
			return errors.Join(errOther, err)
		}
		return nil
	}
	query := func() error { return aQuery(t.Context(), c) }
	ranges := func() error { _, err := c.Ranges(t.Context()); return err }
	created := func() error { c.Forget(); return read(merged)() }
	for _, step := range []struct {
		name   string
		call   func() error
		want   string // token of the request
		answer string // token of the answer
	}{
		{"first read", read(zero), "", "0:-1#5"},
		{"next read", read(zero), "0:-1#5", "0:-1#7"},
		{"other range", read(one), "", "1:-1#30"},
		{"late answer", read(zero), "0:-1#7", "0:-1#6"},
		{"after a late answer", read(zero), "0:-1#7", "0:-1#7"},
		{"write", write, "", "0:-1#9"},
		{"after a write", read(zero), "0:-1#9", "0:-1#9"},
		{"conflict", conflict, "", "0:-1#12"},
		{"after a conflict", read(zero), "0:-1#12", "0:-1#12"},
		{"query", query, "", "1:-1#31, 0:-1#13"},
		{"after a query", read(zero), "0:-1#13", ""},
		{"without a token", read(zero), "0:-1#13", "0:99"},
		{"another form", read(zero), "0:-1#13", "0:-1#13"},
		{"ranges", ranges, "", ""},
		{"after the ranges", read(zero), "0:-1#13", "0:-1#13"},
		{"child", read(child), "4:-1#13", "4:-1#14"},
		{"child of a child", read(grandchild), "6:-1#14", "6:-1#20"},
		{"merged range", read(merged), "8:-1#31", "8:0#32"},
		{"after the merge", read(merged), "8:0#32", "8:0#33"},
		{"explicit token", explicitly, "8:0#50", "8:0#50"},
		{"after an explicit token", read(merged), "8:0#50", "8:0#50"},
		{"container created again", created, "", "8:-1#1"},
		{"after that", read(merged), "8:-1#1", "8:-1#1"},
	} {
		answer = ok(emptyPage, "x-ms-session-token", step.answer)
		if step.name == "conflict" {
			answer = status(412, "x-ms-session-token", step.answer)
		}
		if err := step.call(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := s.requests[len(s.requests)-1].Header.Get("x-ms-session-token"); got != step.want {
			t.Errorf("%s carries %q, want %q", step.name, got, step.want)
		}
	}
}

// A region that is behind the session is not believed: the next region answers. If no
// region ever reaches it, as after a failover that has lost writes, the range is read
// again in a new session.
const (
	absentDocument  = `{"code":"NotFound","message":"Entity with the specified id does not exist in the system. More info: https://aka.ms/cosmosdb-tsg-not-found"}`
	absentContainer = `{"code":"NotFound","message":"Message: {\"Errors\":[\"Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found\"]}\r\nActivityId: 1"}`
)

// The master partition answers requests for documents of an absent container: 404 without
// a substatus, with its own session token (recorded answer of a hosted account, October 2026).
func TestAbsentContainerIsToldFromAbsentDocument(t *testing.T) {
	absent := func() *http.Response { return reply(404, absentContainer, "x-ms-session-token", "0:-1#45") }
	for name, test := range map[string]struct {
		call     func(context.Context, *Container) error
		answers  []any
		want     Outcome
		requests int
	}{
		"feed":     {readFeedOnce, []any{absent}, OutcomeContainerGone, 1},
		"query":    {aQuery, []any{absent}, OutcomeContainerGone, 1},
		"write":    {writeOne, []any{absent}, OutcomeContainerGone, 2},
		"read":     {readOne, []any{absent}, OutcomeContainerGone, 2},
		"document": {readOne, []any{status(404, "x-ms-session-token", "0:-1#45"), ok(`{"_rid":"x"}`)}, OutcomeNotFound, 2},
		"told":     {readOne, []any{func() *http.Response { return reply(404, absentDocument) }}, OutcomeNotFound, 1},
		"older":    {readOne, []any{status(404, "x-ms-substatus", "1003")}, OutcomeContainerGone, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, test.answers...)
			c := s.container()
			err := test.call(t.Context(), c)
			if got := Classify(err); got != test.want || IsDocumentNotFound(err) != (test.want == OutcomeNotFound) || len(s.requests) != test.requests {
				t.Errorf("%v: outcome %d after %d requests", err, got, len(s.requests))
			}
			if named := strings.Contains(err.Error(), `database "Games", container "High Scores"`); named != (test.want == OutcomeContainerGone) {
				t.Errorf("advice: %v", err)
			}
			if token := c.SessionToken(wholeRange); token != "" {
				t.Errorf("session %q is of the master partition", token)
			}
		})
	}
}

func TestLostSessionBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reached, writtenAt := "-1#7", "-1#9"
		s := newService(t)
		s.answer = func(_ int, req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet {
				return reply(201, "", "Etag", `"1"`, "x-ms-session-token", "1:"+writtenAt), nil
			}
			if token := req.Header.Get("x-ms-session-token"); token != "" && token != "1:"+reached && token != "2:"+reached {
				return status(404, "x-ms-substatus", "1002")(), nil
			}
			return ok(emptyPage, "x-ms-session-token", "1:"+reached)(), nil
		}
		c := s.container()
		parent, child := Range{ID: "1", Max: "FF"}, Range{ID: "2", Max: "80", Parents: []string{"1"}}
		for _, r := range []Range{parent, child} {
			if err := writeOne(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			for _, want := range []Outcome{OutcomeTransient, OutcomeSucceeded, OutcomeSucceeded} {
				if _, err := c.ReadFeed(t.Context(), FeedRequest{Range: r}); Classify(err) != want {
					t.Fatalf("range %s: %v, want %d", r.ID, err, want)
				}
			}
		}
	})
}

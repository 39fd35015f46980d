package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

func TestRequest(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	b := trigger.NewBatch(triggertest.Replace(`{"id":"1","total":2}`, `{"id":"1","total":1}`, "ada"), triggertest.Delete("2", "ada", 7))
	b.Function, b.Range, b.Epoch, b.Attempt = "remote", cosmos.Range{ID: "3"}, 7, 2
	b.Changes[0].LSN, b.Changes[0].Time, b.Changes[1].LSN, b.Changes[1].Time = 42, at, 43, at
	text, err := call{protocolVersion, 5, b}.appendTo(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), "\n") != 1 || !strings.HasSuffix(string(text), "\n") {
		t.Errorf("the request is not one line: %q", text)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"version": 1.0, "call": 5.0, "function": "remote", "range": "3", "epoch": 7.0, "attempt": 2.0,
		"changes": []any{
			map[string]any{
				"index": 0.0, "id": "1", "partitionKey": []any{"ada"}, "operation": "replace", "lsn": 42.0, "time": "2026-03-04T05:06:07Z",
				"document": map[string]any{"id": "1", "total": 2.0}, "previous": map[string]any{"id": "1", "total": 1.0},
			},
			map[string]any{
				"index": 1.0, "id": "2", "partitionKey": []any{"ada", 7.0}, "operation": "delete", "lsn": 43.0, "time": "2026-03-04T05:06:07Z",
				"document": nil, "previous": nil,
			},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A channel has each field of the changes in a list. Lists that say nothing are left out.
func TestRequestInColumns(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	first, second := triggertest.Upsert(`{"id":"1"}`, "ada"), triggertest.Upsert(`{"id":"2"}`, "ada", 7)
	first.LSN, first.Time, second.LSN, second.Time = 42, at, 43, at
	upserts := `"partitionKeys":["ada",["ada",7]],"lsns":[42,43],"times":["2026-03-04T05:06:07Z","2026-03-04T05:06:07Z"],"documents":[{"id":"1"},{"id":"2"}]}`
	replaced, deleted := triggertest.Replace(`{"id":"1","total":2}`, `{"id":"1"}`, "ada"), triggertest.Delete("2", "ada", 7)
	replaced.LSN, replaced.Time, deleted.LSN, deleted.Time = 42, at, 43, at
	all := `"ids":["1","2"],` + strings.Replace(upserts, `"documents":[{"id":"1"},{"id":"2"}]}`, `"operations":["replace","delete"],"previous":[{"id":"1"},null],"documents":[{"id":"1","total":2},null]}`, 1)
	quoted := triggertest.Delete("1", `a"b`)
	quoted.LSN, quoted.Time = 42, at
	for want, changes := range map[string][]trigger.Change{
		upserts: {first, second},
		all:     {replaced, deleted},
		`"ids":["1"],"partitionKeys":[["a\"b"]],"lsns":[42],"times":["2026-03-04T05:06:07Z"],"operations":["delete"],"documents":[null]}`: {quoted},
		`"partitionKeys":[],"lsns":[],"times":[],"documents":[]}`:                                                                         nil,
	} {
		text, err := call{channelVersion, 5, trigger.NewBatch(changes...)}.appendTo(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		want = `{"version":2,"call":5,"function":"","range":"","epoch":1,"attempt":1,` + want + "\n"
		if d := cmp.Diff(want, string(text)); d != "" {
			t.Error(d)
		}
	}
}

// Whatever ends a line in Python or Node.js, a request is one line, and its documents are the
// same. What need not be escaped stays as it is.
func TestRequestIsOneLine(t *testing.T) {
	for _, document := range []string{
		"{\"id\":\"1\",\n\"text\":\"x\"}", "{\"id\":\"1\",\r\"text\":\"x\"}", "{\"id\":\"1\",\"text\":\"\u2028\"}", "{\"id\":\"1\",\"text\":\"\u2029\"}",
		`{"id":"a","text":"` + strings.Repeat("x", 99) + "ü\u2028\U0001f600" + `"}`, `{"id":"é","text":"日本語日本語"}`, `{"id":"a","text":"日本語\u2029"}`,
		`{"id":"a\"b\\c","text":"\r\n"}`, `{"id":"a\"b","text":"x"}`, `{"id":"Zürich <1>","text":"x"}`,
	} {
		b := trigger.NewBatch(triggertest.Upsert(document, "k"))
		rows, err := call{protocolVersion, 1, b}.appendTo(t.Context(), nil)
		columns, columnsErr := call{channelVersion, 1, b}.appendTo(t.Context(), nil)
		if err := errors.Join(err, columnsErr); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(rows), string(columns)} {
			line, isLine := strings.CutSuffix(text, "\n")
			if !isLine || strings.ContainsAny(line, "\n\r\u2028\u2029") {
				t.Errorf("the request of %q is not one line: %q", document, text)
			}
		}
		type content struct{ ID, Text string }
		var want content
		var got struct {
			Changes []struct {
				ID       string
				Document content
			}
			Documents []content
		}
		if err := errors.Join(json.Unmarshal([]byte(document), &want), json.Unmarshal(rows, &got), json.Unmarshal(columns, &got)); err != nil {
			t.Fatal(err)
		}
		if got.Changes[0].ID != want.ID || got.Changes[0].Document != want || got.Documents[0] != want {
			t.Errorf("%q arrives as %+v", document, got)
		}
	}
}

// A call tells its deadline, which is the earlier one of its context and its timeout, and
// the trace that it belongs to.
func TestRequestTellsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(handlers.WithTraceparent(t.Context(), "00-0a-0b-01"), time.Minute)
		defer cancel()
		for timeout, want := range map[time.Duration]string{0: "2000-01-01T00:01:00Z", time.Second: "2000-01-01T00:00:01Z", time.Hour: "2000-01-01T00:01:00Z"} {
			bounded, end := answerWithin(ctx, timeout)
			text, err := call{protocolVersion, 1, trigger.NewBatch()}.appendTo(bounded, nil)
			end()
			if err != nil {
				t.Fatal(err)
			}
			if head := fmt.Sprintf(`"deadline":%q,"traceparent":"00-0a-0b-01"`, want); !strings.Contains(string(text), head) {
				t.Errorf("with timeout %v the request is %s", timeout, text)
			}
		}
	})
}

// A change that is to be retried after a time is postponed.
func TestRetryAfterPostpones(t *testing.T) {
	b := trigger.NewBatch(triggertest.Upsert(`{"id":"a"}`, "x"), triggertest.Upsert(`{"id":"b"}`, "x"))
	for answer, want := range map[string]string{
		`{"results":[{"index":1,"status":"retry","error":"busy","retryAfter":1.5}]}`: `1 handled, 1 postponed "b" by 1.5s`,
		`{"error":"busy","retryAfter":60}`:                                           `0 handled, 2 postponed "a" by 1m0s, "b" by 1m0s`,
		`{"error":"busy","retryAfter":1e300,"failedFrom":1}`:                         `1 handled, 1 postponed "b" by 720h0m0s`,
	} {
		a, err := decodeAnswer(5, []byte(answer))
		if err != nil {
			t.Fatal(err)
		}
		if v := b.Judge(judge(b, a)); !strings.HasPrefix(v.String(), want) {
			t.Errorf("%s: %v, want %s", answer, v, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	b := trigger.NewBatch(triggertest.Upsert(`{"id":"a"}`, "x"), triggertest.Upsert(`{"id":"b"}`, "x"), triggertest.Upsert(`{"id":"b"}`, "y"))
	tests := []struct {
		answer  string
		failed  string // ids
		givenUp bool
		err     string
	}{
		{"", "", false, ""},
		{" \n", "", false, ""},
		{"{}", "", false, ""},
		{"null", "", false, ""},
		{`{"results":[]}`, "", false, ""},
		{`{"call":5}`, "", false, ""},
		{`{"call":4}`, "a b b", false, "malformed: it is for call 4, and this is call 5"},
		{`{"results":[{"index":0,"status":"ok"},{"index":2,"status":"retry","error":"later"}]}`, "b", false, `the function failed on document "b": later`},
		{`{"results":[{"id":"a","status":"skip","error":"no total"}]}`, "a", true, "no total"},
		{`{"batchItemFailures":[{"itemIdentifier":"a"}]}`, "a", false, "in batchItemFailures"},
		{`{"batchItemFailures":[]}`, "", false, ""},
		{`{"error":"database is down"}`, "a b b", false, "the function failed: database is down"},
		{`{"error":"database is down","failedFrom":1}`, "b b", false, "the function failed: database is down"},
		{`{"error":"no","failedFrom":2,"status":"skip"}`, "b", true, "the function failed: no"},
		{`{"results":[{"index":1,"status":"retry","retryAfter":0.5}]}`, "b", false, "the function failed"},

		{`{"result":[]}`, "a b b", false, `malformed: json: unknown field "result"`},
		{`OK`, "a b b", false, "malformed: invalid character 'O'"},
		{`[]`, "a b b", false, "malformed: json: cannot unmarshal array"},
		{`{} {}`, "a b b", false, "malformed: more than one JSON value"},
		{`{"results":[{"index":0,"status":"done"}]}`, "a b b", false, `malformed: result 0 has status "done", not ok, retry or skip`},
		{`{"results":[{"index":0}]}`, "a b b", false, `result 0 has status ""`},
		{`{"results":[{"index":3,"status":"retry"}]}`, "a b b", false, "result 0 has index 3, and the batch has 3 changes"},
		{`{"results":[{"index":-1,"status":"retry"}]}`, "a b b", false, "has index -1"},
		{`{"results":[{"status":"retry"}]}`, "a b b", false, "result 0 names no change: send its index or its id"},
		{`{"results":[{"index":0,"id":"a","status":"retry"}]}`, "a b b", false, "by index and by id"},
		{`{"results":[{"id":"c","status":"retry"}]}`, "a b b", false, `has id "c", and no change of the batch has it`},
		{`{"results":[{"id":"b","status":"retry"}]}`, "a b b", false, `has id "b", and changes 1 and 2 have it: send the index`},
		{`{"results":[{"index":0,"status":"ok"},{"id":"a","status":"retry"}]}`, "a b b", false, "result 1 is the second one for change 0"},
		{`{"error":"no","failedFrom":3}`, "a b b", false, "malformed: failedFrom is 3, and the batch has 3 changes"},
		{`{"error":"no","status":"ok"}`, "a b b", false, `malformed: the answer has an error, and status "ok"`},
		{`{"error":"no","status":"later"}`, "a b b", false, `status "later", not ok, retry or skip`},
		{`{"error":"no","status":"skip","retryAfter":3}`, "a b b", false, `retryAfter 3 with status "skip": send seconds above 0 with retry`},
		{`{"results":[{"index":0,"status":"retry","retryAfter":-1}]}`, "a b b", false, `result 0 has retryAfter -1 with status "retry"`},
		{`{"failedFrom":0}`, "a b b", false, "malformed: status, retryAfter and failedFrom of the answer need an error"},
		{`{"retryAfter":3}`, "a b b", false, "need an error"},
		{`{"status":"skip"}`, "a b b", false, "need an error"},
		{`{"batchItemFailures":[{"itemIdentifier":""}]}`, "a b b", false, "names no change"},
		{`{"results":[{"index":0,"status":"skip"},{"index":9,"status":"skip"}]}`, "a b b", false, "malformed"},
		{strings.Repeat("x", 10_000), "a b b", false, "malformed"},
	}
	for _, test := range tests {
		t.Run(shorten(test.answer), func(t *testing.T) {
			a, err := decodeAnswer(5, []byte(test.answer))
			if err == nil {
				err = judge(b, a)
			}
			v := b.Judge(err)
			if ids(v.Failed) != test.failed || v.GivenUp != test.givenUp {
				t.Errorf("verdict: %v", v)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error is %v, want %s", err, test.err)
			}
			if err != nil && len(err.Error()) > 3*maxShown {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if strings.Contains(test.err, "malformed") && !errors.Is(err, errMalformed) {
				t.Errorf("%v is not errMalformed", err)
			}
		})
	}
}

package stream

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

var encoder = Encoder{Database: "shop", Container: "orders"}

// encode returns the messages of changes as the first owner of a range gets them.
func encode(t testing.TB, changes ...trigger.Change) []Message {
	t.Helper()
	return encodeBatch(t, encoder, trigger.NewBatch(changes...))
}

func encodeBatch(t testing.TB, e Encoder, b trigger.Batch) []Message {
	t.Helper()
	messages, err := e.Messages(b)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func TestEnvelope(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	change := triggertest.Replace(`{"id":"1","customer":"ada","total":2,"note":"<\u0000>","_etag":"\"b\""}`, `{"id":"1","customer":"ada","total":1}`, "ada")
	change.LSN, change.Time = 42, at
	b := trigger.NewBatch(change)
	b.Function, b.Epoch, b.Range = "stream", 7, cosmos.Range{ID: "3"}
	m := encodeBatch(t, encoder, b)[0]
	var got map[string]any
	if err := json.Unmarshal(m.Value, &got); err != nil {
		t.Fatalf("%v: %s", err, m.Value)
	}
	if now := got["ts_ms"].(float64); time.Since(time.UnixMilli(int64(now))) > time.Minute {
		t.Errorf("ts_ms is %v", now)
	}
	delete(got, "ts_ms")
	want := map[string]any{
		"before": map[string]any{"id": "1", "customer": "ada", "total": 1.0},
		"after":  map[string]any{"id": "1", "customer": "ada", "total": 2.0, "note": "<\x00>", "_etag": `"b"`},
		"op":     "u",
		"source": map[string]any{
			"version": "1", "connector": "halley", "name": "stream", "ts_ms": float64(at.UnixMilli()), "db": "shop", "collection": "orders",
			"document": "1", "key": []any{"ada"}, "lsn": 42.0, "range": "3", "epoch": 7.0, "id": m.ID,
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(m.ID) != 32 || string(m.Key) != `["ada"]` || string(m.DocumentKey()) != `["ada","1"]` || m.Deleted {
		t.Errorf("message is %+v", m)
	}
}

func TestOperations(t *testing.T) {
	document := `{"id":"1","_etag":"a"}`
	tests := []struct {
		name          string
		change        trigger.Change
		op            string
		before, after string
		expired       bool
	}{
		{"upsert", triggertest.Upsert(document), "r", "null", document, false},
		{"create", triggertest.Create(document), "c", "null", document, false},
		{"replace", triggertest.Replace(document, `{"id":"1"}`), "u", `{"id":"1"}`, document, false},
		{"replace without the document before", triggertest.Replace(document, nil), "u", "null", document, false},
		{"delete", triggertest.Delete("1", "k"), "d", "null", "null", false},
		{"expire", triggertest.Expire("1", "k"), "d", "null", "null", true},
		{"soft delete", triggertest.SoftDelete(document), "d", document, "null", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := encode(t, test.change)[0]
			var e struct {
				Before, After json.RawMessage
				Op            string
				Source        source
			}
			if err := json.Unmarshal(m.Value, &e); err != nil {
				t.Fatal(err)
			}
			if e.Op != test.op || string(e.Before) != test.before || string(e.After) != test.after || e.Source.Expired != test.expired {
				t.Errorf("envelope is %s", m.Value)
			}
			if m.Deleted != (test.op == "d") || e.Source.Document != "1" {
				t.Errorf("deleted is %v, document %q", m.Deleted, e.Source.Document)
			}
		})
	}
	created := Encoder{UpsertOp: "c"}
	if m := encodeBatch(t, created, trigger.NewBatch(triggertest.Upsert(document)))[0]; !strings.Contains(string(m.Value), `"op":"c"`) {
		t.Errorf("envelope is %s", m.Value)
	}
}

// A redelivered change has the id that it had, whichever owner of whichever range
// delivers it.
func TestIDStaysTheSame(t *testing.T) {
	changes := []trigger.Change{triggertest.Upsert(`{"id":"1","_etag":"a"}`, "ada"), triggertest.Delete("2", "ada")}
	changes[1].LSN = 9
	first, again := trigger.NewBatch(changes...), trigger.NewBatch(changes[1], changes[0])
	first.Range.ID, first.Epoch = "0", 1
	again.Range.ID, again.Epoch, again.Attempt, again.Function = "12", 5, 3, "other"
	a, b := encodeBatch(t, encoder, first), encodeBatch(t, encoder, again)
	if a[0].ID != b[1].ID || a[1].ID != b[0].ID {
		t.Errorf("ids are %s %s, then %s %s", a[0].ID, a[1].ID, b[1].ID, b[0].ID)
	}
}

func TestIDsOfDifferentChangesDiffer(t *testing.T) {
	at := func(lsn int64, c trigger.Change) trigger.Change {
		c.LSN = lsn
		return c
	}
	deleted := func(lsn int64, etag string) trigger.Change {
		c := at(lsn, triggertest.Delete("1", "ada"))
		c.Previous = json.RawMessage(`{"id":"1","_etag":"` + etag + `"}`)
		return c
	}
	messages := encode(t,
		triggertest.Upsert(`{"id":"1","_etag":"a"}`, "ada"),
		triggertest.Upsert(`{"id":"1","_etag":"b"}`, "ada"), // a later version
		triggertest.Upsert(`{"id":"2","_etag":"a"}`, "ada"),
		triggertest.Upsert(`{"id":"1","_etag":"a"}`, "bob"),
		triggertest.Upsert(`{"id":"1"}`, "ada"),
		at(2, triggertest.Upsert(`{"id":"1"}`, "ada")),
		at(2, triggertest.Delete("1", "ada")),
		at(3, triggertest.Delete("1", "ada")),
		at(3, triggertest.Expire("1", "ada")),
		deleted(4, "c"), deleted(4, "d"), // twice in one transaction
	)
	elsewhere := Encoder{Database: "shop", Container: "archive"}
	messages = append(messages, encodeBatch(t, elsewhere, trigger.NewBatch(triggertest.Upsert(`{"id":"1","_etag":"a"}`, "ada")))...)
	seen := map[string]int{}
	for i, m := range messages {
		if first, ok := seen[m.ID]; ok {
			t.Errorf("messages %d and %d have id %s", first, i, m.ID)
		}
		seen[m.ID] = i
	}
}

func TestDocumentKeyWithoutPartitionKey(t *testing.T) {
	m := Message{Key: []byte("[]"), Change: triggertest.Delete("a\"b", "k")}
	if got := string(m.DocumentKey()); got != `["a\"b"]` {
		t.Errorf("key is %s", got)
	}
}

func TestVerdict(t *testing.T) {
	down, large := errors.New("broker is down"), ErrTooLarge
	// a1, b1, a2, b2: two messages of each key
	changes := []trigger.Change{triggertest.Upsert(`{"id":"a1"}`, "a"), triggertest.Upsert(`{"id":"b1"}`, "b"), triggertest.Upsert(`{"id":"a2"}`, "a"), triggertest.Upsert(`{"id":"b2"}`, "b")}
	tests := []struct {
		name     string
		failures []error
		failed   []string
		givenUp  bool
	}{
		{"all acknowledged", []error{nil, nil, nil, nil}, nil, false},
		{"later changes of the key fail with it", []error{down, nil, nil, nil}, []string{"a1", "a2"}, false},
		{"earlier changes of the key are handled", []error{nil, nil, down, nil}, []string{"a2"}, false},
		{"too large", []error{large, nil, nil, nil}, []string{"a1"}, true},
		{"all too large", []error{large, large, large, large}, []string{"a1", "b1", "a2", "b2"}, true},
		{"too large, and down for others: nothing is given up yet", []error{large, down, nil, nil}, []string{"a1", "b1", "b2"}, false},
		{"too large after a failure of its key", []error{down, nil, large, nil}, []string{"a1", "a2"}, false},
		{"all down", []error{down, down, down, down}, []string{"a1", "b1", "a2", "b2"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := trigger.NewBatch(changes...)
			v := b.Judge(Verdict(encodeBatch(t, encoder, b), test.failures))
			var failed []string
			for _, c := range v.Failed {
				failed = append(failed, c.ID())
			}
			if d := cmp.Diff(test.failed, failed); d != "" || v.GivenUp != test.givenUp {
				t.Errorf("given up is %v, failed: %s\n%v", v.GivenUp, d, v.Err)
			}
		})
	}
}

func TestName(t *testing.T) {
	values := map[string]string{"database": "db", "container": "a b"}
	encode := func(s string) string {
		return Escape(s, '_', func(b byte) bool { return b != ' ' })
	}
	tests := []struct{ template, want, failure string }{
		{"halley.{database}.{container}", "halley.db.a_20b", ""},
		{"changes", "changes", ""},
		{"{table}", "", "has {table}, which stands for nothing"},
		{"a{database", "", "a brace without its other half"},
		{"a}b", "", "a brace without its other half"},
	}
	for _, test := range tests {
		got, err := Name(test.template, values, encode)
		if got != test.want || (err == nil) != (test.failure == "") || err != nil && !strings.Contains(err.Error(), test.failure) {
			t.Errorf("name of %q is %q, %v", test.template, got, err)
		}
	}
}

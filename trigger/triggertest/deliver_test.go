package triggertest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"halley/trigger"
	"halley/trigger/cosmos"
)

func TestDeliverReturnsVerdict(t *testing.T) {
	bad := errors.New("bad")
	tests := []struct {
		name    string
		handler trigger.Handler
		want    string
	}{
		{"handled", func(context.Context, trigger.Batch) error { return nil }, `3 handled`},
		{"failed", func(context.Context, trigger.Batch) error { return bad }, `0 handled, 3 failed ["a" "b" "c"]: bad`},
		{"some failed", func(_ context.Context, b trigger.Batch) error { return trigger.Failed(bad, b.Changes[0], b.Changes[2]) },
			`1 handled, 2 failed ["a" "c"]: 2 changes failed: bad`},
		{"failed from", func(_ context.Context, b trigger.Batch) error { return trigger.FailedFrom(bad, b.Changes[1]) },
			`1 handled, 2 failed ["b" "c"]: bad`},
		{"given up", func(_ context.Context, b trigger.Batch) error {
			return trigger.Skip(trigger.Failed(bad, b.Changes[1]))
		},
			`2 handled, 1 given up ["b"]: 1 changes failed: bad`},
		{"given up without a name", func(context.Context, trigger.Batch) error { return trigger.Skip(bad) }, `0 handled, 3 halved ["a" "b" "c"]: bad`},
		{"panic", func(context.Context, trigger.Batch) error { panic("broken") }, `0 handled, 3 failed ["a" "b" "c"]: handler panicked: broken`},
		{"sorted", func(_ context.Context, b trigger.Batch) error {
			slices.Reverse(b.Changes)
			return trigger.Failed(bad, b.Changes[0])
		}, `2 handled, 1 failed ["c"]: 1 changes failed: bad`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := Deliver(t, test.handler, Upsert(`{"id":"a"}`), Upsert(`{"id":"b"}`), Upsert(`{"id":"c"}`))
			if v.String() != test.want {
				t.Errorf("verdict is %s, want %s", v, test.want)
			}
			var p *trigger.PanicError
			if panicked := errors.As(v.Err, &p); panicked != (test.name == "panic") || panicked && !strings.Contains(string(p.Stack), "deliver_test.go") {
				t.Errorf("error is %#v", v.Err)
			}
		})
	}
}

func TestDeliverDescribesFirstDelivery(t *testing.T) {
	var got trigger.Batch
	keep := func(ctx context.Context, b trigger.Batch) error {
		got = b
		b.Checkpoint()
		return ctx.Err()
	}
	second := Upsert(`{"id":"b"}`)
	second.LSN = 40
	if v := Deliver(t, keep, Upsert(`{"id":"a"}`), second); !v.Checkpoint || len(v.Handled) != 2 {
		t.Errorf("verdict is %+v", v)
	}
	if got.Attempt != 1 || got.Epoch != 1 || got.Changes[0].LSN != 1 || got.Changes[1].LSN != 40 || got.Changes[0].Time.IsZero() || got.Range.ID == "" {
		t.Errorf("batch is %+v", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if v := (Call{Attempt: 3, Epoch: 7, Context: ended}).Deliver(t, keep, second); !errors.Is(v.Err, context.Canceled) || got.Attempt != 3 || got.Epoch != 7 {
		t.Errorf("verdict is %v on %+v", v, got)
	}
}

func TestChangesMadeByHand(t *testing.T) {
	tests := []struct {
		change    trigger.Change
		operation cosmos.Operation
		id, key   string
		document  string
	}{
		{Upsert(`{"id":"a"}`, "k"), cosmos.OperationUpsert, "a", `["k"]`, `{"id":"a"}`},
		{Upsert(map[string]any{"id": "a"}, "t", 7, nil), cosmos.OperationUpsert, "a", `["t",7,null]`, `{"id":"a"}`},
		{Upsert([]byte(`{"id":"a"`)), cosmos.OperationUpsert, "a", `[]`, `{"id":"a"`},
		{SoftDelete(json.RawMessage(`{"id":"a"}`), true), cosmos.OperationDelete, "a", `[true]`, `{"id":"a"}`},
		{Create(`{"id":"a"}`, "k"), cosmos.OperationCreate, "a", `["k"]`, `{"id":"a"}`},
		{Replace(`{"id":"a","n":2}`, `{"id":"a","n":1}`, "k"), cosmos.OperationReplace, "a", `["k"]`, `{"id":"a","n":2}`},
		{Delete("a", "k"), cosmos.OperationDelete, "a", `["k"]`, ""},
		{Expire("a", "k"), cosmos.OperationExpire, "a", `["k"]`, ""},
	}
	for _, test := range tests {
		for _, c := range []trigger.Change{test.change, test.change.Clone()} {
			if c.Operation != test.operation || c.ID() != test.id || string(c.PartitionKey()) != test.key || string(c.Document) != test.document {
				t.Errorf("%s of %q, key %s, document %s, want %+v", c.Operation, c.ID(), c.PartitionKey(), c.Document, test)
			}
		}
	}
	if c := Replace(`{"id":"a","n":2}`, `{"id":"a","n":1}`); string(c.Previous) != `{"id":"a","n":1}` {
		t.Errorf("previous version is %s", c.Previous)
	}
}

func TestModifiedBytesFailTheTest(t *testing.T) {
	modify := func(_ context.Context, b trigger.Batch) error {
		slices.Reverse(b.Changes)
		b.Changes[0].Document[0] = '!'
		return nil
	}
	document := json.RawMessage(`{"id":"b"}`)
	found := failuresOf(t, func(t testing.TB) { Deliver(t, modify, Upsert(`{"id":"a"}`), Upsert(document)) })
	if !strings.Contains(found, `handler modified the bytes of change "b"`) || strings.Contains(found, `"a"`) {
		t.Errorf("failures: %s", found)
	}
	if string(document) != `{"id":"b"}` {
		t.Errorf("the caller's document is %s", document)
	}
}

func TestLentBytesAreOverwritten(t *testing.T) {
	var kept trigger.Change
	keep := func(_ context.Context, b trigger.Batch) error { kept = b.Changes[0]; return nil }
	Deliver(t, keep, Replace(`{"id":"a"}`, `{"id":"b"}`))
	if string(kept.Document) != `{"id":"a"}` {
		t.Errorf("bytes that the handler may keep are %s", kept.Document)
	}
	v := Call{ReuseBuffers: true}.Deliver(t, keep, Replace(`{"id":"a"}`, `{"id":"b"}`))
	if string(kept.Document) != "##########" || string(kept.Previous) != "##########" {
		t.Errorf("lent bytes are %s, %s", kept.Document, kept.Previous)
	}
	if string(v.Handled[0].Document) != `{"id":"a"}` {
		t.Errorf("the verdict's document is %s", v.Handled[0].Document)
	}
}

func TestDeliverNeedsChange(t *testing.T) {
	found := failuresOf(t, func(t testing.TB) { Deliver(t, nil) })
	if !strings.Contains(found, "give Deliver a change") {
		t.Errorf("failures: %s", found)
	}
}

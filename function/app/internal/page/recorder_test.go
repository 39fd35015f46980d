package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// written is a change of a document with an id, a customer and a size.
func written(id string, lsn int64, padding int) trigger.Change {
	return trigger.DeadLetter{
		Operation: cosmos.OperationUpsert, Key: `["eve"]`, LSN: lsn, DocumentID: id, Written: time.Unix(1_790_000_000, 0),
		Document: fmt.Appendf(nil, `{"id":%q,"padding":%q}`, id, strings.Repeat("x", padding)),
	}.Change()
}

func batch(attempt int, changes ...trigger.Change) trigger.Batch {
	b := trigger.NewBatch(changes...)
	b.Function, b.Range.ID, b.Attempt, b.Epoch = "orders", "7", attempt, 3
	return b
}

func only(t *testing.T, r *Recorder) Detail {
	t.Helper()
	l := r.list(filter{}, "", 10)
	if len(l.Items) != 1 {
		t.Fatalf("%d changes, want one: %+v", len(l.Items), l.Items)
	}
	d, _, _ := r.Find(l.Items[0].ID)
	return d
}

// TestLifeOfChange: attempts that fail, panic and succeed are one life, and the handler
// and the runtime see the same calls and errors as without the recorder.
func TestLifeOfChange(t *testing.T) {
	var r Recorder
	verdicts := []func() error{
		func() error { return errors.New("redis is full\nsecond line") },
		func() error { panic("no more memory") },
		func() error { return nil },
	}
	handle := r.Watch("dev-1", 10, func(_ context.Context, b trigger.Batch) error {
		if d := only(t, &r); d.State != Delivering || d.Calls[b.Attempt-1].State != Delivering {
			t.Errorf("during the call: %+v", d)
		}
		return verdicts[b.Attempt-1]()
	})
	change := written("1001", 12, 0)
	if err := handle(t.Context(), batch(1, change)); err == nil || err.Error() != "redis is full\nsecond line" {
		t.Errorf("error %v", err)
	}
	if d := only(t, &r); d.State != Failing || d.Error != "redis is full" || d.Attempt != 1 || d.MaxAttempts != 10 || d.Calls[0].Error != "redis is full\nsecond line" {
		t.Errorf("after a failure: %+v", d)
	}
	var p *trigger.PanicError
	if err := handle(t.Context(), batch(2, change)); !errors.As(err, &p) || p.Value != "no more memory" {
		t.Errorf("error %v, want the panic", err)
	}
	if err := handle(t.Context(), batch(3, change)); err != nil {
		t.Error(err)
	}
	d := only(t, &r)
	if d.State != Handled || d.Error != "" || d.Attempt != 3 || len(d.Calls) != 3 || d.Range != "7" || d.LSN != 12 || d.Key != `["eve"]` || d.DocumentID != "1001" {
		t.Errorf("at the end: %+v", d)
	}
	if stack := d.Calls[1].Stack; !strings.Contains(stack, "TestLifeOfChange") || d.Calls[1].Host != "dev-1" || d.Calls[1].Epoch != 3 {
		t.Errorf("the second call: %+v", d.Calls[1])
	}
}

// TestPartialFailureIsThatOfItsChanges: a handler may sort its batch, and name the
// changes that failed.
func TestPartialFailureIsThatOfItsChanges(t *testing.T) {
	var r Recorder
	handle := r.Watch("dev-1", 10, func(_ context.Context, b trigger.Batch) error {
		slices.Reverse(b.Changes)
		return trigger.Failed(errors.New("refused"), b.Changes[0])
	})
	_ = handle(t.Context(), batch(1, written("a", 1, 0), written("b", 2, 0), written("c", 3, 0)))
	states := map[string]ChangeState{}
	for _, c := range r.list(filter{}, "", 10).Items {
		states[c.DocumentID] = c.State
	}
	if states["a"] != Handled || states["b"] != Handled || states["c"] != Failing {
		t.Errorf("states %v", states)
	}
}

// TestRecorderIsBounded: neither many changes nor large ones exceed the bounds, and
// neither do many attempts with large errors.
func TestRecorderIsBounded(t *testing.T) {
	for name, size := range map[string]int{"many": 0, "large": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			var r Recorder
			fails := errors.New(strings.Repeat("no room; ", 1000))
			handle := r.Watch("dev-1", 0, func(_ context.Context, b trigger.Batch) error {
				if b.Changes[0].LSN < 20 {
					return fails
				}
				return nil
			})
			for i := range 1500 {
				if size > 0 && i == 40 {
					break
				}
				attempts := 1
				if i < 20 && size == 0 {
					attempts = 30
				}
				for attempt := range attempts {
					_ = handle(t.Context(), batch(attempt+1, written(fmt.Sprint(i), int64(i), size)))
				}
			}
			l := r.list(filter{}, "", 5000)
			if len(l.Items) > maxChanges || r.bytes > maxBytes || l.Dropped == 0 || l.Kept != len(l.Items) || len(r.entries) != len(l.Items) {
				t.Errorf("%d changes of %d bytes, %d dropped", len(l.Items), r.bytes, l.Dropped)
			}
			sum := 0
			for _, e := range r.order {
				sum += e.size()
				if len(e.calls) > maxAttempts {
					t.Fatalf("%d attempts are kept", len(e.calls))
				}
			}
			if sum != r.bytes {
				t.Errorf("%d bytes are counted, and there are %d", r.bytes, sum)
			}
		})
	}
}

// letterStore is a store in memory.
type letterStore struct{ letters map[string]trigger.DeadLetter }

func (s *letterStore) Put(_ context.Context, d trigger.DeadLetter) error {
	s.letters[d.ID] = d
	return nil
}

func (s *letterStore) Delete(_ context.Context, d trigger.DeadLetter) error {
	delete(s.letters, d.ID)
	return nil
}

func (s *letterStore) Holds(context.Context, trigger.DeadLetterSource, string) (bool, error) {
	return len(s.letters) > 0, nil
}

func (s *letterStore) Query(_ context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	return trigger.SelectDeadLetters(maps.Values(s.letters), q)
}

// TestDirectDelivery: a dead letter belongs to the life of its change; a viewer delivers
// it again, in vain and then with another document, and it leaves the store.
func TestDirectDelivery(t *testing.T) {
	var r Recorder
	store := WatchDeadLetters(&r, &letterStore{letters: map[string]trigger.DeadLetter{}})
	var got []string
	handle := r.Watch("dev-1", 2, func(ctx context.Context, b trigger.Batch) error {
		got = append(got, fmt.Sprintf("%d %v %s", b.Attempt, IsEdited(ctx), b.Changes[0].Document))
		if strings.Contains(string(b.Changes[0].Document), "bad") {
			return errors.New("refused")
		}
		return nil
	})
	d := trigger.DeadLetter{
		Kind: trigger.RecordDead, ID: "letter", Function: "orders", Range: "7", Operation: cosmos.OperationUpsert, Key: `["eve"]`, LSN: 5, DocumentID: "1", Attempts: 2,
		Written: time.Unix(1_790_000_000, 0), Document: json.RawMessage(`{"id":"1","total":"bad"}`), Error: "refused",
	}
	for attempt := range 2 {
		_ = handle(t.Context(), batch(attempt+1, d.Change()))
	}
	if err := store.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	id := only(t, &r).ID
	if c := only(t, &r); c.State != DeadLettered || c.Letter != "letter" || len(c.Calls) != 2 {
		t.Fatalf("after the dead letter: %+v", c)
	}
	if err := r.Deliver(t.Context(), id, nil, handle); err == nil {
		t.Error("the delivery did not fail")
	}
	if c := only(t, &r); c.State != DeadLettered || !c.Calls[2].Direct || c.Calls[2].State != Failing || c.Attempt != 2 {
		t.Errorf("after a failure: %+v", c)
	}
	if err := r.Deliver(t.Context(), id, json.RawMessage(`{"id":"1","total":1}`), handle); err != nil {
		t.Error(err)
	}
	if err := store.Delete(t.Context(), d); err != nil {
		t.Error(err)
	}
	if c := only(t, &r); c.State != Handled || c.Letter != "" || !c.Calls[3].Edited || !strings.Contains(c.Calls[3].Document, `"total": 1`) || !strings.Contains(c.Document, "bad") {
		t.Errorf("at the end: %+v", c)
	}
	want := []string{`1 false {"id":"1","total":"bad"}`, `2 false {"id":"1","total":"bad"}`, `3 false {"id":"1","total":"bad"}`, `3 true {"id":"1","total":1}`}
	if !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	if err := r.Deliver(t.Context(), "unknown", nil, handle); !errors.Is(err, ErrDropped) {
		t.Errorf("error %v", err)
	}
}

func TestListsSelectAndContinue(t *testing.T) {
	var r Recorder
	handle := r.Watch("dev-1", 10, func(_ context.Context, b trigger.Batch) error {
		if b.Changes[0].LSN%2 == 0 {
			return errors.New("even")
		}
		return nil
	})
	for i := range 10 {
		_ = handle(t.Context(), batch(1, written(fmt.Sprint("doc-", i), int64(i), 0)))
	}
	lsns := func(l changeList) (all []int64) {
		for _, c := range l.Items {
			all = append(all, c.LSN)
		}
		return all
	}
	first := r.list(filter{State: Failing}, "", 2)
	if got := lsns(first); !slices.Equal(got, []int64{8, 6}) || first.Next == "" {
		t.Errorf("first page %v, next %q", got, first.Next)
	}
	second := r.list(filter{State: Failing}, first.Next, 10)
	if got := lsns(second); !slices.Equal(got, []int64{4, 2, 0}) || second.Next != "" {
		t.Errorf("second page %v, next %q", got, second.Next)
	}
	for name, f := range map[string]filter{"function": {Function: "other"}, "range": {Range: "8"}, "key": {Key: "ada"}, "state": {State: Blocked}} {
		if l := r.list(f, "", 10); len(l.Items) != 0 {
			t.Errorf("filter by %s: %v", name, lsns(l))
		}
	}
	if got := lsns(r.list(filter{Key: "doc-7"}, "", 10)); !slices.Equal(got, []int64{7}) {
		t.Errorf("filter by document: %v", got)
	}
	_ = handle(t.Context(), batch(2, written("doc-4", 4, 0)))
	if l := r.updated(filter{State: Handled}, first.Version, 10); !slices.Equal(lsns(l), []int64{4}) || l.Version <= first.Version {
		t.Errorf("updates %v", lsns(l))
	}
}

func TestRateForgetsOldSlots(t *testing.T) {
	var r rate
	r.last = 100
	r.add(100, 3)
	r.add(101, 4)
	at := func(slot int64) []int { return r.list(time.Unix(0, slot*int64(rateEvery))) }
	if all := at(102); all[rateSlots-1] != 0 || all[rateSlots-2] != 4 || all[rateSlots-3] != 3 {
		t.Errorf("slots %v", all)
	}
	if all := at(100 + rateSlots); all[0] != 4 || slices.Max(all[1:]) != 0 {
		t.Errorf("after five minutes: %v", all)
	}
	if all := at(1 << 30); slices.Max(all) != 0 {
		t.Errorf("long after: %v", all)
	}
}

func TestTimelineIsBounded(t *testing.T) {
	var r Recorder
	for i := range 2 * maxMoments {
		r.Observe("dev-1", trigger.Event{Kind: trigger.EventAcquired, Function: "orders", Range: fmt.Sprint(i), Epoch: 1})
	}
	all := r.timeline(0)
	if len(all) != maxMoments || all[0].Range != fmt.Sprint(maxMoments) {
		t.Errorf("%d moments from %+v", len(all), all[0])
	}
	if rest := r.timeline(all[len(all)-3].Number); len(rest) != 2 {
		t.Errorf("%d moments after the third to last", len(rest))
	}
}

// The changes that a call handled count, also if it failed on others.
func TestRateCountsWhatFailedCallsHandled(t *testing.T) {
	var r Recorder
	for _, e := range []trigger.Event{
		{Kind: trigger.EventDelivered, Changes: 3, Handled: 3},
		{Kind: trigger.EventDeliveryFailed, Changes: 9, Handled: 4},
		{Kind: trigger.EventDeliveryFailed, Changes: 5},
	} {
		e.Function, e.Range = "orders", "0"
		r.Observe("dev-1", e)
	}
	sum := 0
	for _, n := range r.history.rates[[2]string{"orders", "0"}].list(time.Now()) {
		sum += n
	}
	if sum != 7 {
		t.Errorf("%d handled, want 7", sum)
	}
}

func TestTimelineTellsFlushes(t *testing.T) {
	var r Recorder
	for _, err := range []error{nil, errors.New("sink is down\nin line 2")} {
		r.Observe("dev-1", trigger.Event{Kind: trigger.EventFlushed, Function: "orders", Range: "0", Duration: 20 * time.Millisecond, Err: err})
	}
	var texts []string
	for _, m := range r.timeline(0) {
		texts = append(texts, m.Kind+": "+m.Text)
	}
	if want := []string{"flushed: flushed in 20ms", "flushed: not flushed after 20ms: sink is down"}; !slices.Equal(texts, want) {
		t.Errorf("timeline %q, want %q", texts, want)
	}
}

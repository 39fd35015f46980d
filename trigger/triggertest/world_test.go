package triggertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// inAndOutOfBubble runs a story in real time and in a testing/synctest bubble.
func inAndOutOfBubble(t *testing.T, story func(t *testing.T)) {
	t.Run("in real time", story)
	t.Run("in a bubble", func(t *testing.T) { synctest.Test(t, story) })
}

// deliveries records the changes of a story, such as "upsert a".
type deliveries struct {
	mu   sync.Mutex
	list []string
}

func (d *deliveries) handler(_ context.Context, b trigger.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range b.Changes {
		d.list = append(d.list, fmt.Sprint(c.Operation, " ", c.ID()))
	}
	return nil
}

func (d *deliveries) expect(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.list, want) {
		t.Errorf("delivered %q, want %q", d.list, want)
	}
}

func TestKilledHostIsSucceeded(t *testing.T) {
	inAndOutOfBubble(t, func(t *testing.T) {
		w := NewWorld(t, nil)
		w.Put(`{"id":"a"}`)
		w.Put(map[string]any{"id": "b"})
		var epochs []int64
		var first *Host
		first = w.Host(func(ctx context.Context, b trigger.Batch) error {
			epochs = append(epochs, b.Epoch)
			first.Kill()
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), errDied) {
				t.Errorf("the context of a dead host's call has ended with %v", context.Cause(ctx))
			}
			return nil
		})
		if s := first.Drain(); s.Changes != 0 {
			t.Errorf("a dead host handled changes: %+v", s)
		}
		if found := w.undelivered(); len(found) != 2 || !strings.Contains(found[0], `document "a", partition key ["a"]`) {
			t.Errorf("not delivered: %q", found)
		}
		second := &deliveries{}
		s := w.Host(func(ctx context.Context, b trigger.Batch) error {
			epochs = append(epochs, b.Epoch)
			return second.handler(ctx, b)
		}).Drain()
		second.expect(t, "upsert a", "upsert b")
		if s.Changes != 2 || s.Behind+s.Skipped != 0 || epochs[1] <= epochs[0] {
			t.Errorf("summary is %+v, epochs are %v", s, epochs)
		}
		w.RequireDelivered()
	})
}

func TestDeadHostCannotDrain(t *testing.T) {
	found := failuresOf(t, func(f testing.TB) {
		w := NewWorld(f, nil)
		h := w.Host((&deliveries{}).handler)
		h.Kill()
		h.Drain()
	})
	if !strings.Contains(found, "host-1 is dead: start another one with World.Host") {
		t.Errorf("failures: %s", found)
	}
}

func TestRequireDeliveredNamesWhatIsMissing(t *testing.T) {
	found := failuresOf(t, func(t testing.TB) {
		w := NewWorld(t, &Options{PartitionKey: "/place/city"})
		w.Put(`{"id":"a","place":{"city":"Oslo"}}`)
		w.Host((&deliveries{}).handler).Drain()
		w.RequireDelivered()
		w.Put(`{"id":"a","place":{"city":"Oslo"},"n":2}`)
		w.Put(`{"id":"b","place":{"city":7}}`)
		w.Delete("b", 7)
		w.Put(`{"id":"c"}`)
		w.Put(`{"id":"d","place":{"city":true},"ttl":10}`)
		w.Advance(11 * time.Second)
		w.RequireDelivered()
	})
	want := `a version of document "a", partition key ["Oslo"], was neither handled nor dead-lettered
a version of document "c", partition key [{}], was neither handled nor dead-lettered`
	if found != want {
		t.Errorf("failures: %s", found)
	}
}

func TestPostponedChangesAreNotDeadLetters(t *testing.T) {
	inAndOutOfBubble(t, func(t *testing.T) {
		w := NewWorld(t, nil)
		h := w.Host(func(context.Context, trigger.Batch) error { return trigger.RetryAfter(errors.New("asleep"), time.Hour) })
		w.Put(`{"id":"late"}`)
		h.Drain()
		if d := w.Postponed(); len(d) != 1 || d[0].DocumentID != "late" || len(w.DeadLetters()) != 0 {
			t.Errorf("postponed %+v, dead letters %+v", d, w.DeadLetters())
		}
		w.RequireDelivered()
	})
}

func TestFailedChangesAreDeadLetteredAndReplayed(t *testing.T) {
	inAndOutOfBubble(t, func(t *testing.T) {
		w := NewWorld(t, &Options{Function: trigger.Function{GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: 2}}})
		var repaired bool
		got := &deliveries{}
		h := w.Host(func(ctx context.Context, b trigger.Batch) error {
			for i, c := range b.Changes {
				if c.ID() == "bad" && !repaired {
					return trigger.Failed(errors.New("cannot be read"), b.Changes[i])
				}
			}
			return got.handler(ctx, b)
		})
		w.Put(`{"id":"good"}`)
		w.Put(`{"id":"bad"}`)
		if s := h.Drain(); s.DeadLetters != 1 || s.Behind != 0 {
			t.Errorf("summary is %+v", s)
		}
		if d := w.DeadLetters(); len(d) != 1 || d[0].DocumentID != "bad" || d[0].Attempts != 2 || !strings.Contains(d[0].Error, "cannot be read") {
			t.Errorf("dead letters are %+v", d)
		}
		w.RequireDelivered()
		if r := h.Replay(); r.Failed != 1 || r.Handled != 0 {
			t.Errorf("replayed %+v", r)
		}
		repaired = true
		if r := h.Replay(); r.Failed != 0 || r.Handled != 1 || len(w.DeadLetters()) != 0 {
			t.Errorf("replayed %+v", r)
		}
		got.expect(t, "upsert bad")
		w.RequireDelivered()
	})
}

// Host a pauses in a call. Its successor delivers newer changes, and then a's call goes
// on, in its older epoch. Host a begins no further call.
func TestFormerOwnerDeliversLate(t *testing.T) {
	inAndOutOfBubble(t, func(t *testing.T) {
		w := NewWorld(t, &Options{Function: trigger.Function{BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 1, PageItems: 1}}})
		w.Put(`{"id":"a","n":1}`)
		w.Put(`{"id":"b","n":1}`)
		paused, proceed := make(chan struct{}), make(chan struct{})
		var epochs []int64
		a := w.Host(func(_ context.Context, b trigger.Batch) error {
			close(paused)
			<-proceed
			epochs = append(epochs, b.Epoch)
			return nil
		})
		var working sync.WaitGroup
		working.Go(func() { a.Drain() })
		<-paused
		w.Put(`{"id":"a","n":2}`)
		w.ExpireLeases()
		w.Host(func(_ context.Context, b trigger.Batch) error {
			epochs = append(epochs, b.Epoch)
			return nil
		}).Drain()
		w.RequireDelivered()
		close(proceed)
		working.Wait()
		if len(epochs) != 3 || epochs[0] != epochs[1] || epochs[2] >= epochs[0] {
			t.Errorf("epochs of the calls are %v, want two of the successor and then a lower one", epochs)
		}
	})
}

// A host that slept through a second saves nothing of its drain, and delivers again.
func TestAdvanceCutsDrainOff(t *testing.T) {
	inAndOutOfBubble(t, func(t *testing.T) {
		w := NewWorld(t, &Options{Function: trigger.Function{BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 1, PageItems: 1}, GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: 1}}})
		w.Put(`{"id":"a"}`)
		w.Put(`{"id":"b"}`)
		got := &deliveries{}
		slept := false
		h := w.Host(func(ctx context.Context, b trigger.Batch) error {
			if !slept {
				slept = true
				w.Advance(time.Second)
			}
			return got.handler(ctx, b)
		})
		if s := h.Drain(); s.Behind != 1 || len(w.undelivered()) != 2 {
			t.Errorf("summary is %+v, not delivered: %q", s, w.undelivered())
		}
		if s := h.Drain(); s.Behind+s.Skipped != 0 {
			t.Errorf("summary is %+v", s)
		}
		got.expect(t, "upsert a", "upsert a", "upsert b")
		w.RequireDelivered()
		if d := w.DeadLetters(); len(d) != 0 {
			t.Errorf("dead letters: %+v", d)
		}
	})
}

func TestRangesSplitAndMerge(t *testing.T) {
	inAndOutOfBubble(t, func(t *testing.T) {
		w := NewWorld(t, &Options{Ranges: 2})
		got := &deliveries{}
		h := w.Host(got.handler)
		for i := range 20 {
			w.Put(map[string]any{"id": fmt.Sprint(i)})
			switch i {
			case 5:
				h.Drain()
				if children := w.Split(w.Ranges()[0]); len(children) != 2 || len(w.Ranges()) != 3 {
					t.Errorf("children %q, ranges %q", children, w.Ranges())
				}
			case 10:
				h.Drain()
				if child := w.Merge(w.Ranges()[1:]...); child != w.Ranges()[1] || len(w.Ranges()) != 2 {
					t.Errorf("child %q, ranges %q", child, w.Ranges())
				}
			}
		}
		h.Drain()
		w.RequireDelivered()
		if len(got.list) != 20 {
			t.Errorf("%d changes delivered, want 20", len(got.list))
		}
	})
}

func TestAllVersionsShowDeletes(t *testing.T) {
	inAndOutOfBubble(t, func(t *testing.T) {
		w := NewWorld(t, &Options{Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}})
		got := &deliveries{}
		h := w.Host(got.handler)
		h.Drain() // it begins now
		w.Put(`{"id":"a"}`)
		w.Put(`{"id":"a","n":2}`)
		w.Delete("a", "a")
		w.Put(`{"id":"b","ttl":5}`)
		w.Advance(6 * time.Second)
		if n := len(w.undelivered()); n != 4 {
			t.Errorf("%d changes are not delivered, want 4 versions", n)
		}
		h.Drain()
		got.expect(t, "create a", "replace a", "delete a", "create b", "expire b")
		w.RequireDelivered()
		if documents := w.Documents(); len(documents) != 0 {
			t.Errorf("documents are %s", documents)
		}
	})
}

// The bytes of a batch are checked and, if they are lent, overwritten.
func TestWorldGuardsBytes(t *testing.T) {
	found := failuresOf(t, func(t testing.TB) {
		w := NewWorld(t, nil)
		w.Put(`{"id":"a"}`)
		w.Put(`{"id":"b"}`)
		w.Host(func(_ context.Context, b trigger.Batch) error {
			for _, c := range b.Changes {
				c.Document[1] = ' '
			}
			return nil
		}).Drain()
	})
	if !strings.Contains(found, `modified the bytes of change "a"`) {
		t.Errorf("failures: %s", found)
	}
	w := NewWorld(t, &Options{Function: trigger.Function{ReuseBuffers: true}})
	w.Put(`{"id":"a"}`)
	var kept trigger.Change
	w.Host(func(_ context.Context, b trigger.Batch) error { kept = b.Changes[0]; return nil }).Drain()
	if strings.Trim(string(kept.Document), "#") != "" {
		t.Errorf("lent bytes are %s", kept.Document)
	}
}

// A handler may use other containers of the account.
func TestHandlerUsesAnotherContainer(t *testing.T) {
	w := NewWorld(t, nil)
	if err := w.Account().CreateContainer(Database, "copies", "/id", 1); err != nil {
		t.Fatal(err)
	}
	copies := w.Client().Container(Database, "copies")
	w.Put(`{"id":"a"}`)
	w.Host(func(ctx context.Context, b trigger.Batch) error {
		_, err := copies.Upsert(ctx, cosmos.NewPartitionKey("a"), b.Changes[0].Document)
		return err
	}).Drain()
	if _, err := copies.Read(t.Context(), "a", cosmos.NewPartitionKey("a")); err != nil {
		t.Error(err)
	}
	w.RequireDelivered()
}

package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSkipDeadLettersWithoutRetry(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		store := &memoryStore{}
		calls := 0
		summary, err := w.host("a", func(_ context.Context, b Batch) error {
			calls++
			return Skip(Failed(errPoison, b.Changes[1], b.Changes[3]))
		}, withStore(store)).Drain(t.Context())
		must(t, err)
		if calls != 1 || fmt.Sprint(store.documentIDs()) != "[doc1 doc3]" || summary.Behind != 0 {
			t.Errorf("%d calls, dead letters %v, summary %+v", calls, store.documentIDs(), summary)
		}
	})
}

func TestRangeWaitsWithoutDeadLetterStore(t *testing.T) {
	for verdict, problem := range map[error]string{errPoison: "poison", Skip(errPoison): "dead letter store"} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			w.writeMany("doc", 3)
			h := w.host("a", func(context.Context, Batch) error { return verdict })
			stop := w.startHost(h)
			time.Sleep(time.Hour)
			status := h.Status().Functions[0].Ranges[0]
			stop()
			if !strings.Contains(status.Problem, problem) || !strings.Contains(status.Problem, "poison") {
				t.Errorf("problem %q", status.Problem)
			}
			if l := w.leaseDocuments()["0"]; !isFirstPosition(l.continuation) {
				t.Errorf("checkpointed at %s", l.continuation)
			}
		})
	}
}

func TestRangeWaitsWhileStoreFails(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.writeMany("doc", 3)
		store := &memoryStore{putError: errors.New("disk full")}
		h := w.host("a", failOnPoison(w.recorder("a")), withStore(store))
		stop := w.startHost(h)
		time.Sleep(30 * time.Minute)
		if problem := h.Status().Functions[0].Ranges[0].Problem; !strings.Contains(problem, "disk full") {
			t.Errorf("problem %q", problem)
		}
		if l := w.leaseDocuments()["0"]; !isFirstPosition(l.continuation) || w.deliveryCount() > 3 {
			t.Errorf("the lease moved on to %s, %d delivered", l.continuation, w.deliveryCount())
		}
		store.mu.Lock()
		store.putError = nil
		store.mu.Unlock()
		time.Sleep(5 * time.Minute)
		stop()
		delete(w.written, "poison")
		w.checkComplete(0)
		if got := store.documentIDs(); fmt.Sprint(got) != "[poison]" {
			t.Errorf("dead letters %v", got)
		}
	})
}

func TestDropDeadLettersDropsChanges(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.writeMany("doc", 3)
		summary, err := w.host("a", failOnPoison(w.recorder("a")), func(f *Function, _ *Options) { f.DeadLetters = DropDeadLetters }).Drain(t.Context())
		must(t, err)
		if summary.Changes != 3 || summary.Behind != 0 {
			t.Errorf("summary %+v", summary)
		}
	})
}

// After a merge, a later version of a document may have the LSN of a dead letter.
func TestLaterVersionWithSameLSNIsDeadLettered(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		shifted := &shiftedLSNs{w: w}
		client := w.clientOn(shifted)
		store := &memoryStore{}
		drain := func() {
			h := w.host("a", failOnPoison(w.recorder("a")), withStore(store), func(f *Function, _ *Options) { f.Container = client.Container("db", "items") })
			_, err := h.Drain(t.Context())
			must(t, err)
		}
		w.write("k", "poison")
		drain()
		w.write("k", "poison") // version 2
		shifted.offset = 1     // like a merge: version 2 gets the LSN of version 1
		drain()
		if len(store.deadLetters) != 2 {
			t.Errorf("version 2 is neither handled nor in the store, %d dead letters", len(store.deadLetters))
		}
	})
}

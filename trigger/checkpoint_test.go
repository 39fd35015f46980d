package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
)

func manually(f *Function, _ *Options) { f.Checkpoint = Checkpoint{Manual: true} }

// unnamed makes all writes of a range one transaction as far as positions go:
// after a merge nothing inside a page can be named.
func unnamed(t *testing.T, w *world) {
	t.Helper()
	_, err := w.host("x", w.record("x")).Drain(t.Context())
	must(t, err)
	_, err = w.account.Merge("db", "items", "0", "1")
	must(t, err)
	w.fill("first", 1)
	_, err = w.host("x", w.record("x")).Drain(t.Context())
	must(t, err)
	w.delivered, w.written = nil, map[string]int{}
}

// A handler that buffers asks for what it has flushed. A position inside a page
// that cannot be named is not replaced by a later one that it did not ask for.
func TestManualCheckpointIsNeverPastWhatWasAskedFor(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		unnamed(t, w)
		w.fill("doc", 40)
		var mu sync.Mutex
		flushed := map[string]bool{}
		_, err := w.host("a", func(_ context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if b.Changes[0].LSN%2 == 0 { // some
				for _, c := range b.Changes {
					flushed[c.ID()] = true
				}
				b.Checkpoint()
			}
			return nil
		}, manually, func(f *Function, _ *Options) { f.BatchItems = 3 }).Drain(t.Context())
		must(t, err)
		_, err = w.host("b", w.record("b"), manually).Drain(t.Context())
		must(t, err)
		for _, d := range w.delivered {
			flushed[d.doc.ID] = true
		}
		if len(flushed) < 40 {
			t.Errorf("%d of 40 flushed or delivered again", len(flushed))
		}
	})
}

// A request counts for the batch of the handler that made it, whichever lane
// ends first, and only if that batch was accepted.
func TestManualCheckpointWithLanes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 60)
		var calls atomic.Int64
		h := w.host("a", func(ctx context.Context, b Batch) error {
			b.Checkpoint()
			n := calls.Add(1)
			if n%4 == 0 {
				return errors.New("not now")
			}
			return backoff.Sleep(ctx, time.Duration(n*3%7)*time.Second)
		}, manually, func(f *Function, _ *Options) { f.Lanes, f.BatchItems = 4, 3 })
		_, err := h.Drain(t.Context())
		must(t, err)
		if l := w.leaseDocuments()["0"]; l.continuation != w.head() {
			t.Errorf("checkpoint %s, though every batch asked; head %s", l.continuation, w.head())
		}
	})
}

func TestManualCheckpointOfARefusedBatchDoesNotCount(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 20)
		_, err := w.host("a", func(_ context.Context, b Batch) error {
			if b.Attempt == 1 {
				b.Checkpoint()
				return errors.New("refused")
			}
			return nil
		}, manually).Drain(t.Context())
		must(t, err)
		if l := w.leaseDocuments()["0"]; l.continuation != "" {
			t.Errorf("checkpoint %s, though no accepted batch asked for one", l.continuation)
		}
	})
}

// A lane that makes no progress costs no lease writes, however many batches the
// other lanes finish.
func TestNoCheckpointWithoutProgress(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("blocked", "first")
		w.write("blocked", "doc")
		var held atomic.Bool
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if b.Changes[0].ID() == "first" {
				return nil
			}
			if key := b.Changes[0].PartitionKey(); string(key) == `["blocked"]` && held.CompareAndSwap(false, true) {
				return backoff.Sleep(ctx, 4*time.Minute)
			}
			return backoff.Sleep(ctx, time.Second)
		}, func(f *Function, _ *Options) { f.Lanes, f.BatchItems = 2, 1 })
		w.fill("other", 60)
		var writes atomic.Int64
		w.before = func(r *http.Request) {
			if r.Method == http.MethodPut {
				writes.Add(1)
			}
		}
		stop := w.running(h)
		time.Sleep(2 * time.Minute)
		if n := writes.Load(); n > 12 { // acquisition, the first two, and renewals
			t.Errorf("%d lease writes in two minutes without progress", n)
		}
		time.Sleep(10 * time.Minute)
		stop()
	})
}

// Changes count for Every when the prefix passes them, whichever lane or page
// finished them.
func TestCheckpointEveryCountsWhatWasPassed(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		unnamed(t, w)
		w.events = nil
		for i := range 12 {
			w.fill(fmt.Sprint("doc", i, "-"), 20)
		}
		stop := w.running(w.host("a", w.record("a"), func(f *Function, o *Options) {
			f.Checkpoint, f.BatchItems, f.MaxItemsPerInvocation = Checkpoint{Every: 20}, 2, 20
			o.LeaseExpirationInterval, o.LeaseRenewInterval = time.Hour, 29*time.Minute
		}))
		time.Sleep(time.Minute)
		if n := w.happened(Checkpointed); n < 2 {
			t.Errorf("%d checkpoints", n)
		}
		stop()
		w.complete(0)
	})
}

// A request counts even if the changes after its batch were finished first, in other
// lanes and without a request.
func TestManualCheckpointBeforeOtherLanesIsKept(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 30)
		var first atomic.Int64
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if b.Changes[0].ID() != "doc0" {
				return nil
			}
			first.Store(b.Changes[0].LSN)
			b.Checkpoint()
			return backoff.Sleep(ctx, time.Minute)
		}, manually, func(f *Function, _ *Options) { f.Lanes, f.BatchItems = 4, 1 })
		_, err := h.Drain(t.Context())
		must(t, err)
		if got, want := w.leaseDocuments()["0"].continuation, fmt.Sprintf("%q", fmt.Sprint(first.Load())); got != want {
			t.Errorf("checkpoint %s, the batch with the request ends at %s; head %s", got, want, w.head())
		}
	})
}

package trigger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/schedule"
)

// isFirstPosition reports whether a continuation is before the first change of a range of
// the embedded account, which has LSN 2.
func isFirstPosition(continuation string) bool { return continuation == "" || continuation == `"1"` }

func TestUnhandledChangesAreNotCheckpointed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		stop := w.startHost(w.host("a", func(context.Context, Batch) error { return errors.New("never") }))
		time.Sleep(5 * time.Minute)
		w.writeMany("more", 10)
		stop()
		l := w.leaseDocuments()["0"]
		if !isFirstPosition(l.continuation) || l.owner != "" {
			t.Errorf("lease after the stop: owner %q, continuation %q", l.owner, l.continuation)
		}
	})
}

func TestPositionInsidePageIsCheckpointed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 50)
		calls := 0
		record := w.recorder("a")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := w.host("a", func(ctx context.Context, b Batch) error {
			if calls++; calls == 3 {
				cancel()
				return errors.New("stopping")
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 10 }).Drain(ctx)
		must(t, err)
		if w.deliveryCount() != 20 {
			t.Fatalf("%d delivered", w.deliveryCount())
		}
		_, err = w.host("b", w.recorder("b")).Drain(t.Context())
		must(t, err)
		w.checkComplete(0) // the 20 of the same page are not redelivered
	})
}

func TestCheckpointEvery(t *testing.T) {
	tests := []struct {
		name    string
		setting Checkpoint
		most    int
	}{
		{"every 50 changes", Checkpoint{Every: 50}, 3},
		{"every minute", Checkpoint{Interval: time.Minute}, 6},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				stop := w.startHost(w.host("a", w.recorder("a"), func(f *Function, o *Options) {
					f.Checkpoint = test.setting
					o.LeaseExpirationInterval, o.LeaseRenewInterval = time.Hour, 20*time.Minute
				}))
				for i := range 100 {
					w.write("k", fmt.Sprint("doc", i))
					time.Sleep(3 * time.Second)
				}
				time.Sleep(10 * time.Second)
				if n := w.eventCount(EventCheckpointed); n == 0 || n > test.most {
					t.Errorf("%d checkpoints", n)
				}
				stop()
				w.checkComplete(0)
				if l := w.leaseDocuments()["0"]; l.continuation != w.newestContinuation() {
					t.Errorf("the release saved %s, newest %s", l.continuation, w.newestContinuation())
				}
			})
		})
	}
}

// By default a busy range is saved every 200 ms, and a range that was quiet at once. In
// both cases a crash redelivers no more than the changes of the last 200 ms.
func TestCheckpointsAreSpaced(t *testing.T) {
	const interval = 200 * time.Millisecond
	for _, test := range []struct {
		setting     Checkpoint
		least, most int
	}{
		{Checkpoint{}, 40, 52},
		{Checkpoint{Interval: EachBatch}, 150, 500},
	} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			stop := w.startHost(w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.Checkpoint = test.setting }))
			time.Sleep(time.Minute)
			w.write("k", "after a quiet minute")
			for range 600 { // the poll of an idle range finds it within 5 s
				if time.Sleep(10 * time.Millisecond); w.deliveryCount() == 1 {
					break
				}
			}
			time.Sleep(interval / 4)
			if got := w.leaseDocuments()["0"].continuation; got != w.newestContinuation() {
				t.Errorf("%+v: the only change is handled, and %s is saved, not %s", test.setting, got, w.newestContinuation())
			}
			oldCount := w.eventCount(EventCheckpointed)
			for i := range 500 {
				w.write("k", fmt.Sprint("doc", i))
				time.Sleep(20 * time.Millisecond)
			}
			if n := w.eventCount(EventCheckpointed) - oldCount; n < test.least || n > test.most {
				t.Errorf("%+v: %d checkpoints in 10 s", test.setting, n)
			}
			time.Sleep(interval + interval/2)
			if got := w.leaseDocuments()["0"].continuation; got != w.newestContinuation() {
				t.Errorf("%+v: saved %s, want %s", test.setting, got, w.newestContinuation())
			}
			stop()
			w.checkComplete(0)
		})
	}
}

// Changes count for Every when the acknowledged prefix passes them, no matter which
// lane or page finished them.
func TestCheckpointEveryCountsPrefix(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		mergeRanges(t, w)
		w.events = nil
		for i := range 12 {
			w.writeMany(fmt.Sprint("doc", i, "-"), 20)
		}
		stop := w.startHost(w.host("a", w.recorder("a"), func(f *Function, o *Options) {
			f.Checkpoint, f.MaxItemsPerInvocation, f.PageItems = Checkpoint{Every: 20}, 2, 20
			o.LeaseExpirationInterval, o.LeaseRenewInterval = time.Hour, 29*time.Minute
		}))
		time.Sleep(time.Minute)
		if n := w.eventCount(EventCheckpointed); n < 2 {
			t.Errorf("%d checkpoints", n)
		}
		stop()
		w.checkComplete(0)
	})
}

// A lane that makes no progress causes no lease writes, even if the other lanes finish
// many batches.
func TestNoCheckpointWithoutProgress(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("blocked", "first")
		w.write("blocked", "doc")
		var waited atomic.Bool
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if b.Changes[0].ID() == "first" {
				return nil
			}
			if key := b.Changes[0].PartitionKey(); string(key) == `["blocked"]` && waited.CompareAndSwap(false, true) {
				return backoff.Sleep(ctx, 4*time.Minute)
			}
			return backoff.Sleep(ctx, time.Second)
		}, func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation = 2, 1 })
		w.writeMany("other", 60)
		var writes atomic.Int64
		w.onRequest = func(r *http.Request) {
			if r.Method == http.MethodPut {
				writes.Add(1)
			}
		}
		stop := w.startHost(h)
		time.Sleep(2 * time.Minute)
		if n := writes.Load(); n > 12 { // acquisition, the first two, and renewals
			t.Errorf("%d lease writes in two minutes without progress", n)
		}
		time.Sleep(10 * time.Minute)
		stop()
	})
}

func manualCheckpoints(f *Function, _ *Options) { f.Checkpoint = Checkpoint{Manual: true} }

func TestManualCheckpoint(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		manual := func(f *Function, _ *Options) { f.Checkpoint, f.MaxItemsPerInvocation = Checkpoint{Manual: true}, 10 }
		w.writeMany("doc", 50)
		calls := 0
		_, err := w.host("a", func(_ context.Context, b Batch) error {
			if calls++; calls == 3 {
				b.Checkpoint()
			}
			return nil
		}, manual).Drain(t.Context())
		must(t, err)
		_, err = w.host("b", w.recorder("b"), manual).Drain(t.Context())
		must(t, err)
		if got := w.deliveryCount(); got != 20 {
			t.Errorf("%d redelivered, want the 20 after the checkpoint", got)
		}
	})
}

// A handler that buffers requests a checkpoint after each flush. If that position is
// inside a page and cannot be named, a position that it did not request is not saved
// instead.
func TestManualCheckpointIsNotPastRequestedPosition(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		mergeRanges(t, w)
		w.writeMany("doc", 40)
		var mu sync.Mutex
		flushed := map[string]bool{}
		_, err := w.host("a", func(_ context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if b.Changes[0].LSN%2 == 0 { // flush only some batches
				for _, c := range b.Changes {
					flushed[c.ID()] = true
				}
				b.Checkpoint()
			}
			return nil
		}, manualCheckpoints, func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 3 }).Drain(t.Context())
		must(t, err)
		_, err = w.host("b", w.recorder("b"), manualCheckpoints).Drain(t.Context())
		must(t, err)
		for _, d := range w.delivered {
			flushed[d.doc.ID] = true
		}
		if len(flushed) < 40 {
			t.Errorf("%d of 40 flushed or delivered again", len(flushed))
		}
	})
}

// A request is for the batch of the handler that made it, in whatever order the lanes
// finish, and it counts only if the handler accepted the batch.
func TestManualCheckpointWithLanes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 60)
		var calls atomic.Int64
		h := w.host("a", func(ctx context.Context, b Batch) error {
			b.Checkpoint()
			n := calls.Add(1)
			if n%4 == 0 {
				return errors.New("not now")
			}
			return backoff.Sleep(ctx, time.Duration(n*3%7)*time.Second)
		}, manualCheckpoints, func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation = 4, 3 })
		_, err := h.Drain(t.Context())
		must(t, err)
		if l := w.leaseDocuments()["0"]; l.continuation != w.newestContinuation() {
			t.Errorf("checkpoint %s, though every batch requested one; newest %s", l.continuation, w.newestContinuation())
		}
	})
}

func TestManualCheckpointOfFailedBatchDoesNotCount(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		_, err := w.host("a", func(_ context.Context, b Batch) error {
			if b.Attempt == 1 {
				b.Checkpoint()
				return errors.New("failed")
			}
			return nil
		}, manualCheckpoints).Drain(t.Context())
		must(t, err)
		if l := w.leaseDocuments()["0"]; !isFirstPosition(l.continuation) {
			t.Errorf("checkpoint %s, though no accepted batch requested one", l.continuation)
		}
	})
}

// A request counts even if the changes after its batch were finished first, in other
// lanes and without a request.
func TestManualCheckpointBeforeOtherLanesIsKept(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 30)
		var first atomic.Int64
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if b.Changes[0].ID() != "doc0" {
				return backoff.Sleep(ctx, time.Second) // it returns after the request
			}
			first.Store(b.Changes[0].LSN)
			b.Checkpoint()
			return backoff.Sleep(ctx, time.Minute)
		}, manualCheckpoints, func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation = 4, 1 })
		_, err := h.Drain(t.Context())
		must(t, err)
		if got, want := w.leaseDocuments()["0"].continuation, fmt.Sprintf("%q", fmt.Sprint(first.Load())); got != want {
			t.Errorf("checkpoint %s, the batch with the request ends at %s; head %s", got, want, w.newestContinuation())
		}
	})
}

// The calls of 100 ranges end at one moment, and so do not write their leases at one moment.
func TestCheckpointsTakeTurns(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		w.writeMany("doc", 2000)
		writes := map[time.Time]int{}
		network := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if isLeaseReplace(r) {
				w.mu.Lock()
				writes[time.Now()]++
				w.mu.Unlock()
				time.Sleep(schedule.MaxTurn / 4)
			}
			return nil, nil, false
		}}
		end := make(chan struct{})
		record := w.recorder("a")
		stop := w.startHost(w.hostOn(network, "a", func(ctx context.Context, b Batch) error {
			<-end
			return record(ctx, b)
		}))
		time.Sleep(10 * time.Second)
		w.mu.Lock()
		clear(writes) // of the acquisition
		w.mu.Unlock()
		close(end)
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		if most := slices.Max(slices.Collect(maps.Values(writes))); most != schedule.MaxTurns {
			t.Errorf("%d lease writes at one moment, want %d", most, schedule.MaxTurns)
		}
		w.mu.Unlock()
		stop()
		w.checkComplete(0)
	})
}

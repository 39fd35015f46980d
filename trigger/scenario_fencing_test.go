package trigger

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
)

// A host that reads the feed but cannot write its lease stops delivering before
// another host may acquire the lease. The time counts from when its last successful
// write left. When writes succeed again, it continues.
func TestNoDeliveryBeginsOnUntrustedLease(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer time.Duration // how long the last write that arrives is on its way
	}{
		{"at once", 0},
		{"slow", 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				var mu sync.Mutex
				var lastWrite, last time.Time // when the newest write left; when the newest delivery began
				cut := false
				w.onRequest = func(r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					if r.Method == http.MethodPut && !cut {
						lastWrite = time.Now()
					}
				}
				record := w.recorder("a")
				stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
					mu.Lock()
					last = time.Now()
					mu.Unlock()
					return record(ctx, b)
				}))
				time.Sleep(10 * time.Second)
				if test.answer > 0 {
					w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Delay: test.answer, Count: 1})
				}
				w.writeMany("before", 1)
				time.Sleep(6 * time.Second) // delivered, and its checkpoint has left
				mu.Lock()
				cut = true
				mu.Unlock()
				remove := w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Status: 503})
				for range 120 {
					w.writeMany("during", 3)
					time.Sleep(time.Second)
				}
				mu.Lock()
				gap := last.Sub(lastWrite)
				mu.Unlock()
				if gap >= 54*time.Second || gap < 40*time.Second {
					t.Errorf("the last delivery began %v after the last write left, want just under 54s", gap)
				}
				remove()
				time.Sleep(time.Minute)
				stop()
				w.checkComplete(0)
			})
		})
	}
}

// If a lease expires while the store is asked about a blocked key, no delivery begins
// before the lease is confirmed.
func TestNoDeliveryOnUntrustedLeaseAfterSlowStore(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &slowStore{}
		must(t, store.Put(t.Context(), DeadLetter{Version: DeadLetterVersion, Kind: RecordDead, ID: "x", Function: "test", Account: w.source().Account, Database: "db", Container: "items", Key: `["k"]`}))
		w.write("k", "doc")
		var writesSucceed atomic.Bool
		store.onHolds = func() {
			remove := w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Status: 503})
			time.AfterFunc(3*time.Minute, func() {
				writesSucceed.Store(true)
				remove()
			})
		}
		record := w.recorder("a")
		_, err := w.host("a", func(ctx context.Context, b Batch) error {
			if !writesSucceed.Load() {
				t.Error("delivered while no lease write arrived for longer than the lease lasts")
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.BlockKeys, f.DeadLetters = true, store }).Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
	})
}

func TestLostLeaseCancelsHandler(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		causes := make(chan error, 10)
		entered := make(chan struct{}, 10)
		w.writeMany("doc", 10)
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			entered <- struct{}{}
			causes <- backoff.Sleep(ctx, 4*time.Minute)
			return ctx.Err()
		}))
		<-entered
		l := w.leaseDocuments()["0"]
		l.owner = "dotnet"
		w.replaceLease(l)
		time.Sleep(20 * time.Second) // one renewal
		select {
		case cause := <-causes:
			if !errors.Is(cause, ErrLeaseLost) {
				t.Errorf("handler's context ended with %v", cause)
			}
		default:
			t.Error("handler's context did not end")
		}
		if got := w.leaseDocuments()["0"]; got.owner != "dotnet" || got.continuation != "" {
			t.Errorf("lease was written after it was lost: %+v", got)
		}
		stop()
	})
}

// Only the service's clock decides which lease has expired. Hosts whose clocks are ten
// minutes ahead or behind do not take leases from live hosts, and do take those of
// dead ones.
func TestHostClocksDoNotDecideExpiration(t *testing.T) {
	for _, offset := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		t.Run(offset.String(), func(t *testing.T) {
			inWorld(t, 4, func(t *testing.T, w *world) {
				w.writeMany("doc", 40)
				a := w.startHost(w.hostThrough("a", offsetClock{w, offset}, w.recorder("a")))
				time.Sleep(time.Minute)
				b := w.startHost(w.hostThrough("b", offsetClock{w, offset}, w.recorder("b")))
				time.Sleep(10 * time.Minute)
				if n := w.eventCount(EventAcquired); n != 6 { // four, and two of them handed over
					t.Errorf("%d acquisitions by two healthy hosts", n)
				}
				a()
				b()
				w.checkComplete(0)

				l := w.leaseDocuments()["0"]
				l.owner = "dead"
				w.replaceLease(l)
				c := w.startHost(w.hostThrough("c", offsetClock{w, offset}, w.recorder("c")))
				time.Sleep(88 * time.Second)
				c()
				if l := w.leaseDocuments()["0"]; l.owner == "dead" {
					t.Error("the lease of a dead host was not acquired")
				}
			})
		})
	}
}

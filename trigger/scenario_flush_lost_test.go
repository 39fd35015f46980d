package trigger

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"halley/trigger/emulator"
)

// Flush is not called if the lease is lost, if a handler call was left behind, or if there
// was no call.
func TestFlushIsNotCalled(t *testing.T) {
	hangs := make(chan struct{})
	for name, test := range map[string]struct {
		documents int
		end       func(w *world)
		reason    CloseReason
	}{
		"lost lease":     {20, func(w *world) { w.takeLease("0", "thief") }, ClosedLeaseLost},
		"deleted lease":  {20, func(w *world) { must(w.t, w.deleteLease(w.leaseDocuments()["0"])) }, ClosedLeaseLost},
		"hung call":      {20, func(w *world) { w.write("hangs", "hangs") }, ClosedStuck},
		"nothing to say": {0, func(w *world) { w.requestHandover(w.leaseDocuments()["0"], "b") }, ClosedHandedOver},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				hangs = make(chan struct{})
				w.writeMany("doc", test.documents)
				s := newFlushes(nil)
				stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
					if b.Changes[0].ID() == "hangs" {
						<-hangs
					}
					return s.handle(ctx, b)
				}, s.use, withoutLogger, func(f *Function, _ *Options) { f.HandlerTimeout = time.Second }))
				time.Sleep(time.Minute)
				test.end(w)
				for range 60 {
					if time.Sleep(time.Second); w.eventCount(EventReleased) > 0 {
						break
					}
				}
				if got := w.eventsOf(EventReleased); len(got) == 0 || got[0].Reason != test.reason {
					t.Errorf("released %+v", got)
				}
				if s.calls() > 0 || w.eventCount(EventFlushed) > 0 {
					t.Errorf("%d calls of Flush, %d events", s.calls(), w.eventCount(EventFlushed))
				}
				close(hangs)
				stop()
			})
		})
	}
}

// The lease is taken, or cannot be written, while Flush runs: its context ends before
// another host may have begun with the range, and its result counts for nothing.
func TestFlushEndsWithTheLease(t *testing.T) {
	for name, test := range map[string]struct {
		begin func(w *world) (mend func())
		cause string
	}{
		"lost": {func(w *world) func() { w.takeLease("0", "thief"); return func() {} }, "lease lost"},
		"not written": {func(w *world) func() {
			return w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/docs/", Status: 500})
		}, "lease was not written"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.writeMany("doc", 20)
				var mend func()
				s := newFlushes(func(ctx context.Context) error {
					mend = test.begin(w)
					<-ctx.Done()
					return nil
				})
				_, err := w.host("a", s.handle, s.use, withoutLogger).Drain(t.Context())
				must(t, err)
				mend()
				if len(s.causes) != 1 || !strings.Contains(s.causes[0].Error(), test.cause) {
					t.Errorf("Flush ended because of %v", s.causes)
				}
				e := w.eventsOf(EventFlushed)[0]
				if took := e.Time.Sub(s.began[0]); took > 54*time.Second {
					t.Errorf("Flush ended after %v", took)
				}
				if l := w.leaseDocuments()["0"]; name == "lost" && (l.continuation != "" || l.owner != "thief" || e.Err == nil) {
					t.Errorf("lease %+v, event %+v", l, e)
				}
			})
		})
	}
}

// A postponed change is handled, and then in the memory of its sink alone. A flush deletes
// its letter before it saves the position; if the store fails, it saves nothing.
func TestFlushDeletesPostponedChanges(t *testing.T) {
	for name, test := range map[string]struct {
		flushed error
		broken  bool
		letters int
	}{
		"flushed": {nil, false, 0}, "refused": {errors.New("disk is full"), false, 1}, "store fails": {nil, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.write("player", "doc")
				store := &failingDeletes{}
				s := newFlushes(func(context.Context) error {
					store.fails = test.broken
					return test.flushed
				})
				tried := false
				stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
					if !tried {
						tried = true
						return RetryAfter(errLater, 10*time.Second)
					}
					return s.handle(ctx, b)
				}, s.use, withoutLogger, func(f *Function, _ *Options) { f.DeadLetters = store }))
				time.Sleep(time.Minute)
				w.write("other", "later")
				time.Sleep(time.Minute)
				stop()
				if n := len(store.all()); n != test.letters {
					t.Errorf("%d letters in the store, want %d", n, test.letters)
				}
				if l := w.leaseDocuments()["0"]; (l.continuation == w.newestContinuation()) != (test.letters == 0) {
					t.Errorf("position %s with %d letters", l.continuation, test.letters)
				}
				if keys := w.leaseDocuments()["0"].properties[postponedProperty]; (keys == "0") != (test.letters == 0) {
					t.Errorf("lease says %q postponed with %d letters", keys, test.letters)
				}
				if failed := w.eventsOf(EventFlushed)[0].Err; (failed != nil) != (test.letters > 0) {
					t.Errorf("event says %v", failed)
				}
			})
		})
	}
}

// failingDeletes is a store that refuses to delete while fails is set.
type failingDeletes struct {
	memoryStore
	fails bool
}

func (s *failingDeletes) Delete(ctx context.Context, d DeadLetter) error {
	if s.fails {
		return errors.New("store is down")
	}
	return s.memoryStore.Delete(ctx, d)
}

package trigger

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// breakingStore is a store of which the first call of an operation ends in a way of its own.
type breakingStore struct {
	stuckStore
}

func newBreakingStore(operation string, end func()) *breakingStore {
	s := &breakingStore{}
	s.counts = map[string]int{}
	s.sticks = func(called string, n int) bool {
		if called == operation && n == 1 {
			defer s.mu.Unlock() // the call does not return to its caller
			end()
		}
		return false
	}
	return s
}

// A call of the store panics, or ends its goroutine. That is a failed request like any
// other: nothing is lost, the call is made again, and the process continues.
func TestPanicOfStoreIsFailedRequest(t *testing.T) {
	ends := map[string]func(){"panic": func() { panic("store") }, "Goexit": runtime.Goexit}
	for name, end := range ends {
		for _, operation := range []string{"put", "delete", "list", "load", "holds"} {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store, calls := newBreakingStore(operation, end), 0
				handler := func(_ context.Context, b Batch) error {
					switch calls++; {
					case b.Changes[0].ID() == "poison":
						return Skip(errPoison)
					case calls == 1:
						return RetryAfter(errLater, 5*time.Second)
					}
					return w.recorder("a")(context.Background(), b)
				}
				stop := w.startHost(w.host("a", handler, withoutLogger, func(f *Function, _ *Options) {
					f.DeadLetters, f.BlockKeys, f.MaxItemsPerInvocation = store, true, 1
				}))
				w.write("player", "later")
				time.Sleep(time.Minute)
				w.write("other", "poison")
				time.Sleep(time.Minute)
				w.write("other", "behind") // the store is asked whether it still has the poison
				time.Sleep(time.Minute)
				stop()
				if got := fmt.Sprint(store.documentIDs()); got != "[poison behind]" || w.deliveryCount() != 1 {
					t.Errorf("%s in %s: %s in the store, %d handled", name, operation, got, w.deliveryCount())
				}
				if store.counts[operation] < 2 {
					t.Errorf("%s in %s: %d calls", name, operation, store.counts[operation])
				}
			})
		}
	}
}

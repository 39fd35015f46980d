package trigger

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/internal/delivery"
	"halley/trigger/stall"
)

// stuckStore is a store of which some calls ignore their context: they wait until freed is
// closed, and have their effect only then.
type stuckStore struct {
	memoryStore
	sticks  func(operation string, n int) bool // the n-th call of an operation, from 1
	freed   chan struct{}
	counts  map[string]int
	waiting atomic.Int64
}

func newStuckStore(sticks func(operation string, n int) bool) *stuckStore {
	return &stuckStore{sticks: sticks, freed: make(chan struct{}), counts: map[string]int{}}
}

func (s *stuckStore) enter(operation string) {
	s.mu.Lock()
	s.counts[operation]++
	sticks := s.sticks(operation, s.counts[operation])
	s.mu.Unlock()
	if sticks {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		<-s.freed
	}
}

func (s *stuckStore) Put(ctx context.Context, d DeadLetter) error {
	s.enter("put")
	return s.memoryStore.Put(ctx, d)
}

func (s *stuckStore) Delete(ctx context.Context, d DeadLetter) error {
	s.enter("delete")
	return s.memoryStore.Delete(ctx, d)
}

func (s *stuckStore) Holds(ctx context.Context, source DeadLetterSource, key string) (bool, error) {
	s.enter("holds")
	return s.memoryStore.Holds(ctx, source, key)
}

func (s *stuckStore) Query(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	if q.Key == "" {
		s.enter("list")
	} else {
		s.enter("load")
	}
	return s.memoryStore.Query(ctx, q)
}

// A call of the store that ignores its context is left behind: status names the store, other
// lanes continue, the call is made again, and a stop is prompt.
func TestStuckStoreStopsOneLaneAndSaysSo(t *testing.T) {
	tests := map[string]struct {
		sticks func(operation string, n int) bool
		all    bool // also the other lanes wait: the keys are not known
		isLong bool
	}{
		"a put":           {sticks: func(operation string, n int) bool { return operation == "put" && n == 1 }},
		"puts for ever":   {sticks: func(operation string, _ int) bool { return operation == "put" }, isLong: true},
		"a load":          {sticks: func(operation string, n int) bool { return operation == "load" && n == 1 }},
		"a delete":        {sticks: func(operation string, n int) bool { return operation == "delete" && n == 1 }},
		"the first list":  {sticks: func(operation string, n int) bool { return operation == "list" && n == 1 }, all: true},
		"lists for ever":  {sticks: func(operation string, _ int) bool { return operation == "list" }, all: true, isLong: true},
		"loads for ever":  {sticks: func(operation string, _ int) bool { return operation == "load" }, isLong: true},
		"always the same": {sticks: func(operation string, _ int) bool { return operation == "delete" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.isLong {
				inLongForm(t)
			}
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := newStuckStore(test.sticks)
				p := newPatience(w, "a", postponeOnce("later", 10*time.Second))
				h := w.host("a", p.handle, func(f *Function, o *Options) {
					f.DeadLetters, f.Lanes, o.Logger = store, 8, nil
				})
				w.write("k", "later")
				stop := w.startHost(h)
				says := func() bool {
					for _, r := range h.Status().Functions[0].Ranges {
						if len(r.Stalls) > 0 && r.Stalls[0].Kind == stall.StorePending && strings.Contains(r.Problem, "dead letter store fails") && strings.Contains(r.Problem, "ignores the end of its context") {
							return true
						}
					}
					return false
				}
				began := time.Now()
				for !says() && time.Since(began) < 2*time.Minute {
					time.Sleep(20 * time.Millisecond) // a second call may come soon
				}
				if took, limit := time.Since(began), 10*time.Second+delivery.StoreTimeout+5*time.Second; took > limit {
					t.Errorf("status names the store after %s, at most %s are allowed", took, limit)
				}
				w.writeMany("other", 40)
				time.Sleep(5 * time.Second)
				if n := w.deliveryCount(); !test.all && n < 20 {
					t.Errorf("%d of 40 changes of other keys were delivered", n)
				}
				time.Sleep(time.Hour)
				if n := store.waiting.Load(); n == 0 || n > maxStuckStoreCalls {
					t.Errorf("%d calls are left behind, want at most %d", n, maxStuckStoreCalls)
				}
				if !test.sticks("put", 2) && !test.sticks("load", 2) && !test.sticks("delete", 2) && !test.sticks("list", 2) {
					if problem := h.Status().Functions[0].Ranges[0].Problem; problem != "" || len(store.documentIDs()) > 0 {
						t.Errorf("after a second call the range has the problem %q, and %v is in the store", problem, store.documentIDs())
					}
					w.checkComplete(0)
				}
				began = time.Now()
				stop()
				if took, limit := time.Since(began), h.host.options.StopGrace+time.Second; took > limit {
					t.Errorf("the stop took %s, at most %s are allowed", took, limit)
				}
				close(store.freed)
			})
		})
	}
}

// A write that was left behind lands when the change has been delivered and deleted: the
// next owner finds the letter and delivers the change once more.
func TestLateWriteOfStuckStoreIsDeliveredAgain(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := newStuckStore(func(operation string, n int) bool { return operation == "put" && n == 1 })
		p := newPatience(w, "a", postponeOnce("later", 10*time.Second))
		change := func(f *Function, o *Options) { f.DeadLetters, o.Logger = store, nil }
		w.write("k", "later")
		stop := w.startHost(w.host("a", p.handle, change))
		time.Sleep(5 * time.Minute)
		if got := p.order(); got != "later later" || len(store.documentIDs()) != 0 {
			t.Fatalf("delivered %s, in the store %v", got, store.documentIDs())
		}
		close(store.freed)
		time.Sleep(time.Minute)
		stop()
		if got := fmt.Sprint(store.documentIDs()); got != "[later]" {
			t.Fatalf("in the store %s: the write has not landed", got)
		}
		stop = w.startHost(w.host("b", p.handle, change))
		time.Sleep(time.Minute)
		stop()
		if got := p.order(); got != "later later later" || len(store.documentIDs()) != 0 {
			t.Errorf("delivered %s, in the store %v", got, store.documentIDs())
		}
	})
}

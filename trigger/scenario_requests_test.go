package trigger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
)

// bufferingSink keeps changes in memory until it is flushed. It ends with its process.
type bufferingSink struct {
	mu       sync.Mutex
	buffered []string
	flushed  map[string]bool // durable
}

func (s *bufferingSink) keep(b Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range b.Changes {
		s.buffered = append(s.buffered, c.ID())
	}
}

// flush makes the changes in memory durable, and then asks for a checkpoint.
func (s *bufferingSink) flush(b Batch) {
	s.flushAll()
	b.Checkpoint()
}

func (s *bufferingSink) flushAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.buffered {
		s.flushed[id] = true
	}
	s.buffered = nil
}

// lost returns the documents that are neither durable nor delivered to a later owner.
func (s *bufferingSink) lost(w *world) (ids []string) {
	later := map[string]bool{}
	for _, d := range w.delivered {
		later[d.doc.ID] = true
	}
	for id := range w.written {
		if !s.flushed[id] && !later[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// The first change fails, the others are flushed with a request, and the retry of the
// first is kept in memory. The process ends: the next owner delivers it again, and it alone.
func TestRequestDoesNotCoverLaterRetry(t *testing.T) {
	for name, retryAsks := range map[string]bool{"without a further request": false, "with one": true} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			w.writeMany("doc", 10)
			sink := &bufferingSink{flushed: map[string]bool{}}
			one := func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 1 }
			_, err := w.host("a", func(_ context.Context, b Batch) error {
				if id := b.Changes[0].ID(); id == "doc0" && b.Attempt == 1 {
					return errors.New("not now")
				} else if sink.keep(b); id == "doc9" || retryAsks {
					sink.flush(b)
				}
				return nil
			}, manualCheckpoints, one).Drain(t.Context())
			must(t, err)
			_, err = w.host("b", w.recorder("b"), manualCheckpoints).Drain(t.Context())
			must(t, err)
			if lost := sink.lost(w); len(lost) > 0 {
				t.Errorf("%s: lost %v", name, lost)
			}
			if got, want := w.deliveryCount(), map[bool]int{false: 1}[retryAsks]; got != want {
				t.Errorf("%s: %d redelivered, want %d", name, got, want)
			}
		})
	}
}

// A request covers the calls that had returned before it, in all lanes, whatever their
// places: not one that returned between the request and the end of the call that made it.
func TestRequestCoversReturnedCalls(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 40)
		sink := &bufferingSink{flushed: map[string]bool{}}
		var last int64 // LSN of the change before the first that returned late
		_, err := w.host("a", func(ctx context.Context, b Batch) error {
			switch c := b.Changes[0]; c.ID() {
			case "doc20":
				must(t, backoff.Sleep(ctx, time.Minute))
				sink.keep(b)
				sink.flush(b)
				return backoff.Sleep(ctx, time.Minute)
			case "doc5":
				last = c.LSN - 1
				must(t, backoff.Sleep(ctx, 90*time.Second))
			}
			sink.keep(b)
			return nil
		}, manualCheckpoints, func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation = 16, 1 }).Drain(t.Context())
		must(t, err)
		if got, want := w.leaseDocuments()["0"].continuation, fmt.Sprintf("%q", fmt.Sprint(last)); got != want {
			t.Errorf("saved %s, want %s, before the call that returned after the request", got, want)
		}
		_, err = w.host("b", w.recorder("b"), manualCheckpoints).Drain(t.Context())
		must(t, err)
		if lost := sink.lost(w); len(lost) > 0 {
			t.Errorf("lost %v", lost)
		}
	})
}

// Calls fail, wait and ask at random, in one lane and in several, in a range alone and in
// a merged one, and postpone changes. Some sinks flush at the end, and some fail to. When the
// process ends, each change is durable, dead, or delivered again.
func TestBufferingSinkLosesNothing(t *testing.T) {
	saved := 0
	for seed := range uint64(40) {
		inWorld(t, 1+int(seed%2), func(t *testing.T, w *world) {
			if seed%2 == 1 {
				mergeRanges(t, w)
			}
			random := rand.New(rand.NewPCG(seed, 1))
			for i := range 200 {
				w.write(fmt.Sprint("player", random.IntN(30)), fmt.Sprint("doc", i))
			}
			sink, store := &bufferingSink{flushed: map[string]bool{}}, &memoryStore{}
			var mu sync.Mutex
			roll := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			pause := func(ctx context.Context) { _ = backoff.Sleep(ctx, time.Duration(roll(3))*time.Second) }
			var asked atomic.Int64
			handler := func(ctx context.Context, b Batch) error {
				pause(ctx)
				switch {
				case roll(6) == 0:
					return errors.New("not now")
				case roll(20) == 0:
					return Skip(Failed(errors.New("never"), b.Changes...))
				case roll(8) == 0:
					return RetryAfter(errors.New("later"), time.Duration(1+roll(20))*time.Second)
				}
				sink.keep(b)
				if roll(8) == 0 {
					sink.flush(b)
					asked.Add(1)
				}
				if pause(ctx); roll(10) == 0 {
					return errors.New("not yet")
				}
				return nil
			}
			settings := func(f *Function, _ *Options) {
				f.MaxItemsPerInvocation, f.Lanes, f.PageItems = 1+random.IntN(5), 1+random.IntN(4), 30
				f.RetryMax, f.NoBisection = time.Second, seed%3 == 0
				f.Flush = func(ctx context.Context, _ RangeInfo) error {
					if pause(ctx); roll(3) == 0 {
						return errors.New("not flushed")
					}
					sink.flushAll()
					return nil
				}
				if seed%4 == 0 {
					f.Flush = nil
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(100))*time.Second)
			defer cancel()
			_, err := w.host("a", handler, manualCheckpoints, settings, withStore(store)).Drain(ctx)
			must(t, err)
			time.Sleep(time.Minute) // the postponed changes are due
			_, err = w.host("b", w.recorder("b"), withStore(store)).Drain(t.Context())
			must(t, err)
			for _, id := range store.documentIDs() {
				delete(w.written, id)
			}
			if lost := sink.lost(w); len(lost) > 0 {
				t.Errorf("seed %d: lost %v after %d requests", seed, lost, asked.Load())
			}
			if w.deliveryCount() < 200 {
				saved++
			}
		})
	}
	if saved < 10 {
		t.Errorf("%d of 40 runs saved a position", saved)
	}
}

// A sink has a postponed change in memory alone when its drain ends. The next drain delivers
// the change again, although the feed has nothing new, until a request covers it.
func TestPostponedChangeWaitsForRequest(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		w.write("player", "doc")
		var verdict error
		asks, calls := false, 0
		handler := func(_ context.Context, b Batch) error {
			calls++
			if asks {
				b.Checkpoint()
			}
			return verdict
		}
		for i, step := range []struct {
			verdict       error
			asks          bool
			calls, stored int
		}{
			{RetryAfter(errLater, time.Second), false, 1, 1},
			{nil, false, 1, 1},
			{nil, false, 1, 1},
			{nil, true, 1, 0},
			{nil, false, 0, 0},
		} {
			verdict, asks, calls = step.verdict, step.asks, 0
			_, err := w.host(fmt.Sprint("host", i), handler, manualCheckpoints, withStore(store)).Drain(t.Context())
			must(t, err)
			if n := len(store.all()); calls != step.calls || n != step.stored {
				t.Errorf("drain %d: %d calls and %d changes in the store, want %d and %d", i, calls, n, step.calls, step.stored)
			}
			time.Sleep(time.Minute)
		}
	})
}

// A postponed change is handled and waits for a request. Meanwhile a later change of its
// key is postponed, too: the first one is not delivered again with it.
func TestHandledChangeIsNotDeliveredWithLaterPostponedOne(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		var delivered []string
		tries := map[string]int{}
		stop := w.startHost(w.host("a", func(_ context.Context, b Batch) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if b.Changes[0].ID() == "request" {
				b.Checkpoint()
				return nil
			}
			for _, c := range b.Changes {
				delivered = append(delivered, c.ID())
				if tries[c.ID()]++; tries[c.ID()] == 1 {
					return RetryAfter(errLater, 20*time.Second)
				}
			}
			return nil
		}, manualCheckpoints, withStore(store)))
		w.write("player", "first")
		time.Sleep(time.Minute)
		w.write("player", "second")
		time.Sleep(time.Minute)
		w.mu.Lock()
		got := fmt.Sprint(delivered)
		w.mu.Unlock()
		if got != "[first first second second]" {
			t.Errorf("delivered %s", got)
		}
		if n := len(store.all()); n != 2 {
			t.Errorf("%d changes in the store, want both, as no request covers them", n)
		}
		w.write("other", "request")
		time.Sleep(time.Minute)
		stop()
		if n := len(store.all()); n != 0 {
			t.Errorf("%d changes in the store after the request", n)
		}
	})
}

// A sink that does not ask for a checkpoint keeps no more than 1,000 keys in the store, as
// the host remembers their changes: beyond them a postponed change fails plainly.
func TestKeysThatWaitForRequestCountAsPostponed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store, tried := &memoryStore{}, map[string]bool{}
		h := w.host("a", func(_ context.Context, b Batch) error {
			var errs []error
			for _, c := range b.Changes {
				if !tried[c.ID()] {
					errs = append(errs, RetryAfter(Failed(errLater, c), time.Second))
				}
				tried[c.ID()] = true
			}
			return errors.Join(errs...)
		}, withoutLogger, manualCheckpoints, withStore(store))
		stop := w.startHost(h)
		for _, prefix := range []string{"early", "late"} { // the late ones follow when the early ones are handled
			w.writeMany(prefix, 750)
			time.Sleep(5 * time.Minute)
		}
		if s := h.Status().Functions[0].Ranges[0]; s.PostponedKeys != 1000 || s.Changes != 1500 {
			t.Errorf("%d keys are postponed and %d changes handled, want 1000 and 1500", s.PostponedKeys, s.Changes)
		}
		stop()
		if n := len(store.all()); n != 1000 {
			t.Errorf("%d changes in the store", n)
		}
	})
}

// lateStore answers a list of a key a while after it has read it.
type lateStore struct {
	memoryStore
	delay atomic.Int64 // nanoseconds
}

func (s *lateStore) Query(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	page, err := s.memoryStore.Query(ctx, q)
	time.Sleep(time.Duration(s.delay.Load()))
	return page, err
}

// A change is handled and waits for a request, a later one of its key is handled, and a third
// one is postponed. While a lane loads the third one, a request in another lane covers the
// first: it is not delivered again, after the second one.
func TestChangeCoveredDuringLoadIsNotDeliveredAgain(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &lateStore{}
		var delivered []string
		tries := map[string]int{}
		stop := w.startHost(w.host("a", func(_ context.Context, b Batch) error {
			id := b.Changes[0].ID()
			if strings.HasPrefix(id, "other") {
				b.Checkpoint()
				return nil
			}
			delivered = append(delivered, id)
			if tries[id]++; tries[id] == 1 && id != "second" {
				return RetryAfter(errLater, 20*time.Second)
			}
			return nil
		}, manualCheckpoints, func(f *Function, _ *Options) { f.DeadLetters, f.Lanes, f.MaxItemsPerInvocation = store, 8, 1 }))
		w.write("player", "first")
		time.Sleep(time.Minute)
		w.write("player", "second")
		time.Sleep(time.Minute)
		w.write("player", "third")
		time.Sleep(10 * time.Second)
		store.delay.Store(int64(20 * time.Second)) // from 20 s after the change on
		time.Sleep(15 * time.Second)
		w.writeMany("other", 20) // in all lanes
		time.Sleep(2 * time.Minute)
		stop()
		if got := fmt.Sprint(delivered); got != "[first first second third third]" {
			t.Errorf("delivered %s", got)
		}
	})
}

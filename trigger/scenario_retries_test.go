package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
)

func TestFailedBatchIsRedelivered(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		record := w.recorder("a")
		var attempts []int
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			attempts = append(attempts, b.Attempt)
			for _, c := range b.Changes {
				clear(c.Document) // a handler may change its bytes
			}
			switch b.Attempt {
			case 1:
				return errors.New("sink is down")
			case 2:
				panic("bug")
			case 3:
				return nil
			}
			return record(ctx, b)
		}, withoutBisection))
		time.Sleep(time.Minute)
		stop()
		if fmt.Sprint(attempts) != "[1 2 3]" {
			t.Errorf("attempts %v", attempts)
		}
		if got := w.leaseDocuments()["0"].continuation; got == "" {
			t.Error("not checkpointed")
		}
	})
}

func TestBisectionIsolatesPoisonChange(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 40)
		w.write("k", "poison")
		w.writeMany("more", 40)
		store := &memoryStore{}
		calls := 0
		counted := func(ctx context.Context, b Batch) error { calls++; return w.recorder("a")(ctx, b) }
		summary, err := w.host("a", failOnPoison(counted), withStore(store)).Drain(t.Context())
		must(t, err)
		delete(w.written, "poison")
		w.checkComplete(0)
		if got := store.documentIDs(); len(got) != 1 || got[0] != "poison" {
			t.Errorf("dead letters %v", got)
		}
		d := store.deadLetters[0]
		if d.Attempts < 10 || d.Key != `["k"]` || d.Range != "0" || d.Epoch != firstEpoch+1 || d.LSN == 0 || !strings.Contains(d.Error, "poison") {
			t.Errorf("dead letter %+v", d)
		}
		if summary.DeadLetters != 1 || summary.Changes != 80 || summary.Behind != 0 {
			t.Errorf("summary %+v", summary)
		}
		if summary.Retries > 10+8 || calls > 10 {
			t.Errorf("%d failed and %d successful calls", summary.Retries, calls)
		}
		if l := w.leaseDocuments()["0"]; l.continuation != w.newestContinuation() {
			t.Errorf("checkpoint %s, newest %s", l.continuation, w.newestContinuation())
		}
	})
}

func TestOutageCostsFewCalls(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 100)
		began := time.Now()
		record, failed := w.recorder("a"), 0
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if time.Since(began) < 10*time.Minute {
				failed++
				return errors.New("sink is down")
			}
			return record(ctx, b)
		}))
		time.Sleep(12 * time.Minute)
		stop()
		w.checkComplete(0)
		if failed > 10*60/15+12 {
			t.Errorf("%d calls during an outage of 10 minutes", failed)
		}
	})
}

func TestBreakerPausesWhenEverythingFails(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 100)
		store := &memoryStore{}
		fail := true
		var mu sync.Mutex
		record := w.recorder("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if fail {
				return errors.New("sink is down")
			}
			return record(ctx, b)
		}, withStore(store, func(f *Function) {
			f.MaxAttempts, f.BreakerLimit, f.BreakerPause, f.RetryMax = 3, 5, 10*time.Minute, time.Second
		}))
		stop := w.startHost(h)
		time.Sleep(time.Hour)
		if n := len(store.documentIDs()); n < 5 || n > 5+6 {
			t.Errorf("%d dead letters after an hour of outage", n)
		}
		if problem := h.Status().Functions[0].Ranges[0].Problem; !strings.Contains(problem, "everything fails") && !strings.Contains(problem, "sink is down") {
			t.Errorf("problem %q", problem)
		}
		mu.Lock()
		fail = false
		mu.Unlock()
		time.Sleep(15 * time.Minute)
		stop()
		if got := w.deliveryCount() + len(store.documentIDs()); got != 100 {
			t.Errorf("%d delivered or dead-lettered of 100", got)
		}
	})
}

func TestRetryMaxAgeDeadLetters(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		store := &memoryStore{}
		stop := w.startHost(w.host("a", failOnPoison(w.recorder("a")), withStore(store, func(f *Function) {
			f.MaxAttempts, f.RetryMaxAge = -1, 10*time.Minute
		})))
		time.Sleep(9 * time.Minute)
		if n := len(store.documentIDs()); n != 0 {
			t.Errorf("%d dead letters too early", n)
		}
		time.Sleep(2 * time.Minute)
		stop()
		if n := len(store.documentIDs()); n != 1 {
			t.Errorf("%d dead letters", n)
		}
	})
}

// No owner lasts until the change is dead-lettered. The attempts of one owner count
// for the next.
func TestAttemptsContinueAcrossOwners(t *testing.T) {
	tests := []struct {
		name  string
		drain time.Duration
		busy  time.Duration // how long the handler takes to fail
		set   func(*Function)
	}{
		{"a drain of 48 seconds, failing at once", 48 * time.Second, 0, nil},
		{"a drain of 270 seconds, failing slowly", 270 * time.Second, 15 * time.Second, nil},
		{"attempts as long as a drain", 270 * time.Second, time.Hour, nil},
		{"a maximum age longer than a drain", 270 * time.Second, 0, func(f *Function) { f.MaxAttempts, f.RetryMaxAge = -1, 10*time.Minute }},
		{"no bisection", 48 * time.Second, 0, func(f *Function) { f.NoBisection, f.MaxItemsPerInvocation = true, 1 }},
		{"lanes", 48 * time.Second, 0, func(f *Function) { f.Lanes = 4 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.set != nil {
				inLongForm(t)
			}
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.write("k", "poison")
				w.writeMany("doc", 99)
				store := &memoryStore{}
				var set []func(*Function)
				if test.set != nil {
					set = append(set, test.set)
				}
				record := w.recorder("a")
				for range 100 {
					h := w.host("a", func(ctx context.Context, b Batch) error {
						for _, c := range b.Changes {
							if c.ID() == "poison" {
								_ = backoff.Sleep(ctx, test.busy)
								return errPoison
							}
						}
						return record(ctx, b)
					}, withStore(store, set...))
					ctx, cancel := context.WithTimeout(t.Context(), test.drain)
					_, err := h.Drain(ctx)
					cancel()
					must(t, err)
					time.Sleep(10 * time.Second)
				}
				if n := w.deliveredDocuments(); fmt.Sprint(store.documentIDs()) != "[poison]" || n != 99 {
					t.Fatalf("dead letters %v, %d of 99 others delivered", store.documentIDs(), n)
				}
				if d := store.deadLetters[0]; test.set == nil && (d.Attempts < 10 || d.Attempts > 40) {
					t.Errorf("dead-lettered after %d calls", d.Attempts)
				}
				if p := w.leaseDocuments()["0"].properties[retriesProperty]; p != "" {
					t.Errorf("the lease still holds %s", p)
				}
			})
		})
	}
}

// Attempts with a version that was overwritten do not count for the next version.
func TestNewVersionStartsWithoutAttempts(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		store := &memoryStore{}
		drain := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := w.host("a", failOnPoison(w.recorder("a")), withStore(store, func(f *Function) { f.MaxAttempts = 12 })).Drain(ctx)
			must(t, err)
		}
		drain()
		if w.leaseDocuments()["0"].properties[retriesProperty] == "" {
			t.Fatal("the lease does not hold the attempts")
		}
		w.write("k", "poison")
		for range 30 {
			time.Sleep(30 * time.Second) // the retry is due
			drain()
		}
		if len(store.deadLetters) != 1 || store.deadLetters[0].Attempts != 12 {
			t.Errorf("dead letters %+v, want one after 12 calls", store.deadLetters)
		}
	})
}

// A group hung, and one of its documents was written again. The new version is not
// charged with the failures of the group.
func TestLaterChangesAreNotChargedWithGroupFailures(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.write("k", id)
		}
		store := &memoryStore{}
		release := make(chan struct{})
		record := w.recorder("x")
		drain := func(handler Handler) {
			_, err := w.host("x", handler, withStore(store, func(f *Function) { f.NoBisection, f.MaxAttempts = true, 1 })).Drain(t.Context())
			must(t, err)
		}
		drain(func(context.Context, Batch) error { <-release; return nil })
		w.write("k", "c")
		w.write("k", "d")
		time.Sleep(time.Minute) // its cooldown
		drain(record)
		close(release)
		if got := fmt.Sprint(store.documentIDs()); got != "[a b]" {
			t.Errorf("dead letters %s, want those of the changes that hung", got)
		}
		if w.deliveryCount() != 2 || w.delivered[0].doc.ID != "c" || w.delivered[1].doc.ID != "d" {
			t.Errorf("delivered %+v", w.delivered)
		}
	})
}

// A call that ends because its owner stops is not a failed attempt. Each change here
// fails once, and a second failure would dead-letter it. The next owner delivers
// half of the changes.
func TestInterruptedCallIsNotAnAttempt(t *testing.T) {
	for _, test := range []struct {
		name          string
		items         int
		change, drain time.Duration
	}{
		{"one change after the other", 1, 40 * time.Second, time.Minute},
		{"a batch that takes longer than a drain", 100, 2 * time.Second, 2 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.items > 1 {
				inLongForm(t)
			}
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.writeMany("doc", 100)
				store := &memoryStore{}
				record := w.recorder("a")
				failed := map[string]bool{}
				slow := func(ctx context.Context, b Batch) error {
					if err := backoff.Sleep(ctx, time.Duration(len(b.Changes))*test.change); err != nil {
						return err
					}
					if id := b.Changes[0].ID(); len(b.Changes) == 1 && !failed[id] {
						failed[id] = true
						return errPoison
					}
					return record(ctx, b)
				}
				for range 300 {
					ctx, cancel := context.WithTimeout(t.Context(), test.drain)
					_, err := w.host("a", slow, withStore(store, func(f *Function) { f.MaxAttempts, f.MaxItemsPerInvocation = 2, test.items })).Drain(ctx)
					cancel()
					must(t, err)
				}
				if len(store.documentIDs()) > 0 || w.deliveryCount() != 100 {
					t.Errorf("dead letters %v, %d of 100 delivered", store.documentIDs(), w.deliveryCount())
				}
			})
		})
	}
}

// Each hanging call is left behind with its goroutine and counts as an attempt.
func TestHangingChangeIsDeadLettered(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.writeMany("doc", 9)
		store := &memoryStore{}
		release := make(chan struct{})
		record := w.recorder("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			for _, c := range b.Changes {
				if c.ID() == "poison" {
					<-release
				}
			}
			return record(ctx, b)
		}, withStore(store), func(_ *Function, o *Options) { o.MaxStuck = 1000 })
		stop := w.startHost(h)
		time.Sleep(6 * time.Hour)
		if fmt.Sprint(store.documentIDs()) != "[poison]" || w.deliveryCount() != 9 {
			t.Errorf("dead letters %v, %d of 9 others delivered, %d calls left behind", store.documentIDs(), w.deliveryCount(), h.host.abandonedCalls.callCount.Load())
		}
		stop()
		close(release)
	})
}

// If only RetryMaxAge is set, only the hanging change is dead-lettered.
func TestHangingChangeIsDeadLetteredAtMaxAge(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 99)
		w.write("k", "poison")
		w.writeMany("doc", 100)
		store := &memoryStore{}
		release := make(chan struct{})
		record := w.recorder("a")
		h := w.hostOn(hostNetwork{w: w}, "a", func(ctx context.Context, b Batch) error {
			for _, c := range b.Changes {
				if c.ID() == "poison" {
					<-release
				}
			}
			return record(ctx, b)
		}, withStore(store, func(f *Function) { f.MaxAttempts, f.RetryMaxAge = -1, 10*time.Minute }), func(_ *Function, o *Options) { o.MaxStuck = 1000 })
		stop := w.startHost(h)
		time.Sleep(6 * time.Hour)
		if fmt.Sprint(store.documentIDs()) != "[poison]" {
			t.Errorf("%d dead letters: %v", len(store.documentIDs()), store.documentIDs())
		}
		stop()
		close(release)
	})
}

// Successes of other keys do not shorten the waits of a key that fails.
func TestFailingKeyKeepsItsOwnBackoff(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var poisonCalls atomic.Int64
		record := w.recorder("a")
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if isPoison(&b.Changes[0]) {
				poisonCalls.Add(1)
				return errPoison
			}
			return record(ctx, b)
		}, withoutLogger, func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 1 }))
		w.write("poison", "poison")
		for range 300 {
			w.write("other", "other")
			time.Sleep(time.Second)
		}
		stop()
		if n := poisonCalls.Load(); n < 5 || n > 40 {
			t.Errorf("%d calls with the failing change in 5 minutes", n)
		}
	})
}

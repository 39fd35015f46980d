package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var errLater = errors.New("the sink asks for patience")

// patience is a handler that postpones some documents, the first time that it gets them,
// and notes when it got which.
type patience struct {
	w    *world
	mu   sync.Mutex
	seen []call
	next Handler
	// delay returns for how long the n-th delivery of a document is postponed; 0 is not.
	delay func(id string, n int) time.Duration
	count map[string]int
}

// call is one change of a handler call.
type call struct {
	id      string
	at      time.Time
	attempt int
}

func newPatience(w *world, owner string, delay func(id string, n int) time.Duration) *patience {
	return &patience{w: w, next: w.recorder(owner), delay: delay, count: map[string]int{}}
}

// postponeOnce postpones each document whose id contains a text once.
func postponeOnce(text string, d time.Duration) func(string, int) time.Duration {
	return func(id string, n int) time.Duration {
		if n == 1 && strings.Contains(id, text) {
			return d
		}
		return 0
	}
}

func (p *patience) handle(ctx context.Context, b Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	good := b
	good.Changes = nil
	for _, c := range b.Changes {
		p.count[c.ID()]++
		p.seen = append(p.seen, call{c.ID(), time.Now(), b.Attempt})
		if d := p.delay(c.ID(), p.count[c.ID()]); d > 0 {
			errs = append(errs, RetryAfter(Failed(errLater, c), d))
		} else {
			good.Changes = append(good.Changes, c)
		}
	}
	if len(good.Changes) > 0 {
		errs = append(errs, p.next(ctx, good))
	}
	return errors.Join(errs...)
}

// order returns the ids of the calls in their order.
func (p *patience) order() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []string
	for _, c := range p.seen {
		ids = append(ids, c.id)
	}
	return strings.Join(ids, " ")
}

// times returns when a document was delivered.
func (p *patience) times(id string) (times []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.seen {
		if c.id == id {
			times = append(times, c.at)
		}
	}
	return times
}

// A change is postponed: its position is saved, later changes of its key follow it when it
// is due, and those of other keys do not wait.
func TestPostponedChangeIsRedeliveredWhenDue(t *testing.T) {
	for name, change := range map[string]func(*Function){
		"one lane":      func(*Function) {},
		"four lanes":    func(f *Function) { f.Lanes = 4 },
		"lanes by id":   func(f *Function) { f.Lanes, f.LanesByID = 4, true },
		"blocked keys":  func(f *Function) { f.BlockKeys = true },
		"single":        func(f *Function) { f.MaxItemsPerInvocation = 1 },
		"no bisection":  func(f *Function) { f.NoBisection = true },
		"reuse buffers": func(f *Function) { f.ReuseBuffers = true },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := &memoryStore{}
				p := newPatience(w, "a", postponeOnce("later", time.Minute))
				w.write("k", "later")
				w.write("other", "before")
				stop := w.startHost(w.host("a", p.handle, withStore(store, change)))
				time.Sleep(10 * time.Second)
				if got := store.documentIDs(); fmt.Sprint(got) != "[later]" {
					t.Fatalf("in the store: %v", got)
				}
				if d := store.deadLetters[0]; !d.IsPostponed() || d.Postponed != 1 || d.Attempts != 1 || !strings.Contains(d.Error, errLater.Error()) || d.Blocked {
					t.Errorf("postponed change: %+v", d)
				}
				w.write("k", "later") // the next version of the same document
				w.write("other", "after")
				time.Sleep(20 * time.Second)
				if n := len(store.documentIDs()); n != 2 {
					t.Errorf("%d changes in the store, want the second version too", n)
				}
				if d := w.deliveryCount(); d != 2 {
					t.Errorf("%d changes of other keys were delivered meanwhile, want 2", d)
				}
				if lag := w.lag(); lag != 0 {
					t.Errorf("the position is %d changes behind: a postponed change holds it", lag)
				}
				time.Sleep(time.Minute)
				stop()
				if got := store.documentIDs(); len(got) != 0 {
					t.Errorf("still in the store: %v", got)
				}
				times := p.times("later")
				if len(times) != 3 {
					t.Fatalf("delivered at %v", times)
				}
				if wait := times[1].Sub(times[0]); wait < time.Minute || wait > time.Minute+2*time.Second {
					t.Errorf("redelivered after %s, want a minute", wait)
				}
				w.checkComplete(0)
			})
		})
	}
}

// lag is the number of changes behind the saved positions.
func (w *world) lag() (n int64) {
	w.t.Helper()
	lags, err := EstimateLag(w.t.Context(), w.leases, FeedSource{Name: "test", Container: w.items})
	must(w.t, err)
	for _, l := range lags {
		n += l.Changes
	}
	return n
}

// Only the changes that are named are postponed, however large the batch, and they come
// back in their order; a second postponement keeps the order of the key, too.
func TestPostponedKeyKeepsItsOrder(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		p := newPatience(w, "a", func(id string, n int) time.Duration {
			if id == "k1" && n <= 3 || id == "k3" && n == 1 {
				return 30 * time.Second
			}
			return 0
		})
		for i := range 6 {
			w.write("k", fmt.Sprint("k", i))
			w.write(fmt.Sprint("other", i), fmt.Sprint("other", i))
		}
		stop := w.startHost(w.host("a", p.handle, withStore(store, func(f *Function) { f.MaxItemsPerInvocation = 1 })))
		time.Sleep(20 * time.Second)
		w.write("k", "k6")
		time.Sleep(3 * time.Minute)
		stop()
		order := strings.Fields(p.order())
		order = slices.DeleteFunc(order, func(id string) bool { return strings.HasPrefix(id, "other") })
		if got, want := strings.Join(order, " "), "k0 k1 k1 k1 k1 k2 k3 k3 k4 k5 k6"; got != want {
			t.Errorf("order %s, want %s", got, want)
		}
		if len(store.documentIDs()) != 0 {
			t.Errorf("still in the store: %v", store.documentIDs())
		}
		w.checkComplete(0)
	})
}

// The next owner finds the postponed changes, also if the range has split meanwhile: the
// owner of the child that has the key delivers them, in their order, and nobody else.
func TestPostponedChangesPassToTheNextOwner(t *testing.T) {
	for name, splits := range map[string]bool{"after a stop": false, "after a split": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := &memoryStore{}
				const keys = 20
				delay := postponeOnce("first", 2*time.Minute)
				p := newPatience(w, "a", delay)
				for i := range keys {
					w.write(fmt.Sprint("player", i), fmt.Sprint("first", i))
				}
				stop := w.startHost(w.host("a", p.handle, withStore(store)))
				time.Sleep(10 * time.Second)
				for i := range keys {
					w.write(fmt.Sprint("player", i), fmt.Sprint("second", i))
				}
				time.Sleep(10 * time.Second)
				if splits {
					_, err := w.account.Split("db", "items", "0")
					must(t, err)
					time.Sleep(10 * time.Second)
				} else {
					stop()
				}
				q := newPatience(w, "b", func(string, int) time.Duration { return 0 })
				stopB := w.startHost(w.host("b", q.handle, withStore(store)))
				time.Sleep(5 * time.Minute)
				if splits {
					stop()
				}
				stopB()
				if got := store.documentIDs(); len(got) != 0 {
					t.Errorf("still in the store: %v", got)
				}
				order := p.order() + " " + q.order()
				for i := range keys {
					first, second := fmt.Sprint("first", i), fmt.Sprint("second", i)
					ids := slices.DeleteFunc(strings.Fields(order), func(id string) bool { return id != first && id != second })
					if got := strings.Join(ids, " "); got != first+" "+first+" "+second {
						t.Errorf("key %d: %s", i, got)
					}
				}
				w.checkComplete(0)
			})
		})
	}
}

// The next owner begins at a position before postponed changes, here because none was saved.
// What its feed shows again keeps its place: an earlier change of the key comes first, the
// postponed one is not put a second time, and later ones follow it.
func TestEarlierPositionKeepsTheOrderOfPostponedKey(t *testing.T) {
	for name, postponedID := range map[string]string{"the earlier change is handled": "", "the earlier change is postponed, too": "k0"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := &memoryStore{}
				single := func(f *Function) { f.MaxItemsPerInvocation = 1 }
				p := newPatience(w, "a", postponeOnce("k1", time.Minute))
				for i := range 3 {
					w.write("k", fmt.Sprint("k", i))
				}
				stop := w.startHost(w.host("a", p.handle, manualCheckpoints, withStore(store, single)))
				time.Sleep(10 * time.Second)
				stop()
				if got, want := p.order(), "k0 k1"; got != want {
					t.Fatalf("first owner: %s, want %s", got, want)
				}
				w.write("k", "k3")
				q := newPatience(w, "b", func(id string, n int) time.Duration {
					if id == postponedID && n == 1 {
						return 20 * time.Second
					}
					return 0
				})
				stop = w.startHost(w.host("b", q.handle, withStore(store, single)))
				time.Sleep(2 * time.Minute)
				stop()
				want := strings.TrimSpace(postponedID + " k0 k1 k2 k3")
				if got := q.order(); got != want {
					t.Errorf("second owner: %s, want %s", got, want)
				}
				if len(store.documentIDs()) != 0 {
					t.Errorf("still in the store: %v", store.documentIDs())
				}
			})
		})
	}
}

// Drains of a quiet container deliver a postponed change when it is due, and are not held
// open for it.
func TestDrainDeliversPostponedChangeWhenDue(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		store := &memoryStore{}
		p := newPatience(w, "a", postponeOnce("later", 90*time.Second))
		w.write("k", "later")
		drain := func() Summary {
			t.Helper()
			began := time.Now()
			summary, err := w.host("a", p.handle, withStore(store)).Drain(t.Context())
			must(t, err)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the drain took %s", took)
			}
			return summary
		}
		drain()
		time.Sleep(time.Minute)
		if s := drain(); s.Idle != 2 {
			t.Errorf("before the change is due: %+v", s)
		}
		time.Sleep(time.Minute)
		if s := drain(); s.Changes != 1 || len(store.documentIDs()) != 0 {
			t.Errorf("when the change is due: %+v, in the store %v", s, store.documentIDs())
		}
		if s := drain(); s.Idle != 2 {
			t.Errorf("when it was handled: %+v", s)
		}
		w.checkComplete(0)
	})
}

// A change that is postponed again and again has the attempts of the function, and then is
// an ordinary dead letter.
func TestPostponedChangeIsGivenUpAfterItsAttempts(t *testing.T) {
	for name, block := range map[string]bool{"later changes continue": false, "later changes are blocked": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := &memoryStore{}
				p := newPatience(w, "a", func(id string, _ int) time.Duration {
					if id == "never" {
						return 10 * time.Second
					}
					return 0
				})
				w.write("k", "never")
				stop := w.startHost(w.host("a", p.handle, withStore(store, func(f *Function) { f.MaxAttempts, f.BlockKeys = 3, block })))
				time.Sleep(5 * time.Second)
				w.write("k", "next")
				time.Sleep(2 * time.Minute)
				stop()
				if times := p.times("never"); len(times) != 3 {
					t.Errorf("%d calls, want 3", len(times))
				}
				want, handled := "[never]", 1
				if block {
					want, handled = "[never next]", 0
				}
				if got := fmt.Sprint(store.documentIDs()); got != want || w.deliveryCount() != handled {
					t.Errorf("dead letters %s, %d handled", got, w.deliveryCount())
				}
				for i, d := range store.deadLetters {
					if d.IsPostponed() || d.Blocked != (i == 1) || i == 0 && d.Attempts != 3 {
						t.Errorf("dead letter %+v", d)
					}
				}
			})
		})
	}
}

// A redelivery that fails plainly is retried as any change is.
func TestPostponedChangeThatFailsIsRetried(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		calls := 0
		record := w.recorder("a")
		h := func(ctx context.Context, b Batch) error {
			if b.Changes[0].ID() == "later" {
				switch calls++; calls {
				case 1:
					return RetryAfter(errLater, 10*time.Second)
				case 2, 3:
					return errPoison
				}
			}
			return record(ctx, b)
		}
		w.write("k", "later")
		stop := w.startHost(w.host("a", h, withStore(store)))
		time.Sleep(5 * time.Second)
		w.write("k", "next")
		time.Sleep(time.Minute)
		stop()
		if calls != 4 || len(store.documentIDs()) != 0 {
			t.Errorf("%d calls, in the store %v", calls, store.documentIDs())
		}
		if w.delivered[0].attempt != 4 {
			t.Errorf("the last call was attempt %d", w.delivered[0].attempt)
		}
		w.checkComplete(0)
	})
}

// An operator replays or discards a postponed change before it is due: the changes behind
// it follow when it would have been.
func TestOperatorTakesPostponedChange(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		p := newPatience(w, "a", postponeOnce("later", time.Minute))
		w.write("k", "later")
		stop := w.startHost(w.host("a", p.handle, withStore(store)))
		time.Sleep(5 * time.Second)
		w.write("k", "next")
		time.Sleep(15 * time.Second)
		done, err := Replay(t.Context(), store, w.source(), w.recorder("replay"), nil)
		must(t, err)
		if done != (Replayed{}) {
			t.Errorf("a replay of dead letters: %+v, it must leave postponed changes alone", done)
		}
		first := store.deadLetters[0].ID
		done, err = Replay(t.Context(), store, w.source(), w.recorder("replay"), &ReplayOptions{
			Select: DeadLetterQuery{Kind: RecordPostponed}, Wanted: func(d DeadLetter) bool { return d.ID == first },
		})
		must(t, err)
		if done.Handled != 1 {
			t.Errorf("replay of the postponed change: %+v", done)
		}
		time.Sleep(2 * time.Minute)
		stop()
		if times := p.times("later"); len(times) != 1 || len(store.documentIDs()) != 0 {
			t.Errorf("%d calls of the host, in the store %v", len(times), store.documentIDs())
		}
		w.checkComplete(0)
	})
}

// Without a store that keeps changes, RetryAfter is a plain failure, and its error says so.
func TestRetryAfterWithoutStoreIsPlainFailure(t *testing.T) {
	for name, store := range map[string]DeadLetters{"no store": nil, "a store that drops": DropDeadLetters} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				p := newPatience(w, "a", postponeOnce("later", time.Hour))
				w.write("k", "later")
				w.write("k", "next")
				logger, logged := recordLog(slog.LevelWarn)
				stop := w.startHost(w.host("a", p.handle, func(f *Function, o *Options) { f.DeadLetters, o.Logger = store, logger }))
				time.Sleep(time.Minute)
				stop()
				if times := p.times("later"); len(times) != 2 || times[1].Sub(times[0]) > 5*time.Second {
					t.Errorf("calls at %v", times)
				}
				told := logged.Filter(func(e logLine) bool {
					return strings.Contains(fmt.Sprint(e.ContextMap()["error"]), "HALLEY_DEAD_LETTERS")
				})
				if told.Len() != 1 {
					t.Errorf("the log names the setting %d times: %v", told.Len(), told.All())
				}
				w.checkComplete(0)
			})
		})
	}
}

// Whole batches are postponed while a sink asks for patience, and come back as batches.
func TestPostponedBatchComesBackAsBatch(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		record := w.recorder("a")
		var sizes []int
		open := time.Now().Add(20 * time.Second)
		h := func(ctx context.Context, b Batch) error {
			sizes = append(sizes, len(b.Changes))
			if time.Now().Before(open) {
				return RetryAfter(errLater, 30*time.Second)
			}
			return record(ctx, b)
		}
		w.writeMany("doc", 50)
		stop := w.startHost(w.host("a", h, withStore(store)))
		time.Sleep(10 * time.Second)
		if n := len(store.documentIDs()); n != 50 || w.lag() != 0 {
			t.Errorf("%d changes in the store, %d behind", n, w.lag())
		}
		time.Sleep(time.Minute)
		stop()
		if len(sizes) > 1+50/10 {
			t.Errorf("calls with %v changes", sizes)
		}
		w.checkComplete(0)
	})
}

// At most 1,000 keys of a range are postponed. Further ones fail plainly, and the range
// waits for its sink.
func TestPostponedKeysAreLimited(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		w.writeMany("doc", 1010)
		later := func(context.Context, Batch) error { return RetryAfter(errLater, time.Hour) }
		host := w.host("a", later, withStore(store, func(f *Function) { f.MaxAttempts = -1 }))
		stop := w.startHost(host)
		time.Sleep(time.Minute)
		status := host.Status()
		stop()
		if n := len(store.documentIDs()); n != 1000 {
			t.Errorf("%d changes in the store, want 1,000", n)
		}
		if r := status.Functions[0].Ranges[0]; r.PostponedKeys != 1000 || r.WaitingKeys == 0 {
			t.Errorf("%d keys are postponed and %d wait", r.PostponedKeys, r.WaitingKeys)
		}
	})
}

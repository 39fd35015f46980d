package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
)

// keepingStore is a store that cannot delete for a time.
type keepingStore struct {
	memoryStore
	keeps atomic.Bool
}

func (s *keepingStore) Delete(ctx context.Context, d DeadLetter) error {
	if s.keeps.Load() {
		return errors.New("the store is read-only")
	}
	return s.memoryStore.Delete(ctx, d)
}

// An owner ends after it has put a postponed change again, and before it has deleted the
// letter before. The next owner finds two letters of one change: the newer one holds, with
// its time and its attempts, and both leave the store.
func TestNewerOfTwoLettersOfOneChangeHolds(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &keepingStore{}
		store.keeps.Store(true)
		p := newPatience(w, "a", func(id string, n int) time.Duration {
			if id == "next" {
				return 0
			}
			return []time.Duration{0, 10 * time.Second, 3 * time.Minute, 0}[n]
		})
		change := func(f *Function, o *Options) { f.DeadLetters, o.Logger = store, nil }
		w.write("k", "later")
		stop := w.startHost(w.host("a", p.handle, change))
		time.Sleep(12 * time.Second)
		stop()
		if got := store.documentIDs(); len(got) != 2 {
			t.Fatalf("in the store: %v", got)
		}
		store.keeps.Store(false)
		w.write("k", "next")
		stop = w.startHost(w.host("b", p.handle, change))
		time.Sleep(5 * time.Minute)
		stop()
		times := p.times("later")
		if len(times) != 3 || times[2].Sub(times[1]) < 3*time.Minute || times[2].Sub(times[1]) > 3*time.Minute+promptly {
			t.Errorf("delivered at %v", times)
		}
		if last := p.seen[2]; last.id != "later" || last.attempt != 3 {
			t.Errorf("the third delivery is %+v, want attempt 3", last)
		}
		if remaining := store.documentIDs(); len(remaining) != 0 {
			t.Errorf("still in the store: %v", remaining)
		}
	})
}

// Host A's put of a change lands in the store after host B has put it, too: the two letters of
// the change stand apart, and B's may stand before those of earlier changes. The change is
// delivered once, in the order of the feed, also if the letters do not fit into one call.
func TestLettersOfOneChangeThatStandApartAreOne(t *testing.T) {
	for name, test := range map[string]struct {
		document string
		isFirst  bool // its second letter stands before all others, else behind them
		more     int  // how often the second letter was postponed more than the first
		want     string
	}{
		"an older one behind all":         {"x", false, -1, "x y z"},
		"a newer one behind all":          {"x", false, 1, "x y z"},
		"a newer one before earlier ones": {"z", true, 1, "x y z"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := &memoryStore{}
				change := withStore(store)
				isWell := false
				p := newPatience(w, "a", func(string, int) time.Duration {
					if isWell {
						return 0
					}
					return time.Minute
				})
				for _, id := range []string{"x", "y", "z"} {
					w.write("k", id)
				}
				stop := w.startHost(w.host("a", p.handle, change))
				time.Sleep(10 * time.Second)
				stop()
				letters := store.all()
				if len(letters) != 3 {
					t.Fatalf("in the store: %v", store.documentIDs())
				}
				d := letters[slices.IndexFunc(letters, func(d DeadLetter) bool { return d.DocumentID == test.document })]
				if d.Order = letters[2].Order + 1; test.isFirst {
					d.Order = letters[0].Order - 1
				}
				d.Postponed += test.more
				d.ID = postponedID(d.ID[:strings.LastIndex(d.ID, "-")], d.Postponed)
				must(t, store.Put(t.Context(), d))
				isWell, p.seen = true, nil
				stop = w.startHost(w.host("b", p.handle, change))
				time.Sleep(2 * time.Minute)
				stop()
				if got := p.order(); got != test.want {
					t.Errorf("delivered %s, want %s", got, test.want)
				}
				if remaining := store.documentIDs(); len(remaining) != 0 {
					t.Errorf("still in the store: %v", remaining)
				}
			})
		})
	}
}

// Host A puts the last changes of a key after it has lost the lease, and so before the earlier
// one that host B puts. Host C delivers the changes in the order of the feed, also one that
// neither has put, which its feed shows again.
func TestLettersOfLostLeaseStandBehindEarlierChanges(t *testing.T) {
	for name, test := range map[string]struct {
		lost   string // the document that neither has put
		change func(*Function, *Options)
		want   string
	}{
		"all letters":                       {"", func(*Function, *Options) {}, "k1 k2 k3"},
		"the feed shows them again":         {"", manualCheckpoints, "k0 k1 k2 k3"},
		"the feed shows one between others": {"k2", manualCheckpoints, "k0 k1 k2 k3"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := &memoryStore{}
				single := withStore(store, func(f *Function) { f.MaxItemsPerInvocation = 1 })
				for i := range 4 {
					w.write("k", fmt.Sprint("k", i))
				}
				p := newPatience(w, "b", postponeOnce("k1", time.Minute))
				stop := w.startHost(w.host("b", p.handle, single, test.change))
				time.Sleep(10 * time.Second)
				stop()
				letters := store.all()
				if len(letters) != 3 {
					t.Fatalf("in the store: %v", store.documentIDs())
				}
				for i, late := range letters[1:] {
					must(t, store.Delete(t.Context(), late))
					if late.Order = letters[0].Order - 2 + int64(i); late.DocumentID != test.lost {
						must(t, store.Put(t.Context(), late))
					}
				}
				p = newPatience(w, "c", func(string, int) time.Duration { return 0 })
				stop = w.startHost(w.host("c", p.handle, single))
				time.Sleep(2 * time.Minute)
				stop()
				if got := p.order(); got != test.want {
					t.Errorf("delivered %s, want %s", got, test.want)
				}
				if remaining := store.documentIDs(); len(remaining) != 0 {
					t.Errorf("still in the store: %v", remaining)
				}
			})
		})
	}
}

// Host A puts a change after it has lost the lease, and after host B has listed the letters. B
// finds it when it loads a change of the key. The change is delivered once, although B's feed
// shows it, too. What an operator puts back is delivered: B began behind it.
func TestLettersOfLostLeaseJoinTheFeed(t *testing.T) {
	for name, test := range map[string]struct {
		ofFirst   func(*Function, *Options)
		postponed string // by host B, once
		putAt     string // the document in whose first call the letter of k1 is put
		want      string
	}{
		"before the feed shows it": {manualCheckpoints, "k0", "other", "early k0 other k0 k1 k2"},
		"after it was handled":     {manualCheckpoints, "k2", "k2", "early k0 other k1 k2 k2"},
		"by an operator":           {func(*Function, *Options) {}, "k3", "k3", "k3 k1 k3"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := &memoryStore{}
				single := withStore(store, func(f *Function) { f.MaxItemsPerInvocation = 1 })
				for _, id := range []string{"early", "k0", "other", "k1", "k2"} {
					w.write(id[:1], id)
				}
				p := newPatience(w, "a", postponeOnce("k", 30*time.Second))
				stop := w.startHost(w.host("a", p.handle, single, test.ofFirst))
				time.Sleep(10 * time.Second)
				stop()
				letters := store.all()
				if len(letters) != 3 {
					t.Fatalf("in the store: %v", store.documentIDs())
				}
				for _, d := range letters {
					must(t, store.Delete(t.Context(), d))
				}
				if test.postponed == "k3" {
					w.write("k", "k3")
				}
				p = newPatience(w, "b", postponeOnce(test.postponed, 10*time.Second))
				var put sync.Once
				stop = w.startHost(w.host("b", func(ctx context.Context, b Batch) error {
					err := p.handle(ctx, b)
					if b.Changes[0].ID() == test.putAt {
						put.Do(func() {
							must(t, store.Put(ctx, letters[1]))
							time.Sleep(30 * time.Second) // all letters are due
						})
					}
					return err
				}, single))
				time.Sleep(2 * time.Minute)
				stop()
				if got := p.order(); got != test.want {
					t.Errorf("delivered %s, want %s", got, test.want)
				}
				if remaining := store.documentIDs(); len(remaining) != 0 {
					t.Errorf("still in the store: %v", remaining)
				}
			})
		})
	}
}

// The letter is put while the change waits in a batch that is not full.
func TestLetterOfLostLeaseDoesNotReplaceWaitingChange(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		pairs := withStore(store, func(f *Function) { f.MaxItemsPerInvocation, f.BatchWindow = 2, 30*time.Second })
		for _, id := range []string{"early", "k0", "k1"} {
			w.write(id[:1], id)
		}
		p := newPatience(w, "a", postponeOnce("k", 30*time.Second))
		stop := w.startHost(w.host("a", p.handle, pairs, manualCheckpoints))
		time.Sleep(time.Minute)
		stop()
		letters := store.all()
		if len(letters) != 2 {
			t.Fatalf("in the store: %v", store.documentIDs())
		}
		for _, d := range letters {
			must(t, store.Delete(t.Context(), d))
		}
		p = newPatience(w, "b", postponeOnce("k0", 10*time.Second))
		stop = w.startHost(w.host("b", p.handle, pairs))
		time.Sleep(5 * time.Second)
		must(t, store.Put(t.Context(), letters[1]))
		time.Sleep(2 * time.Minute)
		stop()
		if got, want := p.order(), "early k0 k0 k1"; got != want {
			t.Errorf("delivered %s, want %s", got, want)
		}
		if remaining := store.documentIDs(); len(remaining) != 0 {
			t.Errorf("still in the store: %v", remaining)
		}
	})
}

// Attempts and age of a postponed change count over owners: each drain is another one.
func TestPostponedChangeIsGivenUpOverOwners(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Function)
		calls  int
	}{
		"by its attempts": {func(f *Function) { f.MaxAttempts = 4 }, 4},
		"by its age":      {func(f *Function) { f.MaxAttempts, f.RetryMaxAge = -1, 5*time.Minute }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := &memoryStore{}
				p := newPatience(w, "a", func(string, int) time.Duration { return 100 * time.Second })
				w.write("k", "never")
				for range 10 {
					_, err := w.host("a", p.handle, withStore(store, test.change)).Drain(t.Context())
					must(t, err)
					time.Sleep(102 * time.Second)
				}
				if calls := len(p.times("never")); calls != test.calls {
					t.Errorf("%d calls, want %d", calls, test.calls)
				}
				if len(store.deadLetters) != 1 || store.deadLetters[0].IsPostponed() {
					t.Errorf("in the store: %+v", store.deadLetters)
				}
			})
		})
	}
}

// The next owner gets postponed changes as the feed reported them.
func TestPostponedVersionsAreReadBackWhole(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		h := &versionHistory{}
		store := &memoryStore{}
		drain := func(handler Handler) {
			t.Helper()
			_, err := w.host("a", handler, allVersions, withStore(store)).Drain(t.Context())
			must(t, err)
		}
		record := func(dest *[]string, later time.Duration) Handler {
			return func(_ context.Context, b Batch) error {
				for _, c := range b.Changes {
					*dest = append(*dest, fmt.Sprint(c.Operation, " ", c.ID(), " ", string(c.PartitionKey()), " ", c.LSN, " ", c.Time.Unix(), " ", string(c.Document), " ", string(c.Previous)))
				}
				if later > 0 {
					return RetryAfter(errLater, later)
				}
				return nil
			}
		}
		drain(record(new([]string), 0))
		h.put(w, "doc", 0)
		h.put(w, "doc", 0)
		h.remove(w, "doc")
		h.put(w, "other", 0)
		var first, second []string
		drain(record(&first, time.Minute))
		time.Sleep(62 * time.Second)
		for range 5 {
			drain(record(&second, 0))
		}
		slices.Sort(first)
		slices.Sort(second)
		if len(first) != 4 || !slices.Equal(first, second) {
			t.Errorf("the first owner got\n%s\nthe next one\n%s", strings.Join(first, "\n"), strings.Join(second, "\n"))
		}
	})
}

// The children of a range know when its postponed changes are due: a drain leaves them alone
// until then.
func TestDrainAfterSplitLeavesPostponedChildrenAlone(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		p := newPatience(w, "a", postponeOnce("later", 90*time.Second))
		drain := func() (acquired int) {
			t.Helper()
			oldCount := w.eventCount(EventAcquired)
			_, err := w.host("a", p.handle, withStore(store)).Drain(t.Context())
			must(t, err)
			return w.eventCount(EventAcquired) - oldCount
		}
		w.write("k", "later")
		drain()
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		if n := drain(); n != 1 {
			t.Errorf("the drain that splits has acquired %d leases, want the parent's alone", n)
		}
		time.Sleep(30 * time.Second)
		if n := drain(); n != 0 {
			t.Errorf("before the change is due, a drain has acquired %d leases", n)
		}
		time.Sleep(90 * time.Second)
		if n := drain(); n != 2 || len(store.documentIDs()) != 0 {
			t.Errorf("when the change is due, a drain has acquired %d leases, in the store %v", n, store.documentIDs())
		}
		w.checkComplete(0)
	})
}

// A change has failed for a while. The next owner continues its age, not only its attempts.
func TestAgeOfFailuresCountsOverOwners(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		var mu sync.Mutex
		calls := 0
		h := func(context.Context, Batch) error {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return errPoison
		}
		w.write("k", "poison")
		began := time.Now()
		for n := 0; len(store.documentIDs()) == 0 && n < 20; n++ {
			stop := w.startHost(w.host(fmt.Sprint("host", n), h, withStore(store, func(f *Function) { f.MaxAttempts, f.RetryMaxAge = -1, 10*time.Minute }), withoutLogger))
			must(t, backoff.Sleep(t.Context(), 2*time.Minute))
			stop()
		}
		if took := time.Since(began); took < 10*time.Minute || took > 14*time.Minute {
			t.Errorf("dead-lettered after %s and %d calls, want 10 minutes", took, calls)
		}
	})
}

// The clock of the first owner was fast, so that its letters are from the future. What the
// next owner puts behind them stays behind them.
func TestLettersStayInOrderIfClocksDiffer(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		p := newPatience(w, "a", postponeOnce("k0", time.Minute))
		w.write("k", "k0")
		_, err := w.host("a", p.handle, withStore(store)).Drain(t.Context())
		must(t, err)
		store.deadLetters[0].Time = store.deadLetters[0].Time.Add(10 * time.Minute)
		w.write("k", "k1")
		stop := w.startHost(w.host("b", p.handle, withStore(store, func(f *Function) { f.MaxItemsPerInvocation = 1 })))
		time.Sleep(3 * time.Minute)
		stop()
		if got, want := p.order(), "k0 k0 k1"; got != want {
			t.Errorf("order %s, want %s", got, want)
		}
		w.checkComplete(0)
	})
}

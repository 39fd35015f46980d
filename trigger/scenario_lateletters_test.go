package trigger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Puts of an owner that has lost its lease land while the next owner, which has listed the letters
// before, works on the same changes. None is lost, and each key keeps its order.
func TestLateLettersAreDelivered(t *testing.T) {
	for name, test := range map[string]struct {
		ids       []string        // of the documents; their keys are their first letters
		postponed string          // by the first owner
		inTime    string          // its letter that is not late, or ""
		never     []string        // its letters that never land
		landsIn   string          // the call of the second owner in which the others land
		takes     time.Duration   // that call
		again     string          // the second owner postpones it, or ""
		waits     []time.Duration // by these times
		discards  bool            // an operator discards what is in the store just before
		want      string
	}{
		"postponed by both owners": {
			ids: []string{"early", "k1", "k2"}, postponed: "k1",
			landsIn: "k1", again: "k1", waits: []time.Duration{10 * time.Second}, want: "early k1 k1 k2",
		},
		"behind another of its key": {
			ids: []string{"early", "k0", "other", "k1", "k2"}, postponed: "k0", inTime: "k0",
			landsIn: "other", want: "early other k0 k1 k2",
		},
		"behind an own of its key": {
			ids: []string{"early", "k0", "other", "k1", "k2"}, postponed: "k0",
			landsIn: "other", again: "k0", waits: []time.Duration{10 * time.Second}, want: "early k0 other k0 k1 k2",
		},
		"before it is put": {
			ids: []string{"early", "k0", "other", "k1", "k2"}, postponed: "k0",
			landsIn: "k0", again: "k0", waits: []time.Duration{10 * time.Second}, want: "early k0 other k0 k1 k2",
		},
		"behind an own that is postponed again": {
			ids: []string{"early", "k0", "other", "k1", "k2"}, postponed: "k1",
			landsIn: "other", takes: 8 * time.Second, again: "k0", waits: []time.Duration{5 * time.Second, 10 * time.Second}, want: "early k0 other k0 k0 k1 k2",
		},
		"while its change is in memory": {
			ids: []string{"early", "k0", "other", "k1"}, postponed: "k0", never: []string{"k0"},
			landsIn: "other", takes: 11500 * time.Millisecond, again: "k0", waits: []time.Duration{12 * time.Second}, discards: true, want: "early k0 other k1",
		},
		"while an earlier change is in memory": {
			ids: []string{"early", "k0", "other", "k1", "k2"}, postponed: "k0", never: []string{"k0", "k1"},
			landsIn: "other", takes: 11500 * time.Millisecond, again: "k0", waits: []time.Duration{12 * time.Second}, discards: true, want: "early k0 other k1 k2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				store := &memoryStore{}
				single := withStore(store, func(f *Function) { f.MaxItemsPerInvocation = 1 })
				for _, id := range test.ids {
					w.write(id[:1], id)
				}
				p := newPatience(w, "a", postponeOnce(test.postponed, 40*time.Second))
				stop := w.startHost(w.host("a", p.handle, single, manualCheckpoints))
				time.Sleep(10 * time.Second)
				stop()
				deleteAll := func() {
					for _, d := range store.all() {
						if err := store.Delete(t.Context(), d); err != nil {
							t.Error(err)
						}
					}
				}
				late := store.all()
				deleteAll()
				late = slices.DeleteFunc(late, func(d DeadLetter) bool {
					if d.DocumentID == test.inTime {
						must(t, store.Put(t.Context(), d))
					}
					return d.DocumentID == test.inTime || slices.Contains(test.never, d.DocumentID)
				})
				p = newPatience(w, "b", func(id string, n int) time.Duration {
					if id == test.again && n <= len(test.waits) {
						return test.waits[n-1]
					}
					return 0
				})
				var landing sync.Once
				land := func(ctx context.Context) {
					time.Sleep(test.takes)
					if test.discards {
						deleteAll()
					}
					for _, d := range late {
						if err := store.Put(ctx, d); err != nil {
							t.Error(err)
						}
					}
				}
				stop = w.startHost(w.host("b", func(ctx context.Context, b Batch) error {
					if b.Changes[0].ID() == test.landsIn {
						landing.Do(func() { land(ctx) })
					}
					return p.handle(ctx, b)
				}, single))
				time.Sleep(3 * time.Minute)
				stop()
				if got := p.order(); got != test.want || len(store.documentIDs()) > 0 {
					t.Errorf("delivered %s, want %s; the store has %v", got, test.want, store.documentIDs())
				}
				if !test.discards {
					w.checkComplete(10)
				}
			})
		})
	}
}

// unreadableStore reports some records as damaged, and does not show others yet.
type unreadableStore struct {
	memoryStore
	isDamaged, isHidden func(q DeadLetterQuery, d DeadLetter) bool // nil: none is
}

func (s *unreadableStore) Query(ctx context.Context, q DeadLetterQuery) (page DeadLetterPage, err error) {
	page, err = s.memoryStore.Query(ctx, q)
	page.Records = slices.DeleteFunc(page.Records, func(d DeadLetter) bool {
		if s.isDamaged != nil && s.isDamaged(q, d) {
			page.Damaged = append(page.Damaged, fmt.Errorf("record of %s: %w", d.DocumentID, ErrDamaged))
			return true
		}
		return s.isHidden != nil && s.isHidden(q, d)
	})
	return page, err
}

// A letter is not among those that the new owner knows, and the owner has not handled its change:
// the lease marks it as finished, another filter drops it, or the letter was listed and could not
// be read when it was due. The owner delivers it when it finds the letter.
func TestUnknownLetterIsDelivered(t *testing.T) {
	inList := func(q DeadLetterQuery) bool { return q.Key == "" }
	inKey := func(q DeadLetterQuery) bool { return q.Key != "" }
	for name, test := range map[string]struct {
		isDamaged func(DeadLetterQuery) bool // until the record is repaired; if nil, an operator takes it, and puts it back
		isStuck   bool                       // another change, so that the lease marks what is behind it
		filter    Filter                     // of the new owner
	}{
		"marked, repaired":    {isDamaged: inList, isStuck: true},
		"marked, put back":    {isStuck: true},
		"filtered, put back":  {filter: Filter{`{"id": [{"anything-but": ["k1"]}]}`}},
		"unreadable when due": {isDamaged: inKey},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				var isDamaged, isStuck atomic.Bool
				isDamaged.Store(test.isDamaged != nil)
				isStuck.Store(test.isStuck)
				store := &unreadableStore{isDamaged: func(q DeadLetterQuery, d DeadLetter) bool {
					return isDamaged.Load() && test.isDamaged(q) && d.DocumentID == "k1"
				}}
				change := func(f *Function, o *Options) {
					f.DeadLetters, f.MaxItemsPerInvocation, f.MaxAttempts = store, 1, -1
					if !test.isStuck {
						manualCheckpoints(f, o)
					}
				}
				for _, id := range []string{"early", "stuck", "k1"} {
					w.write(id, id)
				}
				p := newPatience(w, "a", postponeOnce("k1", 30*time.Second))
				handle := func(ctx context.Context, b Batch) error {
					if isStuck.Load() && b.Changes[0].ID() == "stuck" {
						return errPoison
					}
					return p.handle(ctx, b)
				}
				stop := w.startHost(w.host("a", handle, change))
				time.Sleep(20 * time.Second)
				stop()
				letter := store.all()[0]
				if test.isDamaged == nil {
					must(t, store.Delete(t.Context(), letter))
				}
				p = newPatience(w, "b", postponeOnce("k3", 10*time.Second))
				stop = w.startHost(w.host("b", handle, func(f *Function, o *Options) {
					change(f, o)
					f.Filter = test.filter
				}))
				time.Sleep(time.Minute)
				must(t, store.Put(t.Context(), letter))
				isDamaged.Store(false)
				w.write("k1", "k3")
				time.Sleep(2 * time.Minute)
				isStuck.Store(false)
				time.Sleep(2 * time.Minute)
				stop()
				if len(p.times("k1")) != 1 {
					t.Errorf("the second owner delivered %s", p.order())
				}
			})
		})
	}
}

// A late letter is deleted, as its change was handled, while the store does not show yet what its
// owner has put into the same key. That one is delivered in its order.
func TestLateLetterBesideOneThatIsNotShown(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var isHidden atomic.Bool
		store := &unreadableStore{isHidden: func(_ DeadLetterQuery, d DeadLetter) bool { return isHidden.Load() && d.DocumentID == "k3" }}
		change := func(f *Function, o *Options) {
			f.DeadLetters, f.MaxItemsPerInvocation = store, 1
			manualCheckpoints(f, o)
		}
		for _, id := range []string{"early", "k1", "k2"} {
			w.write(id[:1], id)
		}
		p := newPatience(w, "a", postponeOnce("k1", time.Minute))
		stop := w.startHost(w.host("a", p.handle, change))
		time.Sleep(10 * time.Second)
		stop()
		letters := store.all()
		for _, d := range letters {
			must(t, store.Delete(t.Context(), d))
		}
		p = newPatience(w, "b", postponeOnce("k3", 2*time.Second))
		stop = w.startHost(w.host("b", p.handle, change))
		time.Sleep(10 * time.Second)
		must(t, store.Put(t.Context(), letters[0]))
		isHidden.Store(true)
		w.write("k", "k3")
		time.Sleep(4 * time.Second)
		w.write("k", "k4")
		time.Sleep(4 * time.Second)
		isHidden.Store(false)
		time.Sleep(20 * time.Second)
		stop()
		if got, want := p.order(), "early k1 k2 k3 k3 k4"; got != want {
			t.Errorf("delivered %s, want %s; the store has %v", got, want, store.documentIDs())
		}
	})
}

// slowKeyStore takes its time for each page of the records of a key.
type slowKeyStore struct {
	memoryStore
	pageTime time.Duration
}

func (s *slowKeyStore) Query(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	if q.Key != "" {
		q.Limit = 10
		time.Sleep(s.pageTime)
	}
	return s.memoryStore.Query(ctx, q)
}

// The letters of a key are read for longer than a request may take, as one of them was put late.
func TestLettersOfAKeyAreReadForLong(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &slowKeyStore{pageTime: 20 * time.Second}
		single := func(f *Function, _ *Options) { f.DeadLetters, f.MaxItemsPerInvocation = store, 1 }
		w.write("e", "early")
		const last = 45
		for i := range last + 1 {
			w.write("k", fmt.Sprintf("k%02d", i))
		}
		p := newPatience(w, "a", postponeOnce("k00", 200*time.Second))
		stop := w.startHost(w.host("a", p.handle, single, manualCheckpoints))
		time.Sleep(10 * time.Second)
		stop()
		letters := store.all()
		for _, d := range letters {
			must(t, store.Delete(t.Context(), d))
		}
		p = newPatience(w, "b", postponeOnce("k00", 20*time.Second))
		var landing sync.Once
		stop = w.startHost(w.host("b", func(ctx context.Context, b Batch) error {
			if b.Changes[0].ID() == "k00" {
				landing.Do(func() {
					if err := store.Put(ctx, letters[0]); err != nil {
						t.Error(err)
					}
				})
			}
			return p.handle(ctx, b)
		}, single))
		time.Sleep(3 * time.Hour)
		stop()
		if len(p.times(fmt.Sprintf("k%02d", last))) != 1 {
			t.Errorf("delivered %s", p.order())
		}
		w.checkComplete(10)
	})
}

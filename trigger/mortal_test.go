package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
)

// mortal drains as one process after the other. A change of which kills says so
// ends the process, with all its ranges at once.
func mortal(t *testing.T, w *world, processes int, kills func(*Change) bool, handle Handler, set ...func(*Function, *Options)) (deaths int) {
	for i := range processes {
		ctx, end := context.WithCancel(t.Context())
		var dead atomic.Bool
		gone := network{w, func(r *http.Request) (*http.Response, error, bool) {
			if isLeaseReplace(r) {
				time.Sleep(20 * time.Millisecond)
			}
			return nil, errors.New("this process is no more"), dead.Load()
		}}
		h := w.hostOn(gone, fmt.Sprint("a", i), func(ctx context.Context, b Batch) error {
			for j := range b.Changes {
				if kills(&b.Changes[j]) {
					time.Sleep(10 * time.Millisecond) // what it takes to end a process
					if dead.CompareAndSwap(false, true) {
						deaths++
					}
					end()
					<-ctx.Done()
				}
			}
			if !dead.Load() {
				if err := handle(ctx, b); err != nil {
					return err
				}
			}
			if dead.Load() {
				return errors.New("this process is no more")
			}
			return nil
		}, set...)
		_, _ = h.Drain(ctx)
		end()
		time.Sleep(2 * time.Minute)
	}
	return deaths
}

func isPoison(c *Change) bool { return c.ID() == "poison" }

func slowly(d time.Duration, h Handler) Handler {
	return func(ctx context.Context, b Batch) error {
		if err := backoff.Sleep(ctx, d); err != nil {
			return err
		}
		return h(ctx, b)
	}
}

// TestKillerCondemnsNoOtherRange: all ranges of a process end with it.
func TestKillerCondemnsNoOtherRange(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.fill("doc", 40)
		store := &letters{}
		deaths := mortal(t, w, 40, isPoison, slowly(50*time.Millisecond, w.record("a")), withLetters(store))
		if fmt.Sprint(store.ids()) != "[poison]" {
			t.Errorf("letters %v after %d deaths", store.ids(), deaths)
		}
		if n := w.documents(); n != 40 {
			t.Errorf("%d of 40 delivered", n)
		}
	})
}

// TestSecondVersionInOneTransaction: it has the LSN and the id of the first.
func TestSecondVersionInOneTransaction(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			inVersions(t, 1, nil, func(t *testing.T, w *world) {
				_, err := w.host("x", w.record("x"), allVersions).Drain(t.Context())
				must(t, err)
				w.batch("p", `[{"operationType":"Create","resourceBody":{"id":"doc","player":"p","version":1}},
					{"operationType":"Upsert","resourceBody":{"id":"doc","player":"p","version":2}}]`)
				store := &letters{}
				kept := withLetters(store, func(f *Function) { f.BatchItems = 1 })
				bad := func(c *Change) bool { return strings.Contains(string(c.Document), `"version":2`) }
				if crash {
					mortal(t, w, 25, bad, w.record("a"), kept, allVersions)
				} else {
					for range 25 {
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
						_, err := w.host("a", func(ctx context.Context, b Batch) error {
							for i := range b.Changes {
								if bad(&b.Changes[i]) {
									return errPoison
								}
							}
							return nil
						}, kept, allVersions).Drain(ctx)
						cancel()
						must(t, err)
					}
				}
				if len(store.all) != 1 || !strings.Contains(string(store.all[0].Document), `"version":2`) {
					t.Errorf("letters %+v", store.all)
				}
			})
		})
	}
}

// TestPoisonThatHangsUntilItsAgeIsOver takes nothing with it.
func TestPoisonThatHangsUntilItsAgeIsOver(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 99)
		w.write("k", "poison")
		w.fill("doc", 100)
		store := &letters{}
		release := make(chan struct{})
		record := w.record("a")
		h := w.hostOn(network{w: w}, "a", func(ctx context.Context, b Batch) error {
			for _, c := range b.Changes {
				if c.ID() == "poison" {
					<-release
				}
			}
			return record(ctx, b)
		}, withLetters(store, func(f *Function) { f.MaxAttempts, f.RetryMaxAge = -1, 10*time.Minute }), func(_ *Function, o *Options) { o.MaxStuck = 1000 })
		stop := w.running(h)
		time.Sleep(6 * time.Hour)
		if fmt.Sprint(store.ids()) != "[poison]" {
			t.Errorf("letters %d %v", len(store.ids()), store.ids())
		}
		stop()
		close(release)
	})
}

// TestKillerBehindWhatIsNotSaved: positions are saved late, or cannot be named, so
// that each owner begins before changes that were handled.
func TestKillerBehindWhatIsNotSaved(t *testing.T) {
	for _, test := range []struct {
		name   string
		ranges int
		set    func(*Function)
	}{
		{"manual, never asked for", 1, func(f *Function) { f.Checkpoint.Manual = true }},
		{"manual, asked for every 50", 1, func(f *Function) { f.Checkpoint.Manual = true }},
		{"every 100, pages of one", 1, func(f *Function) { f.Checkpoint.Every, f.MaxItemsPerInvocation = 100, 1 }},
		{"default, pages of one, a write takes 20 ms", 1, func(f *Function) { f.MaxItemsPerInvocation = 1 }},
		{"default, merged, a write takes 20 ms", 2, nil},
		{"every 100, merged", 2, func(f *Function) { f.Checkpoint.Every, f.MaxItemsPerInvocation = 100, 10 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, test.ranges, func(t *testing.T, w *world) {
				if test.ranges > 1 {
					unnamed(t, w)
				}
				w.fill("early", 30)
				w.write("k", "poison")
				w.fill("late", 30)
				store := &letters{}
				var mu sync.Mutex
				n, record := 0, w.record("a")
				deaths := mortal(t, w, 150, isPoison, func(ctx context.Context, b Batch) error {
					mu.Lock()
					defer mu.Unlock()
					if n += len(b.Changes); n >= 50 && test.name != "manual, never asked for" {
						n = 0
						b.Checkpoint()
					}
					return record(ctx, b)
				}, withLetters(store, func(f *Function) {
					f.MaxItemsPerInvocation = 10
					if test.set != nil {
						test.set(f)
					}
				}))
				if n := w.documents(); fmt.Sprint(store.ids()) != "[poison]" || n != 60 {
					t.Errorf("letters %v, %d of 60 others delivered, %d deaths", store.ids(), n, deaths)
				}
			})
		})
	}
}

// TestDrainWithRangesThatCannotBeRead: reads that hang hold no slot for a whole
// drain.
func TestDrainWithRangesThatCannotBeRead(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("doc", 80)
		var mu sync.Mutex
		served := map[string]int{}
		for range 5 {
			h := w.hostOn(network{w, func(r *http.Request) (*http.Response, error, bool) {
				if id := r.Header.Get("x-ms-documentdb-partitionkeyrangeid"); isFeed(r) && (id == "0" || id == "1") {
					return lost(r)
				}
				return nil, nil, false
			}}, "a", func(_ context.Context, b Batch) error {
				mu.Lock()
				defer mu.Unlock()
				served[b.Range.ID] += len(b.Changes)
				return nil
			}, func(_ *Function, o *Options) { o.Parallel = 2 })
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			_, err := h.Drain(ctx)
			cancel()
			must(t, err)
			time.Sleep(time.Minute)
		}
		if len(served) != 2 {
			t.Errorf("after 5 drains of 4 minutes: served %v", served)
		}
	})
}

func TestKillerWithMaxAgeOnly(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("early", 30)
		w.write("k", "poison")
		w.fill("late", 30)
		store := &letters{}
		deaths := mortal(t, w, 60, isPoison, w.record("a"), withLetters(store, func(f *Function) { f.MaxAttempts, f.RetryMaxAge = -1, 10*time.Minute }))
		ids := store.ids()
		slices.Sort(ids)
		if fmt.Sprint(ids) != "[poison]" {
			t.Errorf("letters %v after %d deaths in two hours", ids, deaths)
		}
	})
}

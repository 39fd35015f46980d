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
)

// drainWithCrashes drains in one process after another. A change for which crashes
// returns true ends the process with all its ranges. It returns the number of
// crashes.
func drainWithCrashes(t *testing.T, w *world, processes int, crashes func(*Change) bool, handle Handler, set ...func(*Function, *Options)) (count int) {
	for i := range processes {
		ctx, end := context.WithCancel(t.Context())
		var crashed atomic.Bool
		ends := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if isLeaseReplace(r) {
				time.Sleep(20 * time.Millisecond)
			}
			return nil, errors.New("the process has crashed"), crashed.Load()
		}}
		h := w.hostOn(ends, fmt.Sprint("a", i), func(ctx context.Context, b Batch) error {
			for j := range b.Changes {
				if crashes(&b.Changes[j]) {
					time.Sleep(10 * time.Millisecond) // the time it takes to end a process
					if crashed.CompareAndSwap(false, true) {
						count++
					}
					end()
					<-ctx.Done()
				}
			}
			if !crashed.Load() {
				if err := handle(ctx, b); err != nil {
					return err
				}
			}
			if crashed.Load() {
				return errors.New("the process has crashed")
			}
			return nil
		}, set...)
		_, _ = h.Drain(ctx)
		end()
		time.Sleep(2 * time.Minute)
	}
	return count
}

// A crash leaves no error. The next owners find out which change crashes the process,
// and dead-letter only that one.
func TestCrashingChangeIsDeadLettered(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.writeMany("early", 30)
				w.write("k", "poison")
				w.writeMany("late", 200)
				store := &memoryStore{}
				crashes := drainWithCrashes(t, w, 60, isPoison, w.recorder("a"), withStore(store, func(f *Function) { f.Lanes = lanes }))
				if n := w.deliveredDocuments(); fmt.Sprint(store.documentIDs()) != "[poison]" || n != 230 {
					t.Errorf("dead letters %v, %d of 230 others delivered", store.documentIDs(), n)
				}
				if crashes < 10 || crashes > 20 {
					t.Errorf("%d processes crashed, want as many as there are attempts, and a few to find the change", crashes)
				}
				if l := w.leaseDocuments()["0"]; l.properties[uncleanExitsProperty] != "" || l.properties[retriesProperty] != "" {
					t.Errorf("the lease still holds %v", l.properties)
				}
			})
		})
	}
}

func TestCrashingChangeIsDeadLetteredAtMaxAge(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("early", 30)
		w.write("k", "poison")
		w.writeMany("late", 30)
		store := &memoryStore{}
		crashes := drainWithCrashes(t, w, 60, isPoison, w.recorder("a"), withStore(store, func(f *Function) { f.MaxAttempts, f.RetryMaxAge = -1, 10*time.Minute }))
		ids := store.documentIDs()
		slices.Sort(ids)
		if fmt.Sprint(ids) != "[poison]" {
			t.Errorf("dead letters %v after %d crashes in two hours", ids, crashes)
		}
	})
}

// A crash ends all ranges of a process. No change of the other ranges is
// dead-lettered.
func TestCrashIsAttributedToOneChangeAcrossRanges(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.writeMany("doc", 40)
		store := &memoryStore{}
		crashes := drainWithCrashes(t, w, 40, isPoison, withDelay(50*time.Millisecond, w.recorder("a")), withStore(store))
		if fmt.Sprint(store.documentIDs()) != "[poison]" {
			t.Errorf("dead letters %v after %d crashes", store.documentIDs(), crashes)
		}
		if n := w.deliveredDocuments(); n != 40 {
			t.Errorf("%d of 40 delivered", n)
		}
	})
}

// Positions are saved late, or cannot be named, so that each owner begins before
// changes that were handled.
func TestCrashingChangeAfterUnsavedPositions(t *testing.T) {
	for i, test := range []struct {
		name   string
		ranges int
		set    func(*Function)
	}{
		{"manual, never requested", 1, func(f *Function) { f.Checkpoint.Manual = true }},
		{"manual, requested every 50", 1, func(f *Function) { f.Checkpoint.Manual = true }},
		{"every 100, pages of one", 1, func(f *Function) { f.Checkpoint.Every, f.MaxItemsPerInvocation, f.PageItems = 100, 1, 1 }},
		{"default, pages of one, a write takes 20 ms", 1, func(f *Function) { f.MaxItemsPerInvocation, f.PageItems = 1, 1 }},
		{"default, merged, a write takes 20 ms", 2, nil},
		{"every 100, merged", 2, func(f *Function) { f.Checkpoint.Every, f.MaxItemsPerInvocation, f.PageItems = 100, 10, 10 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			if i%2 > 0 {
				inLongForm(t)
			}
			inWorld(t, test.ranges, func(t *testing.T, w *world) {
				if test.ranges > 1 {
					mergeRanges(t, w)
				}
				w.writeMany("early", 30)
				w.write("k", "poison")
				w.writeMany("late", 30)
				store := &memoryStore{}
				var mu sync.Mutex
				n, record := 0, w.recorder("a")
				crashes := drainWithCrashes(t, w, 150, isPoison, func(ctx context.Context, b Batch) error {
					mu.Lock()
					defer mu.Unlock()
					if n += len(b.Changes); n >= 50 && test.name != "manual, never requested" {
						n = 0
						b.Checkpoint()
					}
					return record(ctx, b)
				}, withStore(store, func(f *Function) {
					f.MaxItemsPerInvocation, f.PageItems = 10, 10
					if test.set != nil {
						test.set(f)
					}
				}))
				if n := w.deliveredDocuments(); fmt.Sprint(store.documentIDs()) != "[poison]" || n != 60 {
					t.Errorf("dead letters %v, %d of 60 others delivered, %d crashes", store.documentIDs(), n, crashes)
				}
			})
		})
	}
}

// The second version of a document in one transaction has the LSN and the id of the
// first one.
func TestSecondVersionInTransactionHasItsOwnRetries(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
				_, err := w.host("x", w.recorder("x"), allVersions).Drain(t.Context())
				must(t, err)
				w.sendTransaction("p", `[{"operationType":"Create","resourceBody":{"id":"doc","player":"p","version":1}},
					{"operationType":"Upsert","resourceBody":{"id":"doc","player":"p","version":2}}]`)
				store := &memoryStore{}
				stored := withStore(store, func(f *Function) { f.MaxItemsPerInvocation = 1 })
				isSecond := func(c *Change) bool { return strings.Contains(string(c.Document), `"version":2`) }
				if crash {
					drainWithCrashes(t, w, 25, isSecond, w.recorder("a"), stored, allVersions)
				} else {
					for range 25 {
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
						_, err := w.host("a", func(ctx context.Context, b Batch) error {
							for i := range b.Changes {
								if isSecond(&b.Changes[i]) {
									return errPoison
								}
							}
							return nil
						}, stored, allVersions).Drain(ctx)
						cancel()
						must(t, err)
						time.Sleep(30 * time.Second) // the retry is due
					}
				}
				if len(store.deadLetters) != 1 || !strings.Contains(string(store.deadLetters[0].Document), `"version":2`) {
					t.Errorf("dead letters %+v", store.deadLetters)
				}
			})
		})
	}
}

// A process that crashed between calls has announced nothing: its successor delivers
// all changes in full batches.
func TestCrashBetweenCallsMakesNoSuspects(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		dead := w.leaseDocuments()["0"]
		dead.owner, dead.properties[incarnationProperty] = "gone", "gone/1"
		w.replaceLease(dead)
		w.writeMany("doc", 100)
		time.Sleep(2 * time.Minute)
		summary, err := w.host("b", w.recorder("b")).Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
		if summary.Changes != 100 || summary.Batches != 1 {
			t.Errorf("summary %+v", summary)
		}
	})
}

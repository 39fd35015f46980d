package trigger

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger/emulator"
)

// promptly is how late the next owner may deliver a postponed change, with the call before
// it and its own.
const promptly = 2 * time.Second

// A change that an earlier owner has postponed does not wait for the end of a backlog, or
// for a pause of a steady load.
func TestNextOwnerDeliversPostponedChangeBehindAnyLoad(t *testing.T) {
	tests := map[string]struct {
		merged, steady bool
		change         func(*Function)
	}{
		"behind a backlog":                    {},
		"behind a backlog of a merged range":  {merged: true},
		"under a steady load":                 {steady: true},
		"under a steady load, merged range":   {merged: true, steady: true},
		"behind a backlog, four lanes":        {change: func(f *Function) { f.Lanes = 4 }},
		"behind a backlog, merged, few lanes": {merged: true, change: func(f *Function) { f.Lanes = 2 }},
		"behind a backlog, single":            {change: func(f *Function) { f.MaxItemsPerInvocation = 1 }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.change != nil || test.merged && test.steady {
				inLongForm(t)
			}
			inWorld(t, map[bool]int{false: 1, true: 2}[test.merged], func(t *testing.T, w *world) {
				if test.merged {
					mergeRanges(t, w)
				}
				store := &memoryStore{}
				change := withStore(store, func(f *Function) {
					if test.change != nil {
						test.change(f)
					}
				})
				p := newPatience(w, "a", postponeOnce("later", 2*time.Second))
				w.write("k", "later")
				_, err := w.host("a", p.handle, change).Drain(t.Context())
				must(t, err)
				w.writeMany("backlog", 3000)
				ctx, end := context.WithCancel(t.Context())
				written := make(chan struct{})
				go func() {
					defer close(written)
					for n := 0; test.steady && ctx.Err() == nil; n++ {
						w.writeMany(fmt.Sprint("load", n, "-"), 150) // while the handler works on 100
						time.Sleep(500 * time.Millisecond)
					}
				}()
				stop := w.startHost(w.host("b", withDelay(500*time.Millisecond, p.handle), change, withoutLogger))
				time.Sleep(12 * time.Second)
				end()
				<-written
				stop()
				times := p.times("later")
				if len(times) != 2 {
					t.Fatalf("delivered at %v", times)
				}
				if late := times[1].Sub(times[0]) - 2*time.Second; late < 0 || late > promptly {
					t.Errorf("delivered %s after it was due", late)
				}
			})
		})
	}
}

// The position of the next owner is before a postponed change, and an earlier change of its
// key that was handled comes again: it comes first, whatever else there is to do.
func TestNextOwnerKeepsOrderOfPostponedKeyUnderLoad(t *testing.T) {
	manual := func(f *Function) { f.Checkpoint, f.MaxItemsPerInvocation = Checkpoint{Manual: true}, 1 }
	stuck := func(f *Function) { f.MaxItemsPerInvocation, f.MaxAttempts = 1, -1 }
	for name, test := range map[string]struct {
		merged, holds bool
		change        func(*Function)
		lanes         int
	}{
		"nothing was saved":                                   {change: manual},
		"nothing was saved, merged range":                     {merged: true, change: manual},
		"nothing was saved, lanes":                            {change: manual, lanes: 4},
		"a failing key holds the position":                    {change: stuck, holds: true},
		"a failing key holds the position, merged":            {merged: true, change: stuck, holds: true},
		"a failing key holds the position, merged, two lanes": {merged: true, change: stuck, holds: true, lanes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, map[bool]int{false: 1, true: 2}[test.merged], func(t *testing.T, w *world) {
				if test.merged {
					mergeRanges(t, w)
				}
				store := &memoryStore{}
				change := withStore(store, func(f *Function) {
					test.change(f)
					f.Lanes = max(test.lanes, 1)
				})
				fails := test.holds
				p := newPatience(w, "a", postponeOnce("k1", 2*time.Second))
				handle := func(ctx context.Context, b Batch) error {
					if fails && b.Changes[0].ID() == "stuck" {
						return errPoison
					}
					return p.handle(ctx, b)
				}
				w.write("stuck", "stuck")
				w.writeMany("before", 200)
				for i := range 3 {
					w.write("k", fmt.Sprint("k", i))
				}
				stop := w.startHost(w.host("a", handle, change, withoutLogger))
				time.Sleep(1500 * time.Millisecond)
				stop()
				if got := len(store.documentIDs()); got != 2 {
					t.Fatalf("in the store: %v", store.documentIDs())
				}
				time.Sleep(10 * time.Second)
				w.writeMany("after", 500)
				w.write("k", "k3")
				first := len(p.seen)
				fails = false
				saved := func(f *Function, _ *Options) { f.Checkpoint = Checkpoint{} }
				stop = w.startHost(w.host("b", withDelay(10*time.Millisecond, handle), change, saved, withoutLogger))
				time.Sleep(time.Minute)
				stop()
				var order []string
				var times []time.Time
				for _, c := range p.seen[first:] {
					if len(c.id) == 2 {
						order, times = append(order, c.id), append(times, c.at)
					}
				}
				want := "k0 k1 k2 k3"
				if test.holds && !test.merged {
					want = "k1 k2 k3" // the lease tells that k0 is finished
				}
				if got := strings.Join(order, " "); got != want {
					t.Errorf("the next owner delivered %s, want %s", got, want)
				} else if late := times[1].Sub(times[0]); order[0] == "k0" && late > promptly {
					t.Errorf("the postponed change came %s after the earlier one of its key", late)
				}
				if remaining := store.documentIDs(); len(remaining) != 0 {
					t.Errorf("still in the store: %v", remaining)
				}
			})
		})
	}
}

// The letters of a key are on both sides of the position of the next owner, here because a
// failing key holds it. Those before it are delivered when they are due; the others are not
// delivered a second time when the feed shows them again.
func TestNextOwnerDeliversOldLettersBeforeItHasReadTheNewOnes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		fails := true
		p := newPatience(w, "a", func(id string, n int) time.Duration {
			if id == "k0" && n == 1 {
				return 30 * time.Second
			}
			return 0
		})
		handle := func(ctx context.Context, b Batch) error {
			if fails && b.Changes[0].ID() == "stuck" {
				return errPoison
			}
			return p.handle(ctx, b)
		}
		change := withStore(store, func(f *Function) { f.MaxItemsPerInvocation, f.MaxAttempts = 1, -1 })
		w.write("k", "k0")
		stop := w.startHost(w.host("a", handle, change, withoutLogger))
		time.Sleep(3 * time.Second)
		w.write("k", "kq")
		time.Sleep(2 * time.Second)
		w.write("stuck", "stuck")
		w.writeMany("between", 500)
		w.write("k", "k1")
		time.Sleep(5 * time.Second)
		stop()
		if got := fmt.Sprint(store.documentIDs()); got != "[k0 kq k1]" {
			t.Fatalf("in the store: %v", got)
		}
		time.Sleep(19 * time.Second)
		fails = false
		// It reads the last one late.
		endThrottle := w.account.Inject(emulator.Fault{Method: http.MethodGet, Path: "/colls/items/docs", Status: 429, RetryAfter: time.Second})
		stop = w.startHost(w.host("b", handle, change, withoutLogger))
		time.Sleep(20 * time.Second)
		endThrottle()
		time.Sleep(100 * time.Second)
		stop()
		times := p.times("k0")
		if len(times) != 2 || times[1].Sub(times[0]) > 30*time.Second+promptly {
			t.Errorf("k0 was delivered at %v", times)
		}
		ids := slices.DeleteFunc(strings.Fields(p.order()), func(id string) bool { return len(id) != 2 })
		if got, want := strings.Join(ids, " "), "k0 k0 kq k1"; got != want {
			t.Errorf("order %s, want %s", got, want)
		}
		if remaining := store.documentIDs(); len(remaining) != 0 {
			t.Errorf("still in the store: %v", remaining)
		}
	})
}

// The feed of a range is throttled when its next owner begins: the postponed changes before
// its position do not wait for it.
func TestNextOwnerDeliversPostponedChangeWhileFeedIsThrottled(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		p := newPatience(w, "a", postponeOnce("later", 2*time.Second))
		w.write("k", "later")
		_, err := w.host("a", p.handle, withStore(store)).Drain(t.Context())
		must(t, err)
		remove := w.account.Inject(emulator.Fault{Method: http.MethodGet, Path: "/colls/items/docs", Status: 429, RetryAfter: time.Second})
		stop := w.startHost(w.host("b", p.handle, withStore(store), withoutLogger))
		time.Sleep(time.Minute)
		remove()
		stop()
		if times := p.times("later"); len(times) != 2 || times[1].Sub(times[0]) > 2*time.Second+promptly {
			t.Errorf("delivered at %v", times)
		}
	})
}

// The next owner of a merged range reads to the end of the feed while it still delivers what it
// has read, and polls seldom: the postponed change follows what was read, not the next poll.
func TestNextOwnerDeliversPostponedChangeOnceTheFeedWasRead(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		mergeRanges(t, w)
		change := withStore(&memoryStore{}, func(f *Function) {
			f.MaxItemsPerInvocation, f.FeedPollMin, f.FeedPollDelay = 1, 15*time.Second, 15*time.Second
		})
		p := newPatience(w, "a", postponeOnce("later", 2*time.Second))
		w.write("k", "later")
		_, err := w.host("a", p.handle, change).Drain(t.Context())
		must(t, err)
		for token := range w.leaseDocuments() {
			w.editLease(token, func(document map[string]any) { delete(document["properties"].(map[string]any), readAheadProperty) }) // as after a crash
		}
		w.writeMany("backlog", 20)
		stop := w.startHost(w.host("b", withDelay(100*time.Millisecond, p.handle), change, withoutLogger))
		time.Sleep(time.Minute)
		stop()
		if times := p.times("later"); len(times) != 2 || times[1].Sub(times[0]) > 20*100*time.Millisecond+2*promptly {
			t.Errorf("delivered at %v", times)
		}
	})
}

package trigger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
)

// TestPoisonOutlastsItsOwners: giving a change up takes longer than any of its
// owners lasts. What one has tried counts for the next.
func TestPoisonOutlastsItsOwners(t *testing.T) {
	tests := []struct {
		name  string
		drain time.Duration
		busy  time.Duration // what the handler takes to fail
		set   func(*Function)
	}{
		{"a minute's function that fails at once", 48 * time.Second, 0, nil},
		{"five minutes' function", 270 * time.Second, 15 * time.Second, nil},
		{"attempts that take as long as a drain", 270 * time.Second, time.Hour, nil},
		{"an age of more than a drain", 270 * time.Second, 0, func(f *Function) { f.MaxAttempts, f.RetryMaxAge = -1, 10*time.Minute }},
		{"no bisection", 48 * time.Second, 0, func(f *Function) { f.NoBisection, f.BatchItems = true, 1 }},
		{"lanes", 48 * time.Second, 0, func(f *Function) { f.Lanes = 4 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.write("k", "poison")
				w.fill("doc", 99)
				store := &letters{}
				var set []func(*Function)
				if test.set != nil {
					set = append(set, test.set)
				}
				record := w.record("a")
				for range 100 {
					h := w.host("a", func(ctx context.Context, b Batch) error {
						for _, c := range b.Changes {
							if c.ID() == "poison" {
								_ = backoff.Sleep(ctx, test.busy)
								return errPoison
							}
						}
						return record(ctx, b)
					}, withLetters(store, set...))
					ctx, cancel := context.WithTimeout(t.Context(), test.drain)
					_, err := h.Drain(ctx)
					cancel()
					must(t, err)
					time.Sleep(10 * time.Second)
				}
				if n := w.documents(); fmt.Sprint(store.ids()) != "[poison]" || n != 99 {
					t.Fatalf("letters %v, %d of 99 others delivered", store.ids(), n)
				}
				if d := store.all[0]; test.set == nil && (d.Attempts < 10 || d.Attempts > 40) {
					t.Errorf("dead after %d calls", d.Attempts)
				}
				if p := w.leaseDocuments()["0"].properties[retriesProperty]; p != "" {
					t.Errorf("the lease still says %s", p)
				}
			})
		})
	}
}

// TestPoisonThatHangs: each call is left behind with its goroutine, and counts as
// an attempt all the same.
func TestPoisonThatHangs(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.fill("doc", 9)
		store := &letters{}
		release := make(chan struct{})
		record := w.record("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			for _, c := range b.Changes {
				if c.ID() == "poison" {
					<-release
				}
			}
			return record(ctx, b)
		}, withLetters(store), func(_ *Function, o *Options) { o.MaxStuck = 1000 })
		stop := w.running(h)
		time.Sleep(6 * time.Hour)
		if fmt.Sprint(store.ids()) != "[poison]" || w.count() != 9 {
			t.Errorf("letters %v, %d of 9 others delivered, %d calls left behind", store.ids(), w.count(), h.host.abandonedCalls.callCount.Load())
		}
		stop()
		close(release)
	})
}

// TestCallThatEndsWithItsOwner: that is no failure of its changes, each of which
// has one failure to spare and needs it. The next owner tries half of them.
func TestCallThatEndsWithItsOwner(t *testing.T) {
	for _, test := range []struct {
		name          string
		items         int
		change, drain time.Duration
	}{
		{"one change after the other", 1, 40 * time.Second, time.Minute},
		{"a batch that takes longer than a drain", 100, 2 * time.Second, 2 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.fill("doc", 100)
				store := &letters{}
				record := w.record("a")
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
					_, err := w.host("a", slow, withLetters(store, func(f *Function) { f.MaxAttempts, f.BatchItems = 2, test.items })).Drain(ctx)
					cancel()
					must(t, err)
				}
				if len(store.ids()) > 0 || w.count() != 100 {
					t.Errorf("letters %v, %d of 100 delivered", store.ids(), w.count())
				}
			})
		})
	}
}

// TestPoisonThatEndsTheProcess: nobody is left to say what happened. The owners
// after it find out which change it is, and give it up alone.
func TestPoisonThatEndsTheProcess(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.fill("early", 30)
				w.write("k", "poison")
				w.fill("late", 200)
				store := &letters{}
				deaths := mortal(t, w, 60, isPoison, w.record("a"), withLetters(store, func(f *Function) { f.Lanes = lanes }))
				if n := w.documents(); fmt.Sprint(store.ids()) != "[poison]" || n != 230 {
					t.Errorf("letters %v, %d of 230 others delivered", store.ids(), n)
				}
				if deaths < 10 || deaths > 20 {
					t.Errorf("%d processes ended, want as many as there are attempts, and a few to find out", deaths)
				}
				if l := w.leaseDocuments()["0"]; l.properties[deathsProperty] != "" || l.properties[retriesProperty] != "" {
					t.Errorf("the lease still says %v", l.properties)
				}
			})
		})
	}
}

// TestTroubleOfAnOlderVersion: what an earlier owner tried on a version that is
// gone says nothing about the next.
func TestTroubleOfAnOlderVersion(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		store := &letters{}
		drain := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := w.host("a", allergic(w.record("a")), withLetters(store, func(f *Function) { f.MaxAttempts = 12 })).Drain(ctx)
			must(t, err)
		}
		drain()
		if w.leaseDocuments()["0"].properties[retriesProperty] == "" {
			t.Fatal("the lease says nothing of what was tried")
		}
		w.write("k", "poison")
		for range 30 {
			drain()
		}
		if len(store.all) != 1 || store.all[0].Attempts != 12 {
			t.Errorf("letters %+v, want one after 12 calls", store.all)
		}
	})
}

// TestLaterChangesDoNotAnswerForAGroup: a document of a group that was refused as
// one has a newer version since. That takes no part in what follows.
func TestLaterChangesDoNotAnswerForAGroup(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.write("k", id)
		}
		store := &letters{}
		release := make(chan struct{})
		record := w.record("x")
		drain := func(handler Handler) {
			_, err := w.host("x", handler, withLetters(store, func(f *Function) { f.NoBisection, f.MaxAttempts = true, 1 })).Drain(t.Context())
			must(t, err)
		}
		drain(func(context.Context, Batch) error { <-release; return nil })
		w.write("k", "c")
		w.write("k", "d")
		time.Sleep(time.Minute) // its rest
		drain(record)
		close(release)
		if got := fmt.Sprint(store.ids()); got != "[a b]" {
			t.Errorf("letters %s, want those of what did not return", got)
		}
		if w.count() != 2 || w.delivered[0].doc.ID != "c" || w.delivered[1].doc.ID != "d" {
			t.Errorf("delivered %+v", w.delivered)
		}
	})
}

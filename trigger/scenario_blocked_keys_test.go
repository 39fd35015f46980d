package trigger

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/internal/delivery"
)

func TestLaterChangesOfBlockedKeyFollowInOrder(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		block := func(f *Function) { f.BlockKeys = true }
		w.write("k", "poison")
		w.write("k", "later1")
		w.write("other", "doc")
		h := w.host("a", failOnPoison(w.recorder("a")), withStore(store, block))
		_, err := h.Drain(t.Context())
		must(t, err)
		w.write("k", "later2") // the next owner must load the blocked keys
		h = w.host("b", failOnPoison(w.recorder("b")), withStore(store, block))
		_, err = h.Drain(t.Context())
		must(t, err)
		if fmt.Sprint(store.documentIDs()) != "[poison later1 later2]" || w.deliveryCount() != 1 {
			t.Errorf("dead letters %v, %d delivered", store.documentIDs(), w.deliveryCount())
		}
		if d := store.deadLetters[1]; !d.Blocked || d.Attempts != 0 {
			t.Errorf("blocked dead letter %+v", d)
		}

		done, err := Replay(t.Context(), store, w.source(), failOnPoison(w.recorder("replay")), nil)
		must(t, err)
		if done != (Replayed{Failed: 1, Waiting: 2}) {
			t.Errorf("replay with the old handler: %+v", done)
		}
		done, err = Replay(t.Context(), store, w.source(), w.recorder("replay"), nil)
		must(t, err)
		if done != (Replayed{Handled: 3}) || len(store.documentIDs()) != 0 {
			t.Errorf("replay with a fixed handler: %+v, remaining %v", done, store.documentIDs())
		}
		w.write("k", "after")
		_, err = h.Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
	})
}

// A change that is redelivered, and comes before the first dead letter of its key, is
// delivered and not blocked: a replay would deliver it after newer changes.
func TestRedeliveryBeforeFirstDeadLetterIsNotBlocked(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		block := func(f *Function) { f.BlockKeys, f.Checkpoint = true, Checkpoint{Manual: true} } // no position is saved, as after a crash
		w.write("k", "before")
		w.write("k", "poison")
		w.write("k", "after")
		for _, owner := range []string{"a", "b"} {
			_, err := w.host(owner, failOnPoison(w.recorder(owner)), withStore(store, block)).Drain(t.Context())
			must(t, err)
		}
		if fmt.Sprint(store.documentIDs()) != "[poison after]" {
			t.Errorf("dead letters %v", store.documentIDs())
		}
		if w.deliveryCount() != 2 || w.delivered[1].doc.ID != "before" {
			t.Errorf("delivered %+v", w.delivered)
		}
	})
}

// Dead letters of a key are replayed in the order of its changes, with or without BlockKeys,
// even if the host that stored the first ones had a clock that was ahead. Their times are
// true.
func TestDeadLettersOfKeyStayInOrderIfClocksDiffer(t *testing.T) {
	for _, block := range []bool{false, true} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			store := &memoryStore{}
			settings := func(f *Function) { f.BlockKeys, f.MaxAttempts = block, 1 }
			give := func(owner string, ids ...string) {
				for _, id := range ids {
					w.write("k", id)
				}
				_, err := w.host(owner, failOnPoison(w.recorder(owner)), withStore(store, settings), withoutLogger).Drain(t.Context())
				must(t, err)
			}
			give("a", "poison 1", "poison 2")
			for i := range store.deadLetters {
				store.deadLetters[i].Time = store.deadLetters[i].Time.Add(time.Hour) // the clock of a was ahead
			}
			give("b", "poison 3", "poison 4")
			for i, d := range store.deadLetters[2:] {
				if !d.Time.Before(store.deadLetters[0].Time) {
					t.Errorf("dead letter %d of b is from %v", i, d.Time)
				}
			}
			var replayed []string
			_, err := Replay(t.Context(), store, w.source(), func(_ context.Context, b Batch) error {
				replayed = append(replayed, b.Changes[0].ID())
				return nil
			}, nil)
			must(t, err)
			if got := fmt.Sprint(replayed); got != "[poison 1 poison 2 poison 3 poison 4]" {
				t.Errorf("block keys %v: replayed %s", block, got)
			}
		})
	}
}

func TestDamagedDeadLetterBlocksOnlyItsKey(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		store := &damagedStore{key: `["doc3"]`}
		_, err := w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.DeadLetters, f.BlockKeys = store, true }).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(store.documentIDs()) != "[doc3]" || w.deliveryCount() != 4 {
			t.Errorf("dead letters %v, %d delivered; only the key of the damaged one is blocked", store.documentIDs(), w.deliveryCount())
		}
	})
}

func TestHangingListIsRepeated(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		h := w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.DeadLetters, f.BlockKeys = &hangingStore{}, true })
		stop := w.startHost(h)
		time.Sleep(5 * time.Minute)
		stop()
		w.checkComplete(0)
	})
}

func TestKeyIsBlockedIfStoreLags(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.write("k", "next")
		store := &laggingStore{}
		_, err := w.host("a", failOnPoison(w.recorder("a")), func(f *Function, _ *Options) { f.DeadLetters, f.BlockKeys = store, true }).Drain(t.Context())
		must(t, err)
		if w.deliveryCount() != 0 {
			t.Errorf("%s was delivered before the dead letter of its key", w.delivered[0].doc.ID)
		}
	})
}

// blockKeysIn has a function block keys, with a store.
func blockKeysIn(store DeadLetters) func(*Function, *Options) {
	return func(f *Function, _ *Options) { f.DeadLetters, f.BlockKeys = store, true }
}

// However many ranges a host acquires at a time, it lists the dead letters of their
// function once. If their owners have vanished, a list counts only for ranges that were
// acquired before it began: those that were acquired during the first share the second.
// Renewals are spread over time, so two passes of the balancer acquire the leases of a
// vanished owner.
func TestManyRangesShareListOfDeadLetters(t *testing.T) {
	const letters = 20
	ranges := shortOrLong(50, 200)
	inWorld(t, ranges, func(t *testing.T, w *world) {
		store := (&countingStore{loadTime: 15 * time.Millisecond}).withLetters(w, letters)
		var isCut atomic.Bool
		host := func(owner string) *Host {
			return w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
				if owner == "b" && isCut.Load() {
					return loseRequest(r)
				}
				time.Sleep(15 * time.Millisecond)
				return nil, nil, false
			}}, owner, w.recorder(owner), blockKeysIn(store), withoutLogger)
		}
		check := func(moment string, limit int64) {
			t.Helper()
			lists, loads := store.lists.Swap(0), store.loads.Swap(0)
			t.Logf("%s: %d lists, %d dead letters loaded", moment, lists, loads)
			if lists < 1 || lists > limit || loads != lists*letters {
				t.Errorf("%s: %d lists and %d dead letters loaded, want at most %d lists", moment, lists, loads, limit)
			}
		}
		start := func(owner, moment string, limit int64) (stop func()) {
			stop = w.startHost(host(owner))
			time.Sleep(2 * time.Minute)
			if held := w.leasesByOwner()[owner]; held != ranges {
				t.Fatalf("%s holds %d of %d leases", owner, held, ranges)
			}
			check(moment, limit)
			return stop
		}
		start("a", "cold start", 1)()
		stopB := start("b", "after an orderly stop", 1)
		isCut.Store(true)
		stopC := start("c", "after a crash", 4)
		stopC()
		stopB()
		w.writeMany("doc", 2*ranges)
		_, err := host("d").Drain(t.Context())
		must(t, err)
		check("drain", 1)
		w.checkComplete(0)
	})
}

// A host has listed the dead letters before it acquires a further range. It lists them
// again then: the owner before may have put more.
func TestDeadLettersOfFormerOwnerAreSeen(t *testing.T) {
	for name, vanishes := range map[string]bool{"after an orderly stop": false, "after a crash": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(t *testing.T, w *world) {
				store := &memoryStore{}
				var isCut atomic.Bool
				stopA := w.startHost(w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
					if isCut.Load() {
						return loseRequest(r)
					}
					return nil, nil, false
				}}, "a", failOnPoison(w.recorder("a")), blockKeysIn(store), withoutLogger))
				time.Sleep(time.Minute)
				stopB := w.startHost(w.host("b", failOnPoison(w.recorder("b")), blockKeysIn(store), withoutLogger))
				time.Sleep(5 * time.Minute)
				if got := w.leasesByOwner(); got["a"] != 1 || got["b"] != 1 {
					t.Fatalf("owners %v", got)
				}
				for i := range 20 { // some in the range of a
					w.write(fmt.Sprint("player", i), fmt.Sprint("poison", i))
				}
				time.Sleep(time.Hour)
				if n := len(store.documentIDs()); n != 20 {
					t.Fatalf("%d of 20 poison documents are dead letters", n)
				}
				isCut.Store(vanishes)
				if !vanishes {
					stopA()
				}
				time.Sleep(5 * time.Minute)
				if got := w.leasesByOwner(); got["b"] != 2 {
					t.Fatalf("owners %v", got)
				}
				for i := range 20 {
					w.write(fmt.Sprint("player", i), fmt.Sprint("next", i))
				}
				time.Sleep(5 * time.Minute)
				if n := w.deliveryCount(); n != 0 || len(store.documentIDs()) != 40 {
					t.Errorf("%d changes of blocked keys were delivered, %d dead letters", n, len(store.documentIDs()))
				}
				if vanishes {
					stopA()
				}
				stopB()
			})
		})
	}
}

// While a host lists the leases, it lists the dead letters for another range, and only
// after that the owner puts a dead letter and releases the lease. The list of the leases
// shows it released, but the list of the dead letters has nothing of it.
func TestDeadLettersPutDuringListOfLeasesAreSeen(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		drain := func(h *Host) {
			_, err := h.Drain(t.Context())
			must(t, err)
		}
		drain(w.host("a", failOnPoison(w.recorder("a")), blockKeysIn(store)))
		w.write("k", "poison")
		var b *Host
		var isOver atomic.Bool
		b = w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if isLeaseQuery(r) && isOver.CompareAndSwap(false, true) {
				lists := b.functionRunners[0].deadLetterLists
				lists.listAfter(r.Context(), 0, func() (*delivery.BlockedKeys, error) {
					return listBlockedKeys(r.Context(), store, &b.functionRunners[0].function, func() {})
				})
				drain(w.host("a", failOnPoison(w.recorder("a")), blockKeysIn(store)))
				w.write("k", "next")
			}
			return nil, nil, false
		}}, "b", failOnPoison(w.recorder("b")), blockKeysIn(store))
		drain(b)
		if got := fmt.Sprint(store.documentIDs()); got != "[poison next]" || w.deliveryCount() != 0 {
			t.Errorf("dead letters %s, %d changes delivered", got, w.deliveryCount())
		}
	})
}

// A list may take longer than the time of a request, if each dead letter does not.
func TestLongListOfDeadLettersIsReadToItsEnd(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		store := (&countingStore{loadTime: 20 * time.Second}).withLetters(w, 10)
		_, err := w.host("a", w.recorder("a"), blockKeysIn(store)).Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
		if n := store.lists.Load(); n != 1 {
			t.Errorf("%d lists", n)
		}
	})
}

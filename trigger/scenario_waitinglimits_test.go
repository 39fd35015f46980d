package trigger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// writePadded stores a document of some size.
func (w *world) writePadded(player, id string, size int) {
	w.t.Helper()
	type padded struct {
		document
		Padding string `json:"padding"`
	}
	w.mu.Lock()
	w.written[id]++
	doc := padded{document{ID: id, Player: player, Version: w.written[id]}, strings.Repeat("x", size)}
	w.mu.Unlock()
	_, err := w.items.Upsert(w.t.Context(), cosmos.NewPartitionKey(player), doc)
	must(w.t, err)
}

// drainWithin drains a host that leaves its failing keys to the next drain when three quarters
// of the time are over.
func (w *world) drainWithin(h *Host, limit time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	_, err := h.Drain(ctx)
	must(w.t, err)
}

// mendable fails on poison until it is mended.
func mendable(record Handler) (h Handler, mended *atomic.Bool) {
	mended = &atomic.Bool{}
	poisoned := failOnPoison(record)
	return func(ctx context.Context, b Batch) error {
		if mended.Load() {
			return record(ctx, b)
		}
		return poisoned(ctx, b)
	}, mended
}

// The later changes of a poison document's key take more memory than waiting changes may. They
// go to the dead letter store with it, reading continues, and they come back in their order.
func TestHotPoisonKeyDoesNotStopReading(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		const later = 120
		w.write("k", "poison")
		var key []string
		for i := range later {
			key = append(key, fmt.Sprint("later", i))
			w.writePadded("k", key[i], 100_000)
		}
		w.writeMany("doc", 500)
		store := &memoryStore{}
		handler, mended := mendable(w.recorder("a"))
		stop := w.startHost(w.host("a", handler, withStore(store), unending, withoutLogger))
		time.Sleep(2 * time.Minute)
		if n := w.deliveredDocuments(); n != 500 {
			t.Errorf("%d of the other documents are handled", n)
		}
		mended.Store(true)
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(0)
		if got := w.deliveries(append(key, "poison")...); !slices.Equal(got, append([]string{"poison"}, key...)) {
			t.Errorf("the key was delivered as %q", got)
		}
		if n := len(store.deadLetters); n != 0 {
			t.Errorf("%d changes are left in the store", n)
		}
	})
}

// Without a store that keeps changes reading stops at the limit, and status names it.
func TestStatusNamesTheLimitOfWaitingChanges(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		for i := range 60 {
			w.writePadded("k", fmt.Sprint("later", i), 100_000)
		}
		w.writeMany("doc", 500)
		handler, mended := mendable(w.recorder("a"))
		host := w.host("a", handler, unending, withoutLogger)
		stop := w.startHost(host)
		time.Sleep(2 * time.Minute)
		if text := fmt.Sprint(host.Status().Functions[0].Ranges[0].Stalls); !strings.Contains(text, "changes of waiting keys take 4 MiB") {
			t.Errorf("status says %s", text)
		}
		mended.Store(true)
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(0)
	})
}

// At the end of a drain a poison document with many changes of other keys behind it goes to
// the store, so that the next owner need not read them again. It is delivered when it is due.
func TestDrainLeavesLittleToReadAgain(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.write("k", "after")
		w.writeMany("doc", 10_500)
		store := &memoryStore{}
		handler, mended := mendable(w.recorder("a"))
		host := w.host("a", handler, withStore(store), unending, withoutLogger, func(f *Function, _ *Options) { f.RetryMin, f.RetryMax = 5*time.Minute, 5*time.Minute })
		w.drainWithin(host, 4*time.Minute)
		if n := w.deliveredDocuments(); n != 10_500 {
			t.Errorf("%d of the other documents are handled", n)
		}
		if _, ok := w.finishedOf(); ok || len(store.deadLetters) != 2 {
			t.Errorf("lease tells of unfinished changes: %v; %d changes are in the store", ok, len(store.deadLetters))
		}
		for _, d := range store.deadLetters {
			if d.Kind != RecordPostponed || d.DocumentID == "poison" && d.Attempts == 0 {
				t.Errorf("%s is in the store as %s after %d attempts", d.DocumentID, d.Kind, d.Attempts)
			}
		}
		mended.Store(true)
		time.Sleep(10 * time.Minute)
		w.drainWithin(host, 4*time.Minute)
		w.checkComplete(0)
		if got := w.deliveries("poison", "after"); !slices.Equal(got, []string{"poison", "after"}) {
			t.Errorf("the key was delivered as %q", got)
		}
	})
}

// A handled change that waits for a request for a checkpoint is not a waiting key: behind it
// the oldest one goes to the store.
func TestHandledChangeDoesNotKeepKeysFromTheStore(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("first", "first")
		w.write("k", "poison")
		failures := 0
		handler, mended := mendable(w.recorder("a"))
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if failures == 0 && b.Changes[0].ID() == "first" {
				if len(b.Changes) == 1 {
					failures++
				}
				return errPoison
			}
			return handler(ctx, b)
		}, withStore(&memoryStore{}), unending, withoutLogger, manualCheckpoints))
		time.Sleep(10 * time.Second)
		for i := range 60 {
			w.writePadded("k", fmt.Sprint("later", i), 100_000)
		}
		time.Sleep(time.Minute)
		w.writeMany("doc", 50)
		time.Sleep(time.Minute)
		if n := w.deliveredDocuments(); n != 51 {
			t.Errorf("%d of the other documents are handled", n)
		}
		mended.Store(true)
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(w.deliveryCount())
	})
}

// Poison documents that have come back from the store take more memory than waiting changes
// may. They stay in the store until their retries are due, and reading continues.
func TestKeysFromTheStoreDoNotStopReading(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var poison []string
		for i := range 6 {
			poison = append(poison, fmt.Sprint("poison", i))
			w.writePadded(fmt.Sprint("k", i), poison[i], 1_000_000)
		}
		store := &memoryStore{}
		handler, mended := mendable(w.recorder("a"))
		stop := w.startHost(w.host("a", handler, withStore(store), unending, withoutLogger))
		time.Sleep(3 * time.Minute)
		w.writeMany("doc", 50)
		time.Sleep(time.Minute)
		if n := w.deliveredDocuments(); n != 50 {
			t.Errorf("%d of the other documents are handled", n)
		}
		mended.Store(true)
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(0)
		if n := len(store.deadLetters); n != 0 {
			t.Errorf("%d changes are left in the store", n)
		}
	})
}

// Lanes share the end of a drain: the oldest waiting key of the range goes to the store,
// whichever lane has it.
func TestDrainWithLanesLeavesLittleToReadAgain(t *testing.T) {
	inLongForm(t)
	inWorld(t, 1, func(t *testing.T, w *world) {
		for i, key := range keysOfLanes(3) {
			w.write(key, fmt.Sprint("poison", i))
		}
		w.writeMany("doc", 10_500)
		store := &memoryStore{}
		handler, mended := mendable(w.recorder("a"))
		host := w.host("a", handler, withStore(store), unending, withoutLogger, func(f *Function, _ *Options) {
			f.Lanes, f.RetryMin, f.RetryMax = 3, 5*time.Minute, 5*time.Minute
		})
		w.drainWithin(host, 4*time.Minute)
		if n := w.deliveredDocuments(); n != 10_500 {
			t.Errorf("%d of the other documents are handled", n)
		}
		if _, ok := w.finishedOf(); ok || len(store.deadLetters) != 3 {
			t.Errorf("lease tells of unfinished changes: %v; %d changes are in the store", ok, len(store.deadLetters))
		}
		mended.Store(true)
		time.Sleep(10 * time.Minute)
		w.drainWithin(host, 4*time.Minute)
		w.checkComplete(0)
	})
}

// A suspect waits for a moment only. At a limit it does not go to the store, where its crashes
// would be forgotten.
func TestSuspectsDoNotGoToTheStoreAtALimit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		for i := range 60 {
			w.writePadded("hot", fmt.Sprint("hot", i), 100_000)
		}
		store := &memoryStore{}
		drainWithCrashes(t, w, 30, isPoison, w.recorder("a"), withStore(store))
		if n := w.eventCount(EventPostponed); n != 0 {
			t.Errorf("%d changes were postponed", n)
		}
		if n := w.deliveredDocuments(); fmt.Sprint(store.documentIDs()) != "[poison]" || n != 60 {
			t.Errorf("dead letters %v, %d of 60 others delivered", store.documentIDs(), n)
		}
	})
}

// A part of a failed batch that goes to the store before a call of its own keeps its age: it is
// dead-lettered no later than the part that waits in memory.
func TestAgeOfAWaitingKeyTravelsToTheStore(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for _, key := range []string{"a", "b"} {
			w.writePadded(key, key+" poison", 1_100_000)
			w.writePadded(key, key+" second poison", 1_100_000)
		}
		store := &memoryStore{}
		stop := w.startHost(w.host("a", failOnPoison(w.recorder("a")), withStore(store), unending, withoutLogger, func(f *Function, _ *Options) {
			f.BatchBytes, f.RetryMin, f.RetryMax, f.RetryMaxAge = 8<<20, 10*time.Minute, 10*time.Minute, 10*time.Minute
		}))
		time.Sleep(20 * time.Minute)
		stop()
		if w.eventCount(EventPostponed) == 0 {
			t.Error("no key went to the store at the limit")
		}
		for _, d := range store.deadLetters {
			if d.Kind != RecordDead {
				t.Errorf("%s is not given up after %d attempts since %s", d.DocumentID, d.Attempts, d.Since)
			}
		}
	})
}

// Changes of several keys that come from the store together make batches of the usual size.
func TestBatchFromTheStoreKeepsItsSize(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for i := range 6 {
			w.writePadded(fmt.Sprint("k", i), fmt.Sprint("doc", i), 1_000_000)
		}
		record, began := w.recorder("a"), time.Now()
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if time.Since(began) < 10*time.Second {
				return RetryAfter(errPoison, time.Minute)
			}
			if len(b.Changes) > 4 {
				t.Errorf("a batch has %d changes of 1 MB", len(b.Changes))
			}
			return record(ctx, b)
		}, withStore(&memoryStore{}), withoutLogger))
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(0)
	})
}

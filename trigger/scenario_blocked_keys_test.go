package trigger

import (
	"fmt"
	"testing"
	"time"
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

// A dead letter is younger than the earlier ones of its key, even if the host that
// stored those had a clock that was ahead.
func TestDeadLettersOfKeyStayInOrderIfClocksDiffer(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		block := func(f *Function) { f.BlockKeys = true }
		w.write("k", "poison")
		_, err := w.host("a", failOnPoison(w.recorder("a")), withStore(store, block)).Drain(t.Context())
		must(t, err)
		store.deadLetters[0].Time = store.deadLetters[0].Time.Add(5 * time.Second) // the clock of a was ahead
		w.write("k", "next")
		w.write("k", "last")
		_, err = w.host("b", failOnPoison(w.recorder("b")), withStore(store, block)).Drain(t.Context())
		must(t, err)
		for i := range 2 {
			if before, after := store.deadLetters[i], store.deadLetters[i+1]; !after.Time.After(before.Time) {
				t.Errorf("dead letter %d of %v is from %v, the next from %v", i, store.documentIDs(), before.Time, after.Time)
			}
		}
	})
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

package trigger

import (
	"fmt"
	"testing"
	"time"
)

// What comes again from before a dead letter of its key is delivered again, and
// not put behind the letter: a replay would bring it after what is newer.
func TestRedeliveryFromBeforeALetterIsNotParked(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &letters{}
		park := func(f *Function) { f.ParkKeys, f.Checkpoint = true, Checkpoint{Manual: true} } // never saved: as after a crash
		w.write("k", "before")
		w.write("k", "poison")
		w.write("k", "after")
		for _, owner := range []string{"a", "b"} {
			_, err := w.host(owner, allergic(w.record(owner)), withLetters(store, park)).Drain(t.Context())
			must(t, err)
		}
		if fmt.Sprint(store.ids()) != "[poison after]" {
			t.Errorf("letters %v", store.ids())
		}
		if w.count() != 2 || w.delivered[1].doc.ID != "before" {
			t.Errorf("delivered %+v", w.delivered)
		}
	})
}

// A letter that follows another of its key is younger, whichever clock the host
// went by that put that one.
func TestParkedLettersStayInOrderWhereClocksDiffer(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &letters{}
		park := func(f *Function) { f.ParkKeys = true }
		w.write("k", "poison")
		_, err := w.host("a", allergic(w.record("a")), withLetters(store, park)).Drain(t.Context())
		must(t, err)
		store.all[0].Time = store.all[0].Time.Add(5 * time.Second) // a was ahead
		w.write("k", "next")
		w.write("k", "last")
		_, err = w.host("b", allergic(w.record("b")), withLetters(store, park)).Drain(t.Context())
		must(t, err)
		for i := range 2 {
			if before, after := store.all[i], store.all[i+1]; !after.Time.After(before.Time) {
				t.Errorf("letter %d of %v is from %v, the next from %v", i, store.ids(), before.Time, after.Time)
			}
		}
	})
}

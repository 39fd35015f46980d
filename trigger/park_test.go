package trigger

import (
	"fmt"
	"testing"
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

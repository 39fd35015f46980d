package trigger

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"
)

// What comes again from before a dead letter of its key is delivered again, and
// not put behind the letter: a replay would bring it after what is newer.
func TestRedeliveryFromBeforeALetterIsNotParked(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &letters{}
		park := func(f *Function) { f.BlockKeys, f.Checkpoint = true, Checkpoint{Manual: true} } // never saved: as after a crash
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
		park := func(f *Function) { f.BlockKeys = true }
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

// damagedLetters has a letter that cannot be read, of the key that it says.
type damagedLetters struct {
	letters
	key string
}

func (s *damagedLetters) Holds(ctx context.Context, of DeadLetterSource, key string) (bool, error) {
	holds, err := s.letters.Holds(ctx, of, key)
	return holds || key == s.key, err
}

func (s *damagedLetters) List(ctx context.Context, of DeadLetterSource) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for d, err := range s.letters.List(ctx, of) {
			if !yield(d, err) {
				return
			}
		}
		yield(DeadLetter{}, fmt.Errorf("blob x: %w", ErrDamaged))
	}
}

func TestDamagedLettersBlockNothing(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 5)
		store := &damagedLetters{key: `["doc3"]`}
		_, err := w.host("a", w.record("a"), func(f *Function, _ *Options) { f.DeadLetters, f.BlockKeys = store, true }).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(store.ids()) != "[doc3]" || w.count() != 4 {
			t.Errorf("letters %v, %d delivered; only the key of the damaged one has to wait", store.ids(), w.count())
		}
	})
}

// hangingLetters does not answer the first request for a list.
type hangingLetters struct {
	letters
	hung atomic.Bool
}

func (s *hangingLetters) List(ctx context.Context, of DeadLetterSource) iter.Seq2[DeadLetter, error] {
	if s.hung.Swap(true) {
		return s.letters.List(ctx, of)
	}
	return func(yield func(DeadLetter, error) bool) {
		<-ctx.Done()
		yield(DeadLetter{}, context.Cause(ctx))
	}
}

func TestListOfLettersThatHangs(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 5)
		h := w.host("a", w.record("a"), func(f *Function, _ *Options) { f.DeadLetters, f.BlockKeys = &hangingLetters{}, true })
		stop := w.running(h)
		time.Sleep(5 * time.Minute)
		stop()
		w.complete(0)
	})
}

// laggingLetters shows what was put a moment later.
type laggingLetters struct {
	letters
	at time.Time
}

func (s *laggingLetters) Put(ctx context.Context, d DeadLetter) error {
	s.at = time.Now()
	return s.letters.Put(ctx, d)
}

func (s *laggingLetters) Holds(ctx context.Context, of DeadLetterSource, key string) (bool, error) {
	if time.Since(s.at) < 20*time.Millisecond { // a replica that is 20 ms behind
		return false, nil
	}
	return s.letters.Holds(ctx, of, key)
}

func TestParkedOrderWithALaggingReplica(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.write("k", "next")
		store := &laggingLetters{}
		_, err := w.host("a", allergic(w.record("a")), func(f *Function, _ *Options) { f.DeadLetters, f.BlockKeys = store, true }).Drain(t.Context())
		must(t, err)
		if w.count() != 0 {
			t.Errorf("%s was delivered ahead of the letter of its key", w.delivered[0].doc.ID)
		}
	})
}

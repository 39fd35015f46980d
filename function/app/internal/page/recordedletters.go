package page

import (
	"context"

	"halley/trigger"
)

// WatchDeadLetters records the dead letters that a store gets and loses.
func WatchDeadLetters(r *Recorder, store trigger.DeadLetters) trigger.DeadLetters {
	return watchedStore{store, r}
}

type watchedStore struct {
	trigger.DeadLetters
	recorder *Recorder
}

// Put implements [trigger.DeadLetters].
func (w watchedStore) Put(ctx context.Context, d trigger.DeadLetter) error {
	err := w.DeadLetters.Put(ctx, d)
	if err == nil {
		w.recorder.Letter(d)
		w.recorder.lettersChanged("")
	}
	return err
}

// Delete implements [trigger.DeadLetters].
func (w watchedStore) Delete(ctx context.Context, d trigger.DeadLetter) error {
	err := w.DeadLetters.Delete(ctx, d)
	if err == nil {
		w.recorder.lettersChanged(d.ID)
	}
	return err
}

// lettersChanged notes that a store has changed; gone is the id of a dead letter that
// was removed, or "".
func (r *Recorder) lettersChanged(gone string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.letters++
	for _, e := range r.order {
		if gone != "" && e.Letter == gone {
			r.update(e, func() { e.Letter = "" })
			return
		}
	}
}

func (r *Recorder) letterVersion() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.letters
}

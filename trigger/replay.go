package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Replayed counts the dead letters of a replay.
type Replayed struct {
	Handled int `json:"handled"` // and removed from the store
	Failed  int `json:"failed"`  // and kept, because the handler failed again
	Waiting int `json:"waiting"` // kept untried, because an earlier one of their key failed
}

// ReplayOptions select dead letters and bound a replay. The zero value replays all of
// them, one by one.
type ReplayOptions struct {
	// Select has the store select records, by Kind, Range, Key, ErrorContains, After and
	// Before; its other fields do not count. Without a Kind it selects dead letters.
	// Postponed changes are delivered before they are due.
	Select DeadLetterQuery
	// Wanted selects among these; nil selects all.
	Wanted func(DeadLetter) bool
	// Limit is how many dead letters are given to the handler at most; 0 is no limit.
	Limit int
	// Parallel is how many handler calls may run at a time; by default 1. Dead letters
	// of one key are always replayed one by one.
	Parallel int
	// Failed is called with each dead letter on which the handler fails again, in one
	// goroutine at a time; it may be nil.
	Failed func(d DeadLetter, err error)
}

// Replay delivers the dead letters of a source to a handler again, and removes each one that
// the handler accepts. The key with the oldest one comes first, and those of one key are
// delivered in their Order. If one fails, it and the later ones of its key stay, and the
// replay continues with other keys. The error is one of the
// store, or the cause why ctx ended.
func Replay(ctx context.Context, store DeadLetters, source DeadLetterSource, handler Handler, opts *ReplayOptions) (Replayed, error) {
	switch {
	case store == nil, handler == nil:
		return Replayed{}, errors.New("replay: it needs a store and a handler")
	case source.Function == "" || source.Container == "":
		return Replayed{}, fmt.Errorf("replay %v: the source has no function or no container: set the function's Name and Container", source)
	}
	r := &replay{store: store, handler: handler}
	if opts != nil {
		r.options = *opts
	}
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := r.options.Select
	q.Source, q.Kind, q.ID = source, cmp.Or(q.Kind, RecordDead), ""
	q.NewestFirst, q.Limit, q.Cursor = false, 0, ""
	keys := make(chan string)
	var working sync.WaitGroup
	for range max(r.options.Parallel, 1) {
		working.Go(func() {
			for key := range keys {
				if err := r.replayKey(ctx, q, key); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	err := r.findKeys(ctx, q, keys)
	close(keys)
	working.Wait()
	if cause := context.Cause(caller); cause != nil {
		return r.done, cause
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return r.done, fmt.Errorf("replay %v: %w", source, err)
	}
	return r.done, nil
}

// replay is one replay. mu guards given, done and the calls of options.Failed.
type replay struct {
	store   DeadLetters
	handler Handler
	options ReplayOptions

	mu    sync.Mutex
	given int // to the handler
	done  Replayed
}

// findKeys sends the keys of the wanted records, that with the oldest one first, until the
// limit is reached. The records of a key are listed again when its turn comes: their order is
// not that of time, as the clocks of owners differ.
func (r *replay) findKeys(ctx context.Context, q DeadLetterQuery, keys chan<- string) error {
	found := map[string]bool{}
	var damaged []error
	for d, err := range AllDeadLetters(ctx, r.store, q) {
		switch {
		case errors.Is(err, ErrDamaged): // it hides no other
			damaged = append(damaged, err)
			continue
		case err != nil:
			return err
		case !r.isWanted(d) || found[d.Key]:
			continue
		case r.isFull():
			return nil
		}
		found[d.Key] = true
		select {
		case keys <- d.Key:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.Join(damaged...)
}

func (r *replay) isWanted(d DeadLetter) bool { return r.options.Wanted == nil || r.options.Wanted(d) }

// isFull reports whether the handler has got as many records as it may.
func (r *replay) isFull() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.options.Limit > 0 && r.given >= r.options.Limit
}

// mayGive counts a further record for the handler, unless the limit is reached.
func (r *replay) mayGive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.options.Limit > 0 && r.given >= r.options.Limit {
		return false
	}
	r.given++
	return true
}

// replayKey delivers the wanted records of a key in their order, up to the first failure. It
// leaves damaged ones to findKeys, whose list has them, too.
func (r *replay) replayKey(ctx context.Context, q DeadLetterQuery, key string) error {
	q.Key = key
	hasFailed := false
	for d, err := range AllDeadLetters(ctx, r.store, q) {
		switch {
		case errors.Is(err, ErrDamaged):
			continue
		case err != nil:
			return err
		case !r.isWanted(d):
			continue
		case hasFailed:
			r.count(func(done *Replayed) { done.Waiting++ })
			continue
		case !r.mayGive():
			return nil
		}
		if hasFailed, err = r.replayOne(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// replayOne delivers a record, and removes it if the handler accepts it.
func (r *replay) replayOne(ctx context.Context, d DeadLetter) (hasFailed bool, err error) {
	batch := Batch{Function: d.Function, Changes: []Change{d.Change()}, Attempt: d.Attempts + 1, Epoch: d.Epoch}
	batch.Range.ID = d.Range
	if err := recoverPanic(ctx, r.handler, batch); err != nil {
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		r.count(func(done *Replayed) {
			done.Failed++
			if r.options.Failed != nil {
				r.options.Failed(d, err)
			}
		})
		return true, nil
	}
	if err := r.store.Delete(ctx, d); err != nil {
		return false, fmt.Errorf("remove handled dead letter %s: %w", d.ID, err)
	}
	r.count(func(done *Replayed) { done.Handled++ })
	return false, nil
}

func (r *replay) count(change func(*Replayed)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.done)
}

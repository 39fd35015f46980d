package trigger

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
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
	// Wanted selects dead letters, or postponed changes that are to be delivered before
	// they are due; nil selects all dead letters.
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

// Replay delivers the dead letters of a source to a handler again, oldest first, and
// removes each one that the handler accepts. If one fails, it and the later ones of
// its key stay, and the replay continues with other keys. The error is one of the
// store, or the cause why ctx ended.
func Replay(ctx context.Context, store DeadLetters, of DeadLetterSource, handler Handler, opts *ReplayOptions) (Replayed, error) {
	switch {
	case store == nil, handler == nil:
		return Replayed{}, errors.New("replay: it needs a store and a handler")
	case of.Function == "" || of.Container == "":
		return Replayed{}, fmt.Errorf("replay %v: the source has no function or no container: set the function's Name and Container", of)
	}
	r := &replay{store: store, handler: handler}
	if opts != nil {
		r.options = *opts
	}
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queues := make([]chan DeadLetter, max(r.options.Parallel, 1))
	var working sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan DeadLetter)
		working.Go(func() {
			if err := r.replayQueue(ctx, queues[i]); err != nil {
				cancel(err)
			}
		})
	}
	err := r.fillQueues(ctx, of, queues)
	for _, queue := range queues {
		close(queue)
	}
	working.Wait()
	if cause := context.Cause(caller); cause != nil {
		return r.done, cause
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return r.done, fmt.Errorf("replay %v: %w", of, err)
	}
	return r.done, nil
}

// replay is one replay. mu guards done and the calls of options.Failed.
type replay struct {
	store   DeadLetters
	handler Handler
	options ReplayOptions

	mu   sync.Mutex
	done Replayed
}

// fillQueues passes the wanted dead letters to the queues of their keys.
func (r *replay) fillQueues(ctx context.Context, of DeadLetterSource, queues []chan DeadLetter) error {
	sent := 0
	for d, err := range r.store.List(ctx, of) {
		if err != nil {
			return err
		}
		if r.options.Wanted == nil && d.IsPostponed() || r.options.Wanted != nil && !r.options.Wanted(d) {
			continue
		}
		if r.options.Limit > 0 && sent == r.options.Limit {
			return nil
		}
		sent++
		h := fnv.New32a()
		h.Write([]byte(d.Key))
		select {
		case queues[h.Sum32()%uint32(len(queues))] <- d:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// replayQueue delivers the dead letters of one queue, which holds all of a key. After
// an error it takes no more from the queue.
func (r *replay) replayQueue(ctx context.Context, queue <-chan DeadLetter) error {
	failedKeys := map[string]bool{}
	for d := range queue {
		if failedKeys[d.Key] {
			r.count(func(done *Replayed) { done.Waiting++ })
			continue
		}
		batch := Batch{Function: d.Function, Changes: []Change{d.Change()}, Attempt: d.Attempts + 1, Epoch: d.Epoch}
		batch.Range.ID = d.Range
		if err := recoverPanic(ctx, r.handler, batch); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			failedKeys[d.Key] = true
			r.count(func(done *Replayed) {
				done.Failed++
				if r.options.Failed != nil {
					r.options.Failed(d, err)
				}
			})
			continue
		}
		if err := r.store.Delete(ctx, d); err != nil {
			return fmt.Errorf("remove handled dead letter %s: %w", d.ID, err)
		}
		r.count(func(done *Replayed) { done.Handled++ })
	}
	return nil
}

func (r *replay) count(change func(*Replayed)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.done)
}

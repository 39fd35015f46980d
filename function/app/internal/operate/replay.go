package operate

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"halley/trigger"
	"halley/trigger/redact"
)

// ReplayBounds say how much of the selection is replayed, and how.
type ReplayBounds struct {
	DryRun          bool
	Limit, Parallel int
}

// Check refuses bounds with which nothing could be replayed. Its errors name the flags.
func (b ReplayBounds) Check() error {
	if b.Limit < 0 {
		return fmt.Errorf("--limit %d: must not be negative", b.Limit)
	}
	if b.Parallel < 1 {
		return fmt.Errorf("--parallel %d: must be above 0", b.Parallel)
	}
	return nil
}

// Limited yields the first dead letters, as many as the limit allows, and all errors.
func (b ReplayBounds) Limited(found iter.Seq2[StoredLetter, error]) iter.Seq2[StoredLetter, error] {
	return func(yield func(StoredLetter, error) bool) {
		n := 0
		for l, err := range found {
			if err == nil {
				if n++; b.Limit > 0 && n > b.Limit {
					continue
				}
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// Replayed is the outcome of a replay for one function.
type Replayed struct {
	Function string `json:"function"`
	trigger.Replayed
	Failures []FailedLetter `json:"failures"`
}

// FailedLetter is a dead letter on which the handler failed again.
type FailedLetter struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// CountSelected returns how many dead letters are selected. If there are any, errors about
// unreadable ones are left to the caller that iterates over them.
func CountSelected(found iter.Seq2[StoredLetter, error]) (n int, err error) {
	for _, unread := range found {
		if unread != nil {
			err = errors.Join(err, unread)
			continue
		}
		n++
	}
	if n > 0 {
		return n, nil
	}
	return n, err
}

// Replay replays the dead letters of one function. Each call has the deadline
// of the function's other calls.
func (p *Selection) Replay(ctx context.Context, store Store, f trigger.Function, bounds ReplayBounds) (Replayed, error) {
	r := Replayed{Function: store.Function, Failures: []FailedLetter{}}
	handler := func(ctx context.Context, b trigger.Batch) error {
		ctx, cancel := context.WithTimeout(ctx, f.HandlerTimeout)
		defer cancel()
		return f.Handler(ctx, b)
	}
	failed := func(d trigger.DeadLetter, err error) {
		r.Failures = append(r.Failures, FailedLetter{d.ID, redact.Text(err.Error())})
	}
	for _, kind := range p.kinds() {
		opts := &trigger.ReplayOptions{Select: p.query(kind), Wanted: p.wanted(), Limit: bounds.Limit, Parallel: bounds.Parallel, Failed: failed}
		done, err := trigger.Replay(ctx, store, store.Source, handler, opts)
		r.Handled, r.Failed, r.Waiting = r.Handled+done.Handled, r.Failed+done.Failed, r.Waiting+done.Waiting
		if err != nil {
			return r, err
		}
		if left := bounds.Limit - done.Handled - done.Failed; bounds.Limit > 0 && left <= 0 {
			break
		} else if bounds.Limit > 0 {
			bounds.Limit = left
		}
	}
	return r, nil
}

// DeleteDeadLetters deletes all dead letters that can be read.
func DeleteDeadLetters(ctx context.Context, found iter.Seq2[StoredLetter, error]) (deleted int, failed error) {
	for l, err := range found {
		if err == nil {
			err = l.Store.Delete(ctx, l.DeadLetter)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		deleted++
	}
	return deleted, failed
}

package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"halley/trigger/internal/delivery"
)

// deadLetterLists are the lists of a function's dead letters.
//
// The owner before may have put a dead letter until it released the lease, or until
// the lease was taken from it. A range therefore needs a list that began after that,
// however often the dead letters were listed for other ranges before.
type deadLetterLists struct {
	*sharedLists[*delivery.BlockedKeys]
	stuckCalls atomic.Int64 // calls of the function's store that were left behind, see callStore
}

func newDeadLetterLists() *deadLetterLists {
	return &deadLetterLists{sharedLists: newSharedLists[*delivery.BlockedKeys]()}
}

// errSilentStore ends a list that makes no progress.
var errSilentStore = fmt.Errorf("no answer for %s", delivery.StoreTimeout)

// whileAnswering returns a context that ends when a list has made no progress for
// delivery.StoreTimeout. The list calls progress for each dead letter, and its caller end.
func whileAnswering(parent context.Context) (ctx context.Context, progress, end func()) {
	ctx, cancel := context.WithCancelCause(parent)
	silent := time.AfterFunc(delivery.StoreTimeout, func() { cancel(errSilentStore) })
	return ctx, func() { silent.Reset(delivery.StoreTimeout) }, func() {
		silent.Stop()
		cancel(nil)
	}
}

// listBlockedKeys lists the postponed changes of a function, and its dead letters if these
// block keys.
func listBlockedKeys(ctx context.Context, store DeadLetters, f *Function, progress func()) (*delivery.BlockedKeys, error) {
	keys := &delivery.BlockedKeys{}
	damaged := map[string]bool{} // a record may be damaged in both lists
	var newer *newerForm
	list := func(kind RecordKind, add func(DeadLetter)) error {
		for d, err := range AllDeadLetters(ctx, store, DeadLetterQuery{Source: f.DeadLetterSource(), Kind: kind}) {
			progress()
			switch {
			case kind == RecordPostponed && errors.As(err, &newer) && newer.kind != RecordDead:
				keys.Newer = append(keys.Newer, delivery.NewerRecord{Key: newer.key, Err: err})
			case errors.Is(err, ErrDamaged):
				if !damaged[err.Error()] {
					damaged[err.Error()] = true
					keys.Damaged = append(keys.Damaged, err)
				}
			case err != nil:
				return err
			default:
				add(d)
			}
		}
		return nil
	}
	if f.BlockKeys {
		err := list(RecordDead, func(d DeadLetter) {
			keys.AddChange(delivery.BlockedChange{Key: d.Key, LSN: d.LSN, Written: d.Written.Unix(), Order: d.Order})
		})
		if err != nil {
			return nil, err
		}
	}
	if err := list(RecordPostponed, func(d DeadLetter) { keys.AddPostponed(f.storedChange(d)) }); err != nil {
		return nil, err
	}
	keys.SortPostponed()
	return keys, nil
}

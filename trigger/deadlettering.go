package trigger

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"halley/trigger/internal/delivery"
)

// deadLetterStore is the function's store as the delivery uses it, or nil.
func (w *rangeWorker) deadLetterStore() *delivery.Store {
	store, of := w.function.DeadLetters, w.function.DeadLetterSource()
	if store == nil {
		return nil
	}
	return &delivery.Store{
		Keeps: w.function.keepsDeadLetters(),
		Owns:  w.ownsKey,
		LoadKey: func(ctx context.Context, key string, take func(delivery.StoredChange) bool) error {
			_, err := callStore(ctx, w, func() (struct{}, error) { return struct{}{}, loadPostponed(ctx, store, of, w.function, key, take) })
			return err
		},
		Delete: func(ctx context.Context, c *delivery.StoredChange) error {
			d := DeadLetter{ID: c.LetterID, Function: of.Function, Account: of.Account, Database: of.Database, Container: of.Container, Key: c.Key, Document: c.Document, Previous: c.Previous}
			_, err := callStore(ctx, w, func() (struct{}, error) { return struct{}{}, store.Delete(ctx, d) })
			return err
		},
		Put: func(ctx context.Context, c *delivery.Item, l delivery.DeadLetter) error {
			d := w.deadLetter(c, l) // before the call, which may be left behind
			_, err := callStore(ctx, w, func() (struct{}, error) { return struct{}{}, store.Put(ctx, d) })
			return err
		},
		Holds: func(ctx context.Context, key string) (bool, error) {
			return callStore(ctx, w, func() (bool, error) { return store.Holds(ctx, of, key) })
		},
		List: func(ctx context.Context) (*delivery.BlockedKeys, error) {
			list := w.deadLetterLists.listAfter(ctx, w.listsBefore, func() (*delivery.BlockedKeys, error) {
				return callStore(ctx, w, func() (*delivery.BlockedKeys, error) { return listBlockedKeys(ctx, store, w.function) })
			})
			if list.err != nil {
				w.listsBefore = list.number // repeat it
			}
			return list.keys, list.err
		},
	}
}

// callStore calls the dead letter store. A call that ignores the end of its context
// is left behind at the end of a stop's grace. It may still put its dead letter,
// which the next owner then puts again under the same ID.
func callStore[T any](ctx context.Context, w *rangeWorker, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() { // ends with the call
		value, err := call()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-w.stop.abandon.Done():
	}
	w.log.Error("dead letter store ignores the end of its context; its call is left behind")
	var none T
	return none, fmt.Errorf("dead letter store ignores the end of its context: %w", context.Cause(ctx))
}

// deadLetter makes the dead letter of a change.
func (w *rangeWorker) deadLetter(c *delivery.Item, l delivery.DeadLetter) DeadLetter {
	key := w.keyOf(c)
	change := w.function.changeOf(&c.Change, 0, w.feedOrigin).Clone()
	of := w.function.DeadLetterSource()
	d := DeadLetter{
		ID:       w.deadLetterID(c, key),
		Function: of.Function, Account: of.Account, Database: of.Database, Container: of.Container, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), LSN: c.LSN, Key: key,
		Operation: change.Operation, Document: change.Document, Previous: change.Previous,
		DocumentID: c.DocumentID(), DocumentKey: change.originOrNone().metadataKey, Written: change.Time,
		Attempts: l.Attempts, Blocked: l.Cause == nil, Time: l.Time,
	}
	if l.IsPostponed {
		d.ID = postponedID(d.ID, l.Postponed)
		d.Due, d.Since, d.Postponed = l.Due.UTC(), l.Since.UTC(), l.Postponed
	}
	if l.Cause != nil {
		d.Error = l.Cause.Error()
	}
	var p *PanicError
	if errors.As(l.Cause, &p) {
		d.Stack = string(p.Stack)
	}
	return d
}

func (w *rangeWorker) deadLetterID(c *delivery.Item, key string) string {
	var images [][]byte
	if c.Operation != "" {
		images = [][]byte{c.Previous, c.Document}
	}
	return deadLetterID(w.function.Name, w.leases.IDPrefix(), key, c.DocumentID(), c.LSN, c.Timestamp, images...)
}

// postponed is told of each change that is in the store until it is due.
func (w *rangeWorker) postponed(lane int, c *delivery.Item, l delivery.DeadLetter) {
	w.rangeStats.countPostponed(lane)
	w.emitEvent(Event{
		Kind: Postponed, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Changes: 1, Attempt: l.Attempts, LastLSN: c.LSN, Due: l.Due,
	})
	if l.Cause != nil {
		w.log.Info("change postponed", zap.String("documentId", c.DocumentID()), zap.String("key", w.keyOf(c)), zap.Int64("lsn", c.LSN),
			zap.Time("due", l.Due), zap.Int("attempts", l.Attempts), zap.Error(l.Cause))
	}
}

// deadLettered is told of each change that is durable in the store.
func (w *rangeWorker) deadLettered(lane int, c *delivery.Item, l delivery.DeadLetter) {
	w.rangeStats.countDeadLetter(lane)
	w.emitEvent(Event{
		Kind: DeadLettered, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Changes: 1, Attempt: l.Attempts, LastLSN: c.LSN,
	})
	if l.Cause != nil {
		w.log.Error("change dead-lettered", zap.String("documentId", c.DocumentID()), zap.String("key", w.keyOf(c)), zap.Int64("lsn", c.LSN),
			zap.Int("attempts", l.Attempts), zap.Error(l.Cause), stackField(l.Cause))
	}
}

// stackField is the stack of a panic, for the log.
func stackField(err error) zap.Field {
	var p *PanicError
	if errors.As(err, &p) {
		return zap.ByteString("stack", p.Stack)
	}
	return zap.Skip()
}

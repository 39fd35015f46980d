package trigger

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
)

// deadLetterStore is the function's store as the delivery uses it, or nil.
func (w *rangeWorker) deadLetterStore() *delivery.Store {
	store, name := w.function.DeadLetters, w.function.Name
	if store == nil {
		return nil
	}
	return &delivery.Store{
		Put: func(ctx context.Context, c *delivery.Item, l delivery.DeadLetter) error {
			return store.Put(ctx, w.deadLetter(c, l))
		},
		Holds: func(ctx context.Context, key string) (bool, error) { return store.Holds(ctx, name, key) },
		List: func(ctx context.Context, found func(delivery.BlockedChange), damaged func(error)) error {
			for d, err := range store.List(ctx, name) {
				switch {
				case errors.Is(err, ErrDamaged):
					damaged(err)
				case err != nil:
					return err
				default:
					found(delivery.BlockedChange{Key: d.Key, LSN: d.LSN, Written: d.Written.Unix(), Time: d.Time})
				}
			}
			return nil
		},
	}
}

// deadLetter makes the dead letter of a change.
func (w *rangeWorker) deadLetter(c *delivery.Item, l delivery.DeadLetter) DeadLetter {
	keyPaths := w.leases.Monitored().PartitionKey.Paths
	key := c.Key
	if key == "" {
		key = feed.PartitionKey(c.Item, keyPaths)
	}
	change := w.function.changeOf(&c.Change, c.Seq, keyPaths).Clone()
	d := DeadLetter{
		ID:       w.deadLetterID(c, key),
		Function: w.function.Name, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), LSN: c.LSN, Key: key,
		Operation: change.Operation, Document: change.Document, Previous: change.Previous,
		DocumentID: c.DocumentID(), DocumentKey: change.metadataKey, Written: change.Time,
		Attempts: l.Attempts, Blocked: l.Cause == nil, Time: l.Time,
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

// deadLettered is told of each change that is durable in the store.
func (w *rangeWorker) deadLettered(lane int, c *delivery.Item, l delivery.DeadLetter) {
	w.rangeStats.countDeadLetter(lane)
	w.emitEvent(Event{
		Kind: DeadLettered, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Changes: 1, Attempt: l.Attempts, LastLSN: c.LSN,
	})
	if l.Cause != nil {
		w.log.Error("change dead-lettered", zap.String("documentId", c.DocumentID()), zap.Int64("lsn", c.LSN), zap.Int("attempts", l.Attempts), zap.Error(l.Cause))
	}
}

// Package cosmos makes effects in a Cosmos DB container happen exactly once: the writes of
// an effect and the positions of the documents that caused it are one transaction. The
// rule, and why it holds, is in package [halley/handlers/once].
//
// Cosmos DB has transactions within one logical partition, so a function says in which
// partition of its sink the effect of a change is: for example that of the customer whose
// order changed.
//
//	store := cosmos.New(sink, "totals", func(c trigger.Change) []any {
//		return []any{c.ID()}
//	})
//	handler := func(ctx context.Context, b trigger.Batch) error {
//		return store.Apply(ctx, b, func(ctx context.Context, tx *cosmos.Transaction, fresh []trigger.Change) error {
//			...
//		})
//	}
//
// The position of a document is a small document next to the effect, with the id
// NAME-position-HASH. It stays when its document is deleted. If the container has a time to
// live, a position can have one, too: see [Store.Keep]. A transaction costs the request
// units of its writes, and reading the positions those of one read or query for each
// partition.
package cosmos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"halley/handlers"
	"halley/handlers/once"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// Effect adds the writes of changes to a transaction in their partition. fresh has the
// changes of the batch for that partition whose effects did not take place yet, in the
// order of the batch; it is not empty. An effect may be called again, with a new
// transaction, also with fewer changes if they do not fit into one.
//
// An effect that reads documents of the partition writes them with Replace and the etag
// that it has read, or with Create: another call may have written them meanwhile.
//
// If the error is a trigger.Failed or trigger.FailedFrom, also in a trigger.Skip, the
// effect is called again with the other changes, and these are handled. After any other
// error no change of the partition is.
type Effect func(ctx context.Context, tx *cosmos.Transaction, fresh []trigger.Change) error

// Store is the positions of one function. It is safe for concurrent use.
type Store struct {
	// Keep is the time to live of positions, counted from their last write; 0 is for
	// ever. It must be longer than a change can be delivered late, and the container needs
	// a default time to live, such as -1. It is set before the first use.
	Keep time.Duration

	// Meter measures the transactions, and counts the changes whose effects they have, if it
	// is not nil. It is set before the first use.
	Meter *handlers.Meter

	container *cosmos.Container
	name      string
	partition func(c trigger.Change) []any
}

// New returns the store of a function whose effects are in a container. name begins the
// ids of its positions; functions with one sink differ in it. partition returns the values
// of the sink's partition key for a change, as cosmos.NewPartitionKey takes them. They may
// depend on the id and the partition key of the changed document alone: they are the same
// for all of its versions.
func New(sink *cosmos.Container, name string, partition func(c trigger.Change) []any) *Store {
	return &Store{container: sink, name: name, partition: partition}
}

const (
	parallelPartitions = 8       // of one batch
	maxBody            = 1 << 20 // bytes of documents in a transaction of several changes, half of the service's limit
	conflicts          = 5       // how often positions or documents of an effect may change in one call
)

// part is the changes of a batch in one partition of the sink.
type part struct {
	values []any
	batch  trigger.Batch
}

// Apply makes the effects of a batch happen exactly once. Its error is the handler's
// verdict on the batch. The partitions of the sink are independent: if one fails, its
// changes fail, and the others are handled.
func (s *Store) Apply(ctx context.Context, b trigger.Batch, effect Effect) error {
	definition, err := s.container.Properties(ctx)
	if err != nil {
		return fmt.Errorf("read the definition of the sink: %w", err)
	}
	parts := s.parts(b)
	failures := make([]error, len(parts))
	turns := make(chan struct{}, parallelPartitions)
	var applying sync.WaitGroup
	for i, p := range parts {
		applying.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			t := &attempt{Store: s, paths: definition.PartitionKey.Paths, part: p}
			err := once.Effects(p.batch, func(b trigger.Batch) error { return t.apply(ctx, b, effect) })
			failures[i] = named(p.batch, err)
		})
	}
	applying.Wait()
	return errors.Join(failures...)
}

// parts divides a batch by partitions, in the order of the batch.
func (s *Store) parts(b trigger.Batch) []*part {
	var parts []*part
	byKey := map[string]*part{}
	for _, c := range b.Changes {
		values := s.partition(c)
		key := cosmos.NewPartitionKey(values...).String()
		p, found := byKey[key]
		if !found {
			p = &part{values: values, batch: b}
			p.batch.Changes = nil
			byKey[key], parts = p, append(parts, p)
		}
		p.batch.Changes = append(p.batch.Changes, c)
	}
	return parts
}

// named returns the verdict on a part of a batch as one on the batch.
func named(b trigger.Batch, err error) error {
	if err == nil {
		return nil
	}
	verdict := b.Judge(err)
	switch {
	case verdict.Halved:
		return err // it names no change: the whole batch is halved
	case verdict.GivenUp:
		return trigger.Skip(trigger.Failed(err, verdict.Failed...))
	}
	return trigger.Failed(err, verdict.Failed...)
}

// attempt applies the changes of one partition.
type attempt struct {
	*Store
	*part
	paths []string // of the sink's partition key
}

// apply writes the effects of changes in as few transactions as possible.
func (t *attempt) apply(ctx context.Context, b trigger.Batch, effect Effect) (err error) {
	for range conflicts {
		err = t.try(ctx, b, effect)
		if errors.Is(err, errTooLarge) {
			return t.applyHalves(ctx, b, effect, err)
		}
		if !cosmos.IsConflict(err) && !cosmos.IsPreconditionFailed(err) {
			return err
		}
		t.Meter.Retried()
	}
	return fmt.Errorf("other calls changed the same documents %d times: %w", conflicts, err)
}

// applyHalves divides a batch that is too large. A single change that is too large is given
// up.
func (t *attempt) applyHalves(ctx context.Context, b trigger.Batch, effect Effect, tooLarge error) error {
	if len(b.Changes) == 1 {
		return trigger.Skip(tooLarge)
	}
	first, second := b, b
	first.Changes, second.Changes = b.Changes[:len(b.Changes)/2], b.Changes[len(b.Changes)/2:]
	if err := t.apply(ctx, first, effect); err != nil {
		return err
	}
	return t.apply(ctx, second, effect)
}

var errTooLarge = errors.New("too large for a transaction")

// try reads positions and commits one transaction, unless all effects took place before.
func (t *attempt) try(ctx context.Context, b trigger.Batch, effect Effect) error {
	read, err := t.positions(ctx, once.Documents(b))
	if err != nil {
		return err
	}
	stored := make(map[once.Document]once.Position, len(read))
	for document, p := range read {
		stored[document] = p.position()
	}
	fresh, moved := once.Fresh(b, stored)
	if len(fresh) == 0 {
		return nil
	}
	tx := &cosmos.Transaction{}
	if err := effect(ctx, tx, fresh); err != nil {
		return err
	}
	for document, p := range moved {
		if err := t.move(tx, document, p, read[document].ETag); err != nil {
			return err
		}
	}
	if tx.Len() > cosmos.MaxTransaction || tx.Size() > maxBody && len(b.Changes) > 1 {
		return fmt.Errorf("the effects of %d changes have %d writes of %d bytes: %w", len(fresh), tx.Len(), tx.Size(), errTooLarge)
	}
	began := time.Now()
	_, err = t.container.Commit(ctx, cosmos.NewPartitionKey(t.values...), tx)
	t.Meter.Ended(began, err)
	if err != nil {
		return fmt.Errorf("write the effects of %d changes: %w", len(fresh), err)
	}
	t.Meter.Wrote(len(fresh))
	return nil
}

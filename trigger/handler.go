package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"halley/trigger/cosmos"
)

// Handler receives the changes of one range in feed order, a batch at a time.
//
// Its error is its verdict on the batch: nil means handled, and the range may
// be checkpointed past it. Any other error, and a panic, means that the changes
// come again after a backoff, with [Batch.Attempt] higher, by default in
// halves until the one that fails is alone; when that has spent its attempts it
// is dead-lettered. [Failed] names the changes that failed, [Skip] gives up at
// once. A handler is called concurrently for different ranges, and for
// different lanes of one. Delivery is at least once: after a crash or a handover a batch may
// be delivered again, from an earlier position and without gaps, so a handler
// must tolerate what it has seen before.
//
// ctx ends when the handler's deadline passes, when the host stops and its
// grace is over, and when the lease is lost. A handler that returns nil after
// that is still believed.
type Handler func(ctx context.Context, b Batch) error

// Batch is the argument of one handler call.
type Batch struct {
	Function string       // name of the function
	Range    cosmos.Range // the leased span of partition keys; ID is the lease token
	Changes  []Change     // in feed order; never empty
	Attempt  int          // 1 on the first delivery of these changes by this owner
	Epoch    int64        // acquisitions of the lease so far; a sink may refuse a smaller one

	checkpoint func()
}

// Checkpoint asks for the position after this batch to be saved once the
// handler has returned nil. It is for functions whose checkpoints are manual;
// for others it changes nothing, as they are saved anyway.
func (b Batch) Checkpoint() {
	if b.checkpoint != nil {
		b.checkpoint()
	}
}

// Change is one document as the feed reported it. The bytes belong to the
// handler: it may keep and change them.
type Change struct {
	Document json.RawMessage // the document as it now is, system properties included
	LSN      int64           // position in the feed of its physical range; equal within one transaction
	Time     time.Time       // when it was last written, in whole seconds (_ts)

	ordinal int64 // of the change in its worker; 0 outside of a batch
}

// Decode unmarshals the document into v.
func (c Change) Decode(v any) error {
	if err := json.Unmarshal(c.Document, v); err != nil {
		return fmt.Errorf("decode document at lsn %d: %w", c.LSN, err)
	}
	return nil
}

// Documents adapts fn to a [Handler] that decodes each document into a T.
// A document that does not decode fails the batch.
func Documents[T any](fn func(ctx context.Context, docs []T) error) Handler {
	return func(ctx context.Context, b Batch) error {
		docs := make([]T, len(b.Changes))
		for i, c := range b.Changes {
			if err := c.Decode(&docs[i]); err != nil {
				return err
			}
		}
		return fn(ctx, docs)
	}
}

// PanicError is the verdict on a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap gives the value that was panicked with, where it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

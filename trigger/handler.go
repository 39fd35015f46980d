package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
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

	checkpoint *atomic.Bool // whether the handler asked for one; nil in a replay
}

// Checkpoint asks for the position after this batch to be saved once the
// handler has returned nil and all before it, in other lanes too, is handled. It
// is for functions whose checkpoints are manual; for others it changes nothing,
// as they are saved anyway.
func (b Batch) Checkpoint() {
	if b.checkpoint != nil {
		b.checkpoint.Store(true)
	}
}

// Change is one change as the feed reported it. The bytes belong to the handler:
// it may keep and change them.
//
// In latest-version mode a change is a document in its last version. Whether it
// was created or replaced is not known, so Operation is Upsert; it is Delete
// where the function's SoftDelete property says so. In all-versions mode each
// version is a change of its own.
type Change struct {
	Operation Operation
	Document  json.RawMessage // as it is after the change, system properties included; nil for Delete and Expire in all-versions mode
	Previous  json.RawMessage // as it was before; nil where the service does not say
	LSN       int64           // position in the feed of its physical range; equal within one transaction
	Time      time.Time       // when it was written or deleted, in whole seconds
	ID        string          // of the document; in latest-version mode it is in Document and not here
	Key       json.RawMessage // partition key of a document deleted in all-versions mode, as the service gives it

	ordinal int64 // of the change in its worker; 0 outside of a batch
}

// Operation is what happened to a document.
type Operation = cosmos.Operation

// The operations.
const (
	Upsert  Operation = "upsert" // latest-version mode: created or replaced
	Create            = cosmos.Create
	Replace           = cosmos.Replace
	Delete            = cosmos.Delete
	Expire            = cosmos.Expire // deleted by its time to live
)

// errNoDocument is what a handler of documents meets in all-versions mode.
var errNoDocument = errors.New("a delete has no document: take it from Change.Operation, or use Versions")

// Decode unmarshals the document into v.
func (c Change) Decode(v any) error {
	if c.Document == nil {
		return fmt.Errorf("change at lsn %d: %w", c.LSN, errNoDocument)
	}
	if err := json.Unmarshal(c.Document, v); err != nil {
		return fmt.Errorf("decode document at lsn %d: %w", c.LSN, err)
	}
	return nil
}

// Documents adapts fn to a [Handler] that decodes each document into a T, for
// functions in latest-version mode. A document that does not decode fails, and
// nothing of the batch is handled until it is alone and dead-lettered.
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

// Version is a change with its images decoded.
type Version[T any] struct {
	Operation Operation
	Current   *T // nil for a delete
	Previous  *T // nil where the service does not say
	Change    Change
}

// Versions adapts fn to a [Handler] that decodes both images of each change,
// for functions in all-versions mode.
func Versions[T any](fn func(ctx context.Context, versions []Version[T]) error) Handler {
	return func(ctx context.Context, b Batch) error {
		versions := make([]Version[T], len(b.Changes))
		for i, c := range b.Changes {
			versions[i] = Version[T]{Operation: c.Operation, Change: c}
			for _, image := range []struct {
				raw json.RawMessage
				to  **T
			}{{c.Document, &versions[i].Current}, {c.Previous, &versions[i].Previous}} {
				if image.raw == nil {
					continue
				}
				*image.to = new(T)
				if err := json.Unmarshal(image.raw, *image.to); err != nil {
					return fmt.Errorf("decode %s at lsn %d: %w", c.Operation, c.LSN, err)
				}
			}
		}
		return fn(ctx, versions)
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

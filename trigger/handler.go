package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"halley/trigger/cosmos"
	"halley/trigger/internal/documents"
	"halley/trigger/redact"
)

// Handler receives the changes of one range in feed order, a batch at a time.
//
// Its error is its verdict on the batch. If it is nil, the batch is handled and
// the range may be checkpointed past it. After any other error, or a panic, the
// same changes are delivered again after a backoff, with a higher
// [Batch.Attempt]. By default a batch that failed is halved until the failing
// change is alone; when that change has spent its attempts, it is dead-lettered.
// [Failed] names the changes that failed, [RetryAfter] says when they may be delivered
// again, [Skip] gives up without a further attempt.
//
// A handler is called concurrently for different ranges, and for different lanes
// of one range. Delivery is at least once: after a crash or a handover the range
// restarts at an earlier position and repeats changes after it, so a handler
// must tolerate changes that it has seen before. A redelivery of a key has no gaps: it
// begins at the first change of the key that is not finished, or before it, and all later
// ones follow. Finished changes of other keys may be left out.
//
// ctx ends when the handler's deadline passes, when the host stops and its grace
// is over, or when the lease is lost. If the handler returns nil after that, the
// batch still counts as handled.
type Handler func(ctx context.Context, b Batch) error

// Batch is the argument of one handler call.
type Batch struct {
	Function string       // name of the function
	Range    cosmos.Range // the leased span of partition keys; ID is the lease token
	Changes  []Change     // in feed order; never empty; the handler may sort them
	Attempt  int          // 1 on the first delivery of these changes
	Epoch    int64        // acquisitions of the lease so far; a sink may refuse a smaller one

	firstNumber int64              // callNumber of the first change, as delivered
	checkpoint  *checkpointRequest // of the handler; nil in a replay and in a literal
	noBisection bool               // see Function.NoBisection
}

// NewBatch returns a batch of changes that are made by hand, as a test of a handler
// needs it: a first delivery in epoch 1. [Failed] and [FailedFrom] know the changes of
// the batch, not those that were given.
func NewBatch(changes ...Change) Batch {
	b := Batch{Changes: slices.Clone(changes), Attempt: 1, Epoch: 1, checkpoint: &checkpointRequest{}}
	first := takeCallNumbers(len(changes))
	for i := range b.Changes {
		b.Changes[i].callNumber = first + int64(i)
	}
	return b
}

// Checkpoint says that this call's changes are durable in the sink when the handler
// returns nil, and that those of all calls which have returned by now are. A handler that
// keeps changes in memory writes them to its sink and then calls it. If it returns an
// error, the request does not count.
//
// The position that is saved is before the first change that no request covers, such as
// one of a call, in another lane or as a redelivery, that returns later. Changes that the
// filter leaves out, or that are in the dead letter store, need no request. A postponed
// change stays in the store, and is delivered again by the next owner, until a request
// covers it. It is for functions with manual checkpoints; other functions save positions
// anyway. [Function.Flush] covers what is in memory when the host stops working on the range.
func (b Batch) Checkpoint() {
	if b.checkpoint != nil {
		b.checkpoint.request()
	}
}

// checkpointRequest is the last request of a handler in one call. Both numbers are those
// of delivery.Verdict.
type checkpointRequest struct {
	answered  *atomic.Int64 // calls of the range that have returned; nil in a NewBatch
	requested atomic.Int64
}

func (r *checkpointRequest) request() {
	var answered int64
	if r.answered != nil {
		answered = r.answered.Load()
	}
	r.requested.Store(answered + 1)
}

// errNoDocument is the error of decoding a delete in all-versions mode.
var errNoDocument = errors.New("a delete has no document: take it from Change.Operation, or use Versions")

// Documents adapts fn to a [Handler] that decodes each document into a T, for
// functions in latest-version mode. If a document does not decode, the batch
// fails, and is halved until that document is alone and dead-lettered.
func Documents[T any](fn func(ctx context.Context, docs []T) error) Handler {
	return func(ctx context.Context, b Batch) error {
		docs := make([]T, len(b.Changes))
		if failed, err := documents.Decode(reflect.ValueOf(docs), func(i int) []byte { return b.Changes[i].Document }); err != nil {
			return b.Changes[failed].decodeError(err)
		}
		return fn(ctx, docs)
	}
}

// DocumentsWith is [Documents] with another decoder than encoding/json. unmarshal decodes
// a document into a *T. It is called concurrently, must not modify the document, and must
// not refer to its bytes from the *T if the function sets ReuseBuffers.
//
// Unmarshal of github.com/go-json-experiment/json, from which encoding/json/v2 comes, takes
// less than half of the time of encoding/json for documents of 1 KB. It is stricter: a
// document in which an object has a name twice is an error, names match fields only if
// upper and lower case do, and a fixed-size array needs as many elements as it has. An app
// links it only if it imports it.
func DocumentsWith[T any](unmarshal func(document []byte, v any) error, fn func(ctx context.Context, docs []T) error) Handler {
	return func(ctx context.Context, b Batch) error {
		docs := make([]T, len(b.Changes))
		for i, c := range b.Changes {
			if err := c.decodeWith(unmarshal, &docs[i]); err != nil {
				return err
			}
		}
		return fn(ctx, docs)
	}
}

// Version is a change with its images decoded.
type Version[T any] struct {
	Operation cosmos.Operation
	Current   *T // nil for a delete and an unknown operation
	Previous  *T // nil if the service does not say
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

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return redact.Text(fmt.Sprintf("handler panicked: %v", e.Value)) }

// Unwrap returns the value that the handler panicked with, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

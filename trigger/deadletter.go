package trigger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// DeadLetter is a change that a function gave up, with everything needed to
// understand why and to try it again.
type DeadLetter struct {
	ID          string          `json:"id"`       // equal for the same change of the same function
	Function    string          `json:"function"` // its name
	Range       string          `json:"range"`    // lease token
	Epoch       int64           `json:"epoch"`    // of the owner that gave it up
	LSN         int64           `json:"lsn"`      // position in the feed
	Key         string          `json:"key"`      // logical partition key, a JSON array
	Operation   Operation       `json:"operation"`
	Document    json.RawMessage `json:"document,omitempty"` // as the feed reported it
	Previous    json.RawMessage `json:"previous,omitempty"` // likewise, in all-versions mode
	DocumentID  string          `json:"documentId"`
	DocumentKey json.RawMessage `json:"documentKey,omitempty"` // of a delete in all-versions mode
	Written     time.Time       `json:"written"`               // when the document was written or deleted
	Error       string          `json:"error"`                 // of the last attempt
	Stack       string          `json:"stack,omitempty"`       // of a panic
	Attempts    int             `json:"attempts"`              // handler calls with it; 0 if it is only blocked
	Blocked     bool            `json:"parked,omitempty"`      // never tried: it follows an earlier dead letter of its key
	Time        time.Time       `json:"time"`                  // when it was given up
}

// Change returns the change as a handler gets it.
func (d DeadLetter) Change() Change {
	c := Change{Operation: d.Operation, Document: d.Document, Previous: d.Previous, LSN: d.LSN, Time: d.Written, metadataKey: json.RawMessage(d.Key)}
	if d.Operation != Upsert && d.Document == nil {
		c.metadataID = d.DocumentID
	}
	return c
}

// DeadLetters is a durable store of dead letters, shared by hosts. Package
// deadletter has some.
type DeadLetters interface {
	// Put returns once the dead letter is durable. If one with its ID exists, it
	// is not stored a second time, and Put returns nil.
	Put(ctx context.Context, d DeadLetter) error
	// List goes through the dead letters of a function, oldest first: by time,
	// then by range and LSN. Those that are put meanwhile may be missing. An error
	// about one that cannot be read wraps [ErrDamaged], and comes after all others;
	// any other error ends the list.
	List(ctx context.Context, function string) iter.Seq2[DeadLetter, error]
	// Delete removes a dead letter. If it does not exist, Delete returns nil.
	Delete(ctx context.Context, d DeadLetter) error
	// Holds reports whether some dead letter of the function has the key.
	Holds(ctx context.Context, function, key string) (bool, error)
}

// ErrDamaged marks a store's error about one dead letter that exists and cannot be
// read. The others can be read.
var ErrDamaged = errors.New("damaged dead letter")

// DropDeadLetters is a store that keeps nothing: a change that a function gives up
// is lost. It is for functions that prefer a lost change to a waiting range.
var DropDeadLetters DeadLetters = dropStore{}

type dropStore struct{}

func (dropStore) Put(context.Context, DeadLetter) error               { return nil }
func (dropStore) Delete(context.Context, DeadLetter) error            { return nil }
func (dropStore) Holds(context.Context, string, string) (bool, error) { return false, nil }
func (dropStore) List(context.Context, string) iter.Seq2[DeadLetter, error] {
	return func(func(DeadLetter, error) bool) {}
}

// deadLetterID identifies a change: the same version of a document has the same id
// for a function, on every host that gives it up. After a merge the LSNs of a range
// may restart, so written tells the version from a later one with the same LSN. One
// transaction may create several versions of a document; images tell them apart,
// and latest-version mode has none.
func deadLetterID(function, container, key, id string, lsn, written int64, images ...[]byte) string {
	h := sha256.New()
	for _, part := range append([][]byte{[]byte(function), []byte(container), []byte(key), []byte(id), fmt.Append(nil, lsn, written)}, images...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Replayed counts the dead letters of a replay.
type Replayed struct {
	Handled int `json:"handled"` // and removed from the store
	Failed  int `json:"failed"`  // and kept, because the handler failed again
	Waiting int `json:"waiting"` // kept untried, because an earlier one of their key failed
}

// Replay delivers the dead letters of a function to its handler again, one by one
// and oldest first, and removes each one that the handler accepts. If one fails, it
// and the later ones of its key stay, and the replay continues with other keys.
// wanted selects dead letters; nil selects all. The error is one of the store, or
// the cause why ctx ended.
func Replay(ctx context.Context, store DeadLetters, function string, handler Handler, wanted func(DeadLetter) bool) (Replayed, error) {
	var done Replayed
	stopped := map[string]bool{}
	for d, err := range store.List(ctx, function) {
		if err != nil {
			return done, fmt.Errorf("replay %q: %w", function, err)
		}
		if wanted != nil && !wanted(d) {
			continue
		}
		if stopped[d.Key] {
			done.Waiting++
			continue
		}
		batch := Batch{Function: function, Changes: []Change{d.Change()}, Attempt: d.Attempts + 1, Epoch: d.Epoch}
		batch.Range.ID = d.Range
		if err := recoverPanic(ctx, handler, batch); err != nil {
			if ctx.Err() != nil {
				return done, context.Cause(ctx)
			}
			done.Failed++
			stopped[d.Key] = true
			continue
		}
		if err := store.Delete(ctx, d); err != nil {
			return done, fmt.Errorf("replay %q: remove handled dead letter %s: %w", function, d.ID, err)
		}
		done.Handled++
	}
	return done, nil
}

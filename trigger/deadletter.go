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

// DeadLetter is a change that a function gave up, with all that is needed to
// understand why and to try again.
type DeadLetter struct {
	ID          string          `json:"id"`       // the same for the same change of the same function
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
	Stack       string          `json:"stack,omitempty"`       // where the handler panicked
	Attempts    int             `json:"attempts"`              // how often it was tried; 0 for one that is only parked
	Blocked     bool            `json:"parked,omitempty"`      // never tried: it waits behind an earlier one of its key
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
	// Put returns once the letter is durable. A letter whose ID is there already
	// is not stored a second time, and that is no error.
	Put(ctx context.Context, d DeadLetter) error
	// List goes through the letters of a function, oldest first: by time, then
	// by range and LSN. Letters put meanwhile may be missing. A letter that
	// cannot be read is an error that is [ErrDamaged], after all that can; any
	// other error ends the list.
	List(ctx context.Context, function string) iter.Seq2[DeadLetter, error]
	// Delete removes a letter; one that is not there is no error.
	Delete(ctx context.Context, d DeadLetter) error
	// Holds reports whether some letter of the function has the key.
	Holds(ctx context.Context, function, key string) (bool, error)
}

// ErrDamaged marks the error of a store about a letter that is there and cannot
// be read; the others can.
var ErrDamaged = errors.New("damaged dead letter")

// Discard is a store that keeps nothing: what a function gives up is lost. It
// is for those who would rather lose a change than look after it.
var DropDeadLetters DeadLetters = dropStore{}

type dropStore struct{}

func (dropStore) Put(context.Context, DeadLetter) error               { return nil }
func (dropStore) Delete(context.Context, DeadLetter) error            { return nil }
func (dropStore) Holds(context.Context, string, string) (bool, error) { return false, nil }
func (dropStore) List(context.Context, string) iter.Seq2[DeadLetter, error] {
	return func(func(DeadLetter, error) bool) {}
}

// deadLetterID names a change: the same document version of the same function
// has the same id, whichever host gives it up, and however often. written tells
// it from a later version that has its LSN, as the LSNs of a range may begin anew
// with a merge. images tell several versions apart that one transaction made of
// a document; latest-version mode has none.
func deadLetterID(function, container, key, id string, lsn, written int64, images ...[]byte) string {
	h := sha256.New()
	for _, part := range append([][]byte{[]byte(function), []byte(container), []byte(key), []byte(id), fmt.Append(nil, lsn, written)}, images...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Replayed is what a replay did.
type Replayed struct {
	Handled int `json:"handled"` // and removed from the store
	Failed  int `json:"failed"`  // and kept, as the handler refused them again
	Waiting int `json:"waiting"` // kept untried, behind a failed one of their key
}

// Replay gives the dead letters of a function to its handler again, one by one
// and oldest first, and removes each after the handler has accepted it. One
// that fails stays, and so do the later ones of its key; the others go on. wanted
// chooses among the letters; nil is all. An error is one of the store or the end
// of ctx.
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
			return done, fmt.Errorf("replay %q: remove handled letter %s: %w", function, d.ID, err)
		}
		done.Handled++
	}
	return done, nil
}

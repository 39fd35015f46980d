package trigger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"halley/trigger/cosmos"
)

// DeadLetter is a change that a function gave up, or that its handler has postponed,
// with everything needed to understand why and to try it again.
type DeadLetter struct {
	ID          string           `json:"id"`        // equal for the same change of the same function
	Function    string           `json:"function"`  // its name
	Account     string           `json:"account"`   // host name of the monitored account
	Database    string           `json:"database"`  // of the monitored container
	Container   string           `json:"container"` // monitored
	Range       string           `json:"range"`     // lease token
	Epoch       int64            `json:"epoch"`     // of the owner that gave it up
	LSN         int64            `json:"lsn"`       // position in the feed
	Key         string           `json:"key"`       // logical partition key, a JSON array
	Operation   cosmos.Operation `json:"operation"`
	Document    json.RawMessage  `json:"document,omitempty"` // as the feed reported it
	Previous    json.RawMessage  `json:"previous,omitempty"` // likewise, in all-versions mode
	DocumentID  string           `json:"documentId"`
	DocumentKey json.RawMessage  `json:"documentKey,omitempty"` // of a delete in all-versions mode
	Written     time.Time        `json:"written"`               // when the document was written or deleted
	Error       string           `json:"error"`                 // of the last attempt
	Stack       string           `json:"stack,omitempty"`       // of a panic
	Attempts    int              `json:"attempts"`              // failed calls with exactly this change, or crashes; 0 if it is only blocked
	Blocked     bool             `json:"blocked,omitempty"`     // never tried: it follows an earlier dead letter of its key
	Time        time.Time        `json:"time"`                  // when it was given up; dead letters of a key are in its order

	// Due is when a change that was postponed, see [RetryAfter], is delivered again: it is
	// not dead. A change that is only Blocked follows a postponed change of its key. Due is
	// zero for a dead letter.
	Due       time.Time `json:"due,omitzero"`
	Postponed int       `json:"postponed,omitempty"` // calls that have postponed it
	Since     time.Time `json:"since,omitzero"`      // of a postponed change: when a call first failed with it
}

// IsPostponed reports whether the change waits until it is due, and is not dead.
func (d DeadLetter) IsPostponed() bool { return !d.Due.IsZero() }

// Change returns the change as a handler gets it.
func (d DeadLetter) Change() Change {
	origin := &changeOrigin{metadataKey: json.RawMessage(d.Key)}
	if d.Operation != cosmos.OperationUpsert && d.Document == nil {
		origin.metadataID = d.DocumentID
	}
	return Change{Operation: d.Operation, Document: d.Document, Previous: d.Previous, LSN: d.LSN, Time: d.Written, origin: origin}
}

// DeadLetterSource is a function on one monitored container. Functions of one name on
// other containers, or of other apps, have other dead letters.
type DeadLetterSource struct {
	Function  string // its name
	Account   string // host name of the monitored account
	Database  string // of the monitored container
	Container string // monitored
}

func (s DeadLetterSource) String() string {
	return fmt.Sprintf("function %q on %s/%s/%s", s.Function, s.Account, s.Database, s.Container)
}

// Source returns the function and the container that the dead letter belongs to.
func (d DeadLetter) Source() DeadLetterSource {
	return DeadLetterSource{d.Function, d.Account, d.Database, d.Container}
}

// DeadLetterSource returns the source of the function's dead letters. Only Name and
// Container count. Without a container the source names none, and [Replay] refuses it.
func (f Function) DeadLetterSource() DeadLetterSource {
	if f.Container == nil {
		return DeadLetterSource{Function: f.Name}
	}
	s := DeadLetterSource{Function: f.Name, Database: f.Container.Database(), Container: f.Container.Name()}
	if endpoint, err := url.Parse(f.Container.Client().Endpoint()); err == nil {
		s.Account = endpoint.Hostname()
	}
	return s
}

// DeadLetters is a durable store of dead letters, shared by hosts. Package
// deadletter has some.
//
// The context of a call ends after a minute, for a list after a minute without a dead
// letter, and when the host stops. A call that has not returned a second later is left
// behind, and made again: its lane waits, and [Host.Status] names the store. So it is if a
// call panics or ends its goroutine; the log has the stack of a panic. At most 8 calls
// of a function are left behind at a time; then no other begins until one of them returns. A
// Put that was left behind may store its dead letter after the second one was
// delivered and deleted; the change is then delivered once more.
type DeadLetters interface {
	// Put returns once the dead letter is durable. If one with its ID exists, it
	// is not stored a second time, and Put returns nil. A Put that has returned an
	// error, or that was left behind, should not store the dead letter later.
	Put(ctx context.Context, d DeadLetter) error
	// List goes through the dead letters and the postponed changes of a source, oldest
	// first: by time, then by range and LSN. Those that are put meanwhile may be
	// missing. An error
	// about one that cannot be read wraps [ErrDamaged], and comes after all others;
	// any other error ends the list.
	List(ctx context.Context, of DeadLetterSource) iter.Seq2[DeadLetter, error]
	// Delete removes a dead letter. If it does not exist, Delete returns nil.
	Delete(ctx context.Context, d DeadLetter) error
	// Holds reports whether some dead letter of the source has the key. Postponed changes
	// do not count.
	Holds(ctx context.Context, of DeadLetterSource, key string) (bool, error)
	// Postponed is List for the postponed changes alone, or for those of one key if key is
	// not "". It should not load other dead letters.
	Postponed(ctx context.Context, of DeadLetterSource, key string) iter.Seq2[DeadLetter, error]
}

// ErrDamaged marks a store's error about one dead letter that exists and cannot be
// read. The others can be read.
var ErrDamaged = errors.New("damaged dead letter")

// DropDeadLetters is a store that keeps nothing: a change that a function gives up
// is lost. It is for functions that prefer a lost change to a waiting range.
var DropDeadLetters DeadLetters = dropStore{}

type dropStore struct{}

func (dropStore) Put(context.Context, DeadLetter) error    { return nil }
func (dropStore) Delete(context.Context, DeadLetter) error { return nil }
func (dropStore) Holds(context.Context, DeadLetterSource, string) (bool, error) {
	return false, nil
}
func (dropStore) Postponed(context.Context, DeadLetterSource, string) iter.Seq2[DeadLetter, error] {
	return func(func(DeadLetter, error) bool) {}
}
func (dropStore) List(context.Context, DeadLetterSource) iter.Seq2[DeadLetter, error] {
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

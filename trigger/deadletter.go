package trigger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"halley/trigger/cosmos"
)

// DeadLetter is a record of a dead letter store: a change that a function gave up, or that
// its handler has postponed, with everything needed to understand why and to try it again.
type DeadLetter struct {
	Version     int              `json:"version"`   // of the stored form, see [DeadLetter.CheckForm]
	Kind        RecordKind       `json:"kind"`      // dead or postponed
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
	Time        time.Time        `json:"time"`                  // when it was given up or postponed

	// Order is the place among the records of one source and key: later changes have higher
	// numbers, whatever the clocks of their owners say.
	Order int64 `json:"order"`

	// Generation is that of the change when it was put, see [Change.Generation]; 0 is unknown.
	Generation int64 `json:"generation,omitempty"`

	// Due is when a postponed change, see [RetryAfter], is delivered again. A change that is
	// only Blocked follows a postponed change of its key. Due is zero for a dead letter.
	Due       time.Time `json:"due,omitzero"`
	Postponed int       `json:"postponed,omitempty"` // calls that have postponed it
	Since     time.Time `json:"since,omitzero"`      // of a postponed change: when a call first failed with it
}

// RecordKind is a kind of record in a dead letter store.
type RecordKind string

const (
	RecordDead      RecordKind = "dead"      // the function has given the change up
	RecordPostponed RecordKind = "postponed" // the function delivers the change again when it is due
)

// DeadLetterVersion is the version of the stored form of a [DeadLetter].
const DeadLetterVersion = 1

// IsPostponed reports whether the change waits until it is due, and is not dead.
func (d DeadLetter) IsPostponed() bool { return d.Kind == RecordPostponed }

// CheckForm returns an error that wraps [ErrDamaged] if this version of Halley does not know
// the form of the record. A store calls it in Put, and when it has decoded a record.
func (d DeadLetter) CheckForm() error {
	switch {
	case d.Version > DeadLetterVersion:
		return fmt.Errorf("%w: %w", ErrDamaged, &newerForm{d.Version, d.Kind, d.Key})
	case d.Version < 1:
		return fmt.Errorf("%w: its form has no version", ErrDamaged)
	case d.Kind != RecordDead && d.Kind != RecordPostponed:
		return fmt.Errorf("%w: its kind is %q", ErrDamaged, d.Kind)
	}
	return nil
}

// newerForm is the error of a record that a newer version of Halley has written.
type newerForm struct {
	version int
	kind    RecordKind
	key     string
}

func (e *newerForm) Error() string {
	return fmt.Sprintf("its form has version %d, and this version of Halley reads forms up to %d: use a newer Halley", e.version, DeadLetterVersion)
}

// Change returns the change as a handler gets it. If its Generation is known, that of the change
// is the present time: the snapshot that is being read, during which the dead letter is replayed,
// must not remove its effect as not shown, and later snapshots may.
func (d DeadLetter) Change() Change {
	origin := &changeOrigin{metadataKey: json.RawMessage(d.Key)}
	if d.Generation > 0 {
		origin.generation = max(d.Generation, time.Now().Unix())
	}
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

// DeadLetters is a durable store of dead letters and postponed changes, shared by hosts.
// Package deadletter has some; triggertest.TestDeadLetters tests one of your own. The runtime
// calls Put in deadletterwrite.go, after package internal/delivery has given a change up.
//
// The context of a call ends after a minute, while a function begins to work on a range after
// a minute without an answer, and when the host stops. A call that has not returned a second
// later is left behind, and made again: its lane waits, and [Host.Status] names the store. So
// it is if a call panics or ends its goroutine; the log has the stack of a panic. At most 8
// calls of a function are left behind at a time; then no other begins until one of them
// returns. A Put that was left behind may store its record after the second one was delivered
// and deleted; the change is then delivered once more.
type DeadLetters interface {
	// Put returns once the record is durable. If one with its source and ID exists, it is not
	// stored a second time, and Put returns nil. A Put that has returned an error, or that was
	// left behind, should not store the record later.
	Put(ctx context.Context, d DeadLetter) error
	// Query returns a page of the records of one kind; [AllDeadLetters] goes through all
	// pages. Together they have each record whose Put had returned before the first of them was
	// asked for; records that are put meanwhile may be missing. One that cannot be read is
	// among the damaged ones of a page and hides no other; if its fields cannot be read, it
	// counts as one that the query selects.
	Query(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error)
	// Delete removes a record. If it does not exist, Delete returns nil.
	Delete(ctx context.Context, d DeadLetter) error
	// Holds reports whether some dead letter of the source has the key. Postponed changes
	// do not count.
	Holds(ctx context.Context, source DeadLetterSource, key string) (bool, error)
}

// ErrDamaged marks a store's error about one record that exists and cannot be read. The
// others can be read.
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
func (dropStore) Query(context.Context, DeadLetterQuery) (DeadLetterPage, error) {
	return DeadLetterPage{}, nil
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

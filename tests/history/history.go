// Package history judges a run by a record of its events: the changes that were
// written, their deliveries with host, order and verdict, and the writes of the
// lease documents.
//
// A history has one JSON object per line, in the order of the events. A recorder
// may leave out kinds of events; if a rule needs them, it is not judged. Writes
// and deliveries suffice for the promises to handlers: the writer appends a
// write when the account has acknowledged it, handlers append a delivery before
// they return. If a history also has the ends of handler calls and the writes of
// lease documents, the promises about these are judged, too.
//
// The changes of one key are written one after the other and numbered from 1;
// several may be versions of one document. The feed shows a document only in
// its last version, so an earlier version may be missing, never the last.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Kind says what an event records.
type Kind string

const (
	Write    Kind = "write"    // a change was written
	Delivery Kind = "delivery" // a handler call with the change began
	End      Kind = "end"      // a handler call ended
	Lease    Kind = "lease"    // a lease document was written, or the marker created
	Tamper   Kind = "tamper"   // a lease document was changed, but not by a host
	Host     Kind = "host"     // a host started, stopped or was killed
	Fault    Kind = "fault"    // a fault was injected
	Held     Kind = "held"     // a host measured its memory
	Reading  Kind = "read"     // a host sent a feed read with its new lease, or after a throttle, or got a page
	Charged  Kind = "charged"  // a feed read was answered, with its request units
	Flush    Kind = "flush"    // the sink of a host has stored the changes that it buffered for a range, or for all; with an epoch, at the end of the work on the range
	Calm     Kind = "calm"     // no fault is injected and no host starts or ends after this event
)

// Event is one line of a history.
type Event struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time,omitzero"`

	Key string `json:"key,omitempty"` // logical partition key
	Seq int64  `json:"seq,omitempty"` // number of the change within its key, from 1
	ID  string `json:"id,omitempty"`  // document; of a lease only if it duplicates another lease of its range

	// Of a write; both or neither. LSN also of a delivery.
	LSN  int64  `json:"lsn,omitempty"`  // position in its range
	Hash string `json:"hash,omitempty"` // hashed key, upper hex

	// Of a delivery, an end and a lease write.
	Host  string `json:"host,omitempty"`  // one process; a restarted host has another name
	Range string `json:"range,omitempty"` // lease token
	Epoch int64  `json:"epoch,omitempty"`

	Attempt int     `json:"attempt,omitempty"` // of a delivery; of an end with DeadLettered, the attempts that the letter names
	Call    int64   `json:"call,omitempty"`    // of a delivery and an end: the handler call, counted over all hosts
	Verdict Verdict `json:"verdict,omitempty"` // of an end; of a flush with Failed, the sink has stored nothing
	Failed  []Ref   `json:"failed,omitempty"`  // of an end with PartlyFailed, DeadLettered or Postponed: the changes

	Due time.Time `json:"due,omitzero"` // of an end with Postponed: the change must not be delivered before

	// Of a lease write, and of a tamper, which records the lease after it. Host
	// and fault events have only Op.
	Op       Op        `json:"op,omitempty"`
	Min      string    `json:"min,omitempty"` // hashed keys, [Min, Max)
	Max      string    `json:"max,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	Position int64     `json:"position,omitempty"` // all changes up to this LSN are acknowledged; of a read, are in the page or before it
	Sent     time.Time `json:"sent,omitzero"`      // when the request left the host
	Retired  bool      `json:"retired,omitempty"`  // of a tamper: the document is the tombstone of a retired lease

	Bytes int64   `json:"bytes,omitempty"` // that a host holds
	Units float64 `json:"units,omitempty"` // of a charge

	// Of a fault.
	Until time.Time     `json:"until,omitzero"` // when it ends; zero if that is unknown
	Wait  time.Duration `json:"wait,omitzero"`  // the longest Retry-After of a throttled feed
}

// Ref names one change.
type Ref struct {
	Key string `json:"key"`
	Seq int64  `json:"seq"`
}

// Verdict is how a handler call ended.
type Verdict string

const (
	Handled      Verdict = "handled"      // every change was handled
	Failed       Verdict = "failed"       // error or panic: no change was handled
	PartlyFailed Verdict = "partlyFailed" // every change was handled except those in Event.Failed
	DeadLettered Verdict = "deadLettered" // not a handler call: the changes in Event.Failed are in the dead letter store
	Postponed    Verdict = "postponed"    // likewise, until Event.Due
)

// Op is one operation on a lease document or a host.
type Op string

const (
	Create     Op = "create"
	Acquire    Op = "acquire"
	Checkpoint Op = "checkpoint"
	Renew      Op = "renew"
	Release    Op = "release"
	Retire     Op = "retire" // deleted by its owner after a split or merge
	Tombstone  Op = "tombstone"
	Request    Op = "request" // another host requests a handover
	Marker     Op = "marker"  // the leases of the function exist

	// Of an operator, except that an owner pauses the children of its paused lease.
	Pause  Op = "pause"
	Resume Op = "resume"
	Seek   Op = "seek" // moves the position of a lease that no host holds, or frees it
	Free   Op = "free" // frees a lease at its position
	Take   Op = "take" // from an owner that is not waited for

	// Of an owner that is not Halley, such as a .NET processor.
	ForeignTake    Op = "foreign take"
	ForeignMove    Op = "foreign move" // of the position
	ForeignRelease Op = "foreign release"

	Deleted    Op = "deleted"
	Corrupted  Op = "corrupted"
	Restored   Op = "restored"   // replaced by an older copy, or created from one after a deletion
	Duplicated Op = "duplicated" // a second document for one range

	BlockedKey Op = "blocked key" // of an end with DeadLettered or Postponed: not delivered, because an earlier change of the key is in the store
	Buffered   Op = "buffered"    // of an end: the handled changes are in the memory of the host's sink until it flushes them
	GaveUpAll  Op = "gave up all" // of an end with Failed: the handler gave up the batch and named no change

	// Faults that rules know.
	ClockStep     Op = "clock step"     // a host sees another clock of the service until the fault ends
	FeedThrottled Op = "feed throttled" // the monitored container answers 429 or 503 to all hosts
	OlderEtag     Op = "older etag"     // one answer of a feed has the etag of an earlier one
	WrongDate     Op = "wrong date"     // one answer has a date that is ten minutes wrong
	Merge         Op = "merge"          // ranges merge until the fault ends

	Started  Op = "started"
	Stopping Op = "stopping" // asked to stop
	Stopped  Op = "stopped"  // shut down cleanly, its leases released if possible
	Killed   Op = "killed"
)

// Append writes events to w in one call of Write, so that histories of several
// processes may share a file opened for appending.
func Append(w io.Writer, events ...Event) error {
	var lines []byte
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	_, err := w.Write(lines)
	return err
}

// Read parses a history. It leaves out a last line without a newline, which a
// process leaves when it is killed while writing.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		events = append(events, e)
	}
}

// Package history judges what a run did from a record of it: which changes
// were written, which were delivered, where, in which order and with what
// verdict, and how the leases were written meanwhile.
//
// A history is one JSON object a line, in the order in which things happened.
// How much of it is recorded is up to the recorder; a promise that needs what
// is not there is not judged. Writes and deliveries alone suffice for the
// promises to handlers: the writer appends a write once the account has
// acknowledged it, handlers append a delivery before they return. Histories
// that also hold the ends of handler calls and the writes of lease documents
// are judged by what is promised about those.
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
	Lease    Kind = "lease"    // a lease document was written, or its marker created
	Tamper   Kind = "tamper"   // a lease document was changed behind the hosts' backs
	Host     Kind = "host"     // a host started, stopped or was killed
	Fault    Kind = "fault"    // something went wrong on purpose
	Held     Kind = "held"     // a host measured its memory
	Calm     Kind = "calm"     // from here on nothing goes wrong and no host comes or goes
)

// Event is one line of a history.
type Event struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time,omitzero"`

	Key string `json:"key,omitempty"` // logical partition key
	Seq int64  `json:"seq,omitempty"` // number of the change within its key, from 1
	ID  string `json:"id,omitempty"`  // document; of a lease what tells it from another one for the range, where there are two

	// Of a write; both or neither. LSN also of a delivery.
	LSN  int64  `json:"lsn,omitempty"`  // position in its range
	Hash string `json:"hash,omitempty"` // hashed key, upper hex

	// Of a delivery, an end and a lease write.
	Host  string `json:"host,omitempty"`  // one life of a process
	Range string `json:"range,omitempty"` // lease token
	Epoch int64  `json:"epoch,omitempty"`

	Attempt int     `json:"attempt,omitempty"` // of a delivery
	Call    int64   `json:"call,omitempty"`    // of a delivery and an end: the handler call, counted over all hosts
	Verdict Verdict `json:"verdict,omitempty"` // of an end
	Refused []Ref   `json:"refused,omitempty"` // of an end with PartlyFailed or DeadLettered: which changes

	// Of a lease write; of a tamper Op and what it left behind; Op also of host
	// and fault, where it says what happened.
	Op       Op        `json:"op,omitempty"`
	Min      string    `json:"min,omitempty"` // hashed keys, [Min, Max)
	Max      string    `json:"max,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	Position int64     `json:"position,omitempty"` // all changes up to this LSN are acknowledged
	Sent     time.Time `json:"sent,omitzero"`      // when the request left the host

	Bytes int64 `json:"bytes,omitempty"` // that a host holds
}

// Ref names one change.
type Ref struct {
	Key string `json:"key"`
	Seq int64  `json:"seq"`
}

// Verdict is how a handler call ended.
type Verdict string

const (
	Handled      Verdict = "handled"      // every change of the call
	Refusal      Verdict = "refusal"      // none: error or panic
	PartlyFailed Verdict = "partlyFailed" // every change but those refused
	DeadLettered Verdict = "deadLettered" // no handler call: the changes refused are in the dead-letter store
)

// Op is one thing that happens to a lease document or a host.
type Op string

const (
	Create     Op = "create"
	Acquire    Op = "acquire"
	Checkpoint Op = "checkpoint"
	Renew      Op = "renew"
	Release    Op = "release"
	Retire     Op = "retire" // deleted by its owner after a split or merge
	Tombstone  Op = "tombstone"
	Ask        Op = "ask"    // another host asks for the lease
	Marker     Op = "marker" // the leases of the function exist

	Deleted    Op = "deleted"
	Corrupted  Op = "corrupted"
	Restored   Op = "restored"   // an older copy, possibly of a document that was gone
	Duplicated Op = "duplicated" // a second document for one range

	Parked Op = "parked" // of an end with DeadLettered: untried, behind an earlier change of the key

	ClockStep Op = "clock step" // a fault: from here on a host sees another clock of the service

	Started Op = "started"
	Stopped Op = "stopped" // in good order, its leases given back as far as it could
	Killed  Op = "killed"
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

// Read parses a history. A last line without an end is what a killed process
// did not finish writing, and is left out.
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

// Package history judges what a run did from a record of it: which changes
// were written, and which were delivered, where and in which order.
//
// A history is one JSON object a line, in the order in which things happened:
// the writer appends a write once the account has acknowledged it, handlers
// append a delivery before they return. The changes of one key are written one
// after the other and numbered from 1; several may be versions of one
// document. The feed shows a document only in its last version, so an earlier
// version may be missing, never the last.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Kind says what an event records.
type Kind string

const (
	Write    Kind = "write"
	Delivery Kind = "delivery"
)

// Event is one line of a history.
type Event struct {
	Kind Kind   `json:"kind"`
	Key  string `json:"key"` // logical partition key
	Seq  int64  `json:"seq"` // number of the change within its key, from 1
	ID   string `json:"id"`  // document

	// Of a delivery.
	Host    string `json:"host,omitempty"`  // owner that delivered
	Range   string `json:"range,omitempty"` // lease token
	Epoch   int64  `json:"epoch,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	LSN     int64  `json:"lsn,omitempty"`
}

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

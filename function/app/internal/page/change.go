package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/redact"
)

// ChangeState is the state of a change in the life that the page shows.
type ChangeState string

// The states. A change arrives with its first delivery.
const (
	Delivering   ChangeState = "delivering"    // a handler call with it runs
	Failing      ChangeState = "failed"        // the last call failed; another follows
	Handled      ChangeState = "handled"       // the handler accepted it
	DeadLettered ChangeState = "dead-lettered" // it was given up and is in the store
	Postponed    ChangeState = "postponed"     // it is in the store until it is due, or follows such a change
	Blocked      ChangeState = "blocked"       // it was never tried and is in the store, behind an earlier one of its key
)

// Bounds of a change's texts in memory.
const (
	maxAttempts  = 20       // calls that are kept of a change, the newest
	maxErrorText = 4 << 10  // bytes of an error
	maxStackText = 16 << 10 // bytes of a stack
)

// Attempt is one handler call with a change.
type Attempt struct {
	Attempt  int         `json:"attempt"` // as the handler got it, 1 on the first delivery
	Began    time.Time   `json:"began"`
	Millis   float64     `json:"millis"` // until now, if the call still runs
	Host     string      `json:"host,omitempty"`
	Epoch    int64       `json:"epoch,string"`
	Batch    int         `json:"batch"` // changes in the call
	State    ChangeState `json:"state"` // delivering, failed or handled
	Error    string      `json:"error,omitempty"`
	Stack    string      `json:"stack,omitempty"`    // of a panic
	Direct   bool        `json:"direct,omitempty"`   // a viewer asked for the call; it is no delivery of the feed
	Edited   bool        `json:"edited,omitempty"`   // likewise, with another document
	Document string      `json:"document,omitempty"` // the other document
}

// Summary is the row of a change in a list. LSNs are strings, because JavaScript rounds
// large numbers.
type Summary struct {
	ID          string           `json:"id"` // the same for the same change of the same function
	Version     int64            `json:"version,string"`
	Function    string           `json:"function"`
	Range       string           `json:"range"` // lease token
	LSN         int64            `json:"lsn,string"`
	Key         string           `json:"key"` // JSON array
	DocumentID  string           `json:"documentId"`
	Operation   cosmos.Operation `json:"operation"`
	Written     time.Time        `json:"written"` // in whole seconds
	Arrived     time.Time        `json:"arrived"` // first delivery
	State       ChangeState      `json:"state"`
	Since       time.Time        `json:"since"` // of the state
	Attempt     int              `json:"attempt"`
	MaxAttempts int              `json:"maxAttempts"` // 0 is no limit
	Millis      float64          `json:"millis"`      // of the last call
	Error       string           `json:"error,omitempty"`
	Letter      string           `json:"letter,omitempty"` // id of its dead letter, as long as that is stored
}

// Detail is a change with all that is kept of it.
type Detail struct {
	Summary
	Calls     []Attempt `json:"attempts"`
	Forgotten int       `json:"forgotten,omitempty"` // attempts before those
	Hidden    bool      `json:"hidden,omitempty"`    // the document is not kept, or not shown
	image
}

// image is the document of a change or a dead letter as text.
type image struct {
	Document  string `json:"document"` // indented; numbers are as they were written
	Previous  string `json:"previous,omitempty"`
	Size      int    `json:"size"`                // bytes of the document as it was written
	Truncated bool   `json:"truncated,omitempty"` // the text is only the beginning; a download has all of it
}

// maxShown is how many bytes of a document the page shows.
const maxShown = 64 << 10

func imageOf(document, previous json.RawMessage) image {
	text, cut := shownText(document)
	before, cutBefore := shownText(previous)
	return image{Document: text, Previous: before, Size: len(document), Truncated: cut || cutBefore}
}

// shownText indents a document that is short enough to be shown as a whole.
func shownText(document json.RawMessage) (text string, truncated bool) {
	if len(document) > maxShown {
		return strings.ToValidUTF8(string(document[:maxShown]), "\uFFFD"), true
	}
	var indented bytes.Buffer
	if json.Indent(&indented, document, "", "  ") != nil || indented.Len() > maxShown {
		return strings.ToValidUTF8(string(document), "\uFFFD"), false
	}
	return strings.ToValidUTF8(indented.String(), "\uFFFD"), false
}

// entry is a change in the recorder, which guards it.
type entry struct {
	Summary
	change    trigger.Change // a copy
	calls     []Attempt
	forgotten int
	number    int // of all calls
}

// size is the memory of an entry in bytes, more or less.
func (e *entry) size() int {
	const row = 600
	n := row + len(e.change.Document) + len(e.change.Previous) + len(e.Key) + len(e.DocumentID)
	for _, c := range e.calls {
		n += 200 + len(c.Error) + len(c.Stack) + len(c.Document)
	}
	return n
}

// call returns a call that is still kept, or nil.
func (e *entry) call(number int) *Attempt {
	if i := number - e.forgotten; i >= 0 && i < len(e.calls) {
		return &e.calls[i]
	}
	return nil
}

func (e *entry) addCall(a Attempt) (number int) {
	if len(e.calls) == maxAttempts {
		e.calls = append(e.calls[:0:0], e.calls[1:]...)
		e.forgotten++
	}
	e.calls = append(e.calls, a)
	e.number++
	return e.number - 1
}

// detail copies the entry.
func (e *entry) detail(now time.Time) Detail {
	d := Detail{Summary: e.Summary, Calls: append([]Attempt{}, e.calls...), Forgotten: e.forgotten, image: imageOf(e.change.Document, e.change.Previous)}
	for i, c := range d.Calls {
		if c.State == Delivering {
			d.Calls[i].Millis = millis(now.Sub(c.Began))
		}
	}
	return d
}

// idOf identifies a change of a function as the id of its dead letter does: the same
// version of a document is the same change, on every host.
func idOf(function, key, documentID string, c trigger.Change) string {
	h := sha256.New()
	parts := [][]byte{[]byte(function), []byte(key), []byte(documentID), fmt.Append(nil, c.LSN, c.Time.Unix())}
	if c.Operation != cosmos.OperationUpsert { // one transaction may hold several versions of a document
		parts = append(parts, c.Previous, c.Document)
	}
	for _, part := range parts {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		h.Write([]byte{':'})
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cutText shortens a text to so many bytes and removes its secrets. The beginning of a
// secret tells that it is one.
func cutText(text string, limit int) string {
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return redact.Text(text)
}

// firstLine is the beginning of a text for a row of a table.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return cutText(line, 200)
}

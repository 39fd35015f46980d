package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// protocolVersion is that of requests and answers, see docs/handlers/remote.md.
const protocolVersion = 1

// channelVersion is that of a channel, whose requests have their changes in columns.
const channelVersion = 2

// requestHead is one call of the function, without its changes.
type requestHead struct {
	Version     int        `json:"version"`
	Call        int64      `json:"call"` // number of the call in this process
	Function    string     `json:"function"`
	Range       string     `json:"range"`
	Epoch       int64      `json:"epoch"`
	Attempt     int        `json:"attempt"`
	Deadline    *time.Time `json:"deadline,omitempty"`
	Traceparent string     `json:"traceparent,omitempty"`
}

// call is a request in a version of the protocol.
type call struct {
	version int
	number  int64
	batch   trigger.Batch
}

// appendTo appends the call as JSON, with a line break at its end and no other. It tells the
// deadline of its context.
func (c call) appendTo(ctx context.Context, text []byte) ([]byte, error) {
	const (
		headSize   = 512 // enough for most heads
		changeSize = 128 // enough for most changes without their documents
	)
	b := c.batch
	size := headSize
	for i := range b.Changes {
		size += len(b.Changes[i].Document) + len(b.Changes[i].Previous) + changeSize
	}
	head, err := json.Marshal(requestHead{
		Version: c.version, Call: c.number, Function: b.Function, Range: b.Range.ID, Epoch: b.Epoch, Attempt: b.Attempt,
		Deadline: deadlineOf(ctx), Traceparent: handlers.Traceparent(ctx),
	})
	if err != nil {
		return text, fmt.Errorf("encode a call: %w", err)
	}
	text = append(append(slices.Grow(text, size), head[:len(head)-1]...), ',')
	if c.version == channelVersion {
		text, err = appendColumns(text, b.Changes)
	} else {
		text, err = appendRows(text, b.Changes)
	}
	if err != nil {
		return text, fmt.Errorf("encode %d changes: %w", len(b.Changes), err)
	}
	return append(text, "}\n"...), nil
}

// appendRows appends the list of changes. Each has its place in the call, the id and the
// partition key of its document, what the feed says about it, and its documents.
func appendRows(text []byte, changes []trigger.Change) ([]byte, error) {
	return appendList(text, "changes", changes, func(text []byte, i int) ([]byte, error) {
		c := &changes[i]
		text = strconv.AppendInt(append(text, `{"index":`...), int64(i), 10)
		text, idErr := appendString(append(text, `,"id":`...), c.ID())
		text, keyErr := appendLine(append(text, `,"partitionKey":`...), c.PartitionKey())
		text, operationErr := appendString(append(text, `,"operation":`...), string(c.Operation))
		text = strconv.AppendInt(append(text, `,"lsn":`...), c.LSN, 10)
		text = appendTime(append(text, `,"time":`...), c.Time)
		text, documentErr := appendLine(append(text, `,"document":`...), c.Document)
		text, previousErr := appendLine(append(text, `,"previous":`...), c.Previous)
		return append(text, '}'), errors.Join(idErr, keyErr, operationErr, documentErr, previousErr)
	})
}

// appendColumns appends a list for each field of the changes, for which parsers need less
// time. A list that says nothing is left out: that of the ids if they are in the documents,
// that of the operations if all changes are upserts, and that of the previous documents if
// the service has told none.
func appendColumns(text []byte, changes []trigger.Change) ([]byte, error) {
	var idErr error
	if slices.ContainsFunc(changes, func(c trigger.Change) bool { return c.Document == nil || c.ID() == "" }) {
		text, idErr = appendList(text, "ids", changes, func(text []byte, i int) ([]byte, error) {
			return appendString(text, changes[i].ID())
		})
		text = append(text, ',')
	}
	text, keyErr := appendList(text, "partitionKeys", changes, func(text []byte, i int) ([]byte, error) {
		return appendKey(text, changes[i].PartitionKey())
	})
	text, _ = appendList(append(text, ','), "lsns", changes, func(text []byte, i int) ([]byte, error) {
		return strconv.AppendInt(text, changes[i].LSN, 10), nil
	})
	text, _ = appendList(append(text, ','), "times", changes, func(text []byte, i int) ([]byte, error) {
		return appendTime(text, changes[i].Time), nil
	})
	var operationErr, previousErr error
	if slices.ContainsFunc(changes, func(c trigger.Change) bool { return c.Operation != cosmos.OperationUpsert }) {
		text, operationErr = appendList(append(text, ','), "operations", changes, func(text []byte, i int) ([]byte, error) {
			return appendString(text, string(changes[i].Operation))
		})
	}
	if slices.ContainsFunc(changes, func(c trigger.Change) bool { return len(c.Previous) > 0 }) {
		text, previousErr = appendList(append(text, ','), "previous", changes, func(text []byte, i int) ([]byte, error) {
			return appendLine(text, changes[i].Previous)
		})
	}
	text, documentErr := appendList(append(text, ','), "documents", changes, func(text []byte, i int) ([]byte, error) {
		return appendLine(text, changes[i].Document)
	})
	return text, errors.Join(idErr, keyErr, operationErr, previousErr, documentErr)
}

// appendList appends a field whose value is a list with an item for each change.
func appendList(text []byte, name string, changes []trigger.Change, appendItem func(text []byte, i int) ([]byte, error)) ([]byte, error) {
	text = append(append(append(text, '"'), name...), `":[`...)
	var errs []error
	for i := range changes {
		if i > 0 {
			text = append(text, ',')
		}
		var err error
		if text, err = appendItem(text, i); err != nil {
			errs = append(errs, fmt.Errorf("change %d: %w", i, err))
		}
	}
	return append(text, ']'), errors.Join(errs...)
}

func appendTime(text []byte, at time.Time) []byte {
	return append(at.AppendFormat(append(text, '"'), time.RFC3339Nano), '"')
}

// appendKey appends a partition key. If its only value is a string without quotation marks,
// it appends that alone: most keys are such ones, and a list for each costs parsers time.
func appendKey(text []byte, key json.RawMessage) ([]byte, error) {
	if end := len(key) - 2; end > 1 && key[1] == '"' && bytes.IndexByte(key[2:], '"') == end-2 {
		key = key[1 : end+1]
	}
	return appendLine(text, key)
}

// appendString appends a string as JSON.
func appendString(text []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= utf8.RuneSelf || s[i] == '"' || s[i] == '\\' {
			quoted, err := json.Marshal(s)
			return append(text, quoted...), err
		}
	}
	return append(append(append(text, '"'), s...), '"'), nil
}

// appendLine appends a document, null if there is none, without the line breaks that may be
// between its values and without the line separators of Unicode, at which Node.js ends a
// line. A few characters beyond ASCII are escaped: Node.js decodes a request of ASCII in a
// sixth of the time.
func appendLine(text []byte, document json.RawMessage) ([]byte, error) {
	if len(document) == 0 || bytes.IndexByte(document, '\n') >= 0 || bytes.IndexByte(document, '\r') >= 0 {
		line, err := json.Marshal(document)
		return append(text, line...), err
	}
	const sparse = 16 // bytes of the document for each byte of these characters
	if n := countBeyondASCII(document); n > 0 && (n <= len(document)/sparse || bytes.Contains(document, separators)) {
		return appendASCII(text, document), nil
	}
	return append(text, document...), nil
}

// separators begins U+2028 and U+2029 in UTF-8.
var separators = []byte("\xe2\x80")

// beyondASCII has the bit of each byte of a word that is no character of ASCII.
const beyondASCII = 0x8080808080808080

func countBeyondASCII(text []byte) (n int) {
	for ; len(text) >= 8; text = text[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(text) & beyondASCII)
	}
	for _, c := range text {
		n += int(c >> 7)
	}
	return n
}

// appendASCII appends JSON with all characters beyond ASCII escaped.
func appendASCII(text, document []byte) []byte {
	for {
		n := lenASCII(document)
		text, document = append(text, document[:n]...), document[n:]
		if len(document) == 0 {
			return text
		}
		r, size := utf8.DecodeRune(document)
		document = document[size:]
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			text = fmt.Appendf(text, `\u%04x\u%04x`, high, low)
		} else {
			text = fmt.Appendf(text, `\u%04x`, r)
		}
	}
}

// lenASCII returns the number of bytes before the first character beyond ASCII.
func lenASCII(text []byte) int {
	i := 0
	for ; len(text)-i >= 8; i += 8 {
		if found := binary.LittleEndian.Uint64(text[i:]) & beyondASCII; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && text[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// deadlineOf returns the deadline of a context as calls tell it, nil if it has none.
func deadlineOf(ctx context.Context) *time.Time {
	deadline, isSet := ctx.Deadline()
	if !isSet {
		return nil
	}
	deadline = deadline.UTC().Truncate(time.Millisecond)
	return &deadline
}

// answer is the function's. An empty one says that all changes are handled.
type answer struct {
	Call int64 `json:"call"` // that of the request; 0 if the answer does not say
	failure
	FailedFrom *int           `json:"failedFrom"` // index of the first change that failed; without an error, nil
	Results    []result       `json:"results"`
	Failures   []batchFailure `json:"batchItemFailures"` // as of AWS Lambda
}

// failure says how a batch, or a change, failed. Of an answer, no error means that the
// results say it.
type failure struct {
	Status     string  `json:"status"`
	Error      string  `json:"error"`
	RetryAfter float64 `json:"retryAfter"` // seconds for which changes with retry are postponed
}

// result is the verdict on one change, named by its index or its document's id.
type result struct {
	Index *int   `json:"index"`
	ID    string `json:"id"`
	failure
}

type batchFailure struct {
	ID string `json:"itemIdentifier"` // of the document
}

// Statuses of a result.
const (
	statusOK    = "ok"
	statusRetry = "retry"
	statusSkip  = "skip"
)

// maxShown is the number of bytes of an answer or an error that messages show: an error
// may have the traceback of the function.
const maxShown = 2 << 10

// errMalformed marks an answer that is not one of the protocol. It is one for the whole
// batch.
var errMalformed = errors.New("the answer is malformed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
}

// judge returns the verdict of an answer on a batch, as the error of the handler call.
func judge(b trigger.Batch, a answer) error {
	if a.Error != "" {
		return a.judgeBatch(b)
	}
	if a.Status != "" || a.RetryAfter != 0 || a.FailedFrom != nil {
		return malformed("status, retryAfter and failedFrom of the answer need an error")
	}
	results := a.Results
	for _, f := range a.Failures {
		results = append(results, result{ID: f.ID, failure: failure{Status: statusRetry, Error: "in batchItemFailures"}})
	}
	return judgeResults(b, results)
}

// judgeBatch returns the verdict of an answer whose error is of the whole batch, or of all
// changes from one on.
func (a answer) judgeBatch(b trigger.Batch) error {
	err := fmt.Errorf("the function failed: %s", shorten(a.Error))
	if a.FailedFrom != nil {
		first := *a.FailedFrom
		if first < 0 || first >= len(b.Changes) {
			return malformed("failedFrom is %d, and the batch has %d changes", first, len(b.Changes))
		}
		err = trigger.FailedFrom(err, b.Changes[first])
	}
	if a.Status == "" {
		a.Status = statusRetry
	}
	verdict, problem := a.verdict(err)
	if problem != nil || verdict == nil {
		return malformed("the answer has an error, and %s", cmp.Or(problem, fmt.Errorf("status %q", a.Status)))
	}
	return verdict
}

// verdict returns the meaning of an error of the function, nil if the status is ok. A
// problem is a failure that the protocol does not know.
func (f failure) verdict(err error) (verdict, problem error) {
	switch {
	case f.RetryAfter != 0 && (f.Status != statusRetry || f.RetryAfter < 0):
		return nil, fmt.Errorf("retryAfter %v with status %q: send seconds above 0 with %s", f.RetryAfter, shorten(f.Status), statusRetry)
	case f.Status == statusOK:
		return nil, nil
	case f.Status == statusRetry:
		return trigger.RetryAfter(err, time.Duration(min(f.RetryAfter, maxRetryAfter.Seconds())*float64(time.Second))), nil
	case f.Status == statusSkip:
		return trigger.Skip(err), nil
	}
	return nil, fmt.Errorf("status %q, not %s, %s or %s", shorten(f.Status), statusOK, statusRetry, statusSkip)
}

// maxRetryAfter keeps seconds in the bounds of a duration; [trigger.RetryAfter] has a
// smaller bound.
const maxRetryAfter = 365 * 24 * time.Hour

// decodeAnswer refuses unknown names, because an answer with a misspelt name would
// acknowledge changes that were not handled.
func decodeAnswer(number int64, text []byte) (a answer, err error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return answer{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		return answer{}, malformed("%w: %s", err, shorten(string(text)))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return answer{}, malformed("more than one JSON value: %s", shorten(string(text)))
	}
	if a.Call != 0 && a.Call != number {
		return answer{}, malformed("it is for call %d, and this is call %d", a.Call, number)
	}
	return a, nil
}

func judgeResults(b trigger.Batch, results []result) error {
	statuses := make([]string, len(b.Changes))
	var parts []error
	for i, r := range results {
		index, err := r.change(b)
		if err != nil {
			return malformed("result %d %w", i, err)
		}
		if statuses[index] != "" {
			return malformed("result %d is the second one for change %d", i, index)
		}
		statuses[index] = r.Status
		failed := trigger.Failed(fmt.Errorf("the function failed on document %q: %s", b.Changes[index].ID(), shorten(r.Error)), b.Changes[index])
		verdict, problem := r.verdict(failed)
		if problem != nil {
			return malformed("result %d has %w", i, problem)
		}
		if verdict != nil {
			parts = append(parts, verdict)
		}
	}
	return errors.Join(parts...)
}

// change returns the index of the change that a result names.
func (r result) change(b trigger.Batch) (int, error) {
	switch {
	case r.Index != nil && r.ID != "":
		return 0, errors.New("names a change by index and by id: send one of them")
	case r.Index != nil && (*r.Index < 0 || *r.Index >= len(b.Changes)):
		return 0, fmt.Errorf("has index %d, and the batch has %d changes", *r.Index, len(b.Changes))
	case r.Index != nil:
		return *r.Index, nil
	case r.ID == "":
		return 0, errors.New("names no change: send its index or its id")
	}
	found := -1
	for i, c := range b.Changes {
		if c.ID() != r.ID {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("has id %q, and changes %d and %d have it: send the index", shorten(r.ID), found, i)
		}
		found = i
	}
	if found < 0 {
		return 0, fmt.Errorf("has id %q, and no change of the batch has it", shorten(r.ID))
	}
	return found, nil
}

// shorten returns the beginning of a text of the function.
func shorten(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}

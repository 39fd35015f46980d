package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"halley/trigger"
)

// protocolVersion is that of requests and answers, see docs/handlers/remote.md.
const protocolVersion = 1

// request is one call of the function. Its JSON text has no line breaks.
type request struct {
	Version  int             `json:"version"`
	Call     int64           `json:"call"` // number of the call in this process
	Function string          `json:"function"`
	Range    string          `json:"range"`
	Epoch    int64           `json:"epoch"`
	Attempt  int             `json:"attempt"`
	Changes  []requestChange `json:"changes"`
}

type requestChange struct {
	Index        int             `json:"index"`
	ID           string          `json:"id"` // of the document
	PartitionKey json.RawMessage `json:"partitionKey"`
	Operation    string          `json:"operation"`
	LSN          int64           `json:"lsn"`
	Time         time.Time       `json:"time"`
	Document     json.RawMessage `json:"document"`
	Previous     json.RawMessage `json:"previous"`
}

// call is a request as a transport sends it.
type call struct {
	number int64
	text   []byte // JSON, with a line break at its end and no other
}

// newCall encodes a batch.
func newCall(number int64, b trigger.Batch) (call, error) {
	r := request{
		Version: protocolVersion, Call: number, Function: b.Function, Range: b.Range.ID, Epoch: b.Epoch, Attempt: b.Attempt,
		Changes: make([]requestChange, len(b.Changes)),
	}
	for i, c := range b.Changes {
		r.Changes[i] = requestChange{
			Index: i, ID: c.ID(), PartitionKey: c.PartitionKey(), Operation: string(c.Operation),
			LSN: c.LSN, Time: c.Time, Document: c.Document, Previous: c.Previous,
		}
	}
	text, err := json.Marshal(r) // it escapes the line separators of Unicode, at which Node.js ends a line
	if err != nil {
		return call{}, fmt.Errorf("encode %d changes: %w", len(b.Changes), err)
	}
	return call{number: number, text: append(text, '\n')}, nil
}

// answer is the function's. An empty one says that all changes are handled.
type answer struct {
	Call     int64          `json:"call"`  // that of the request; 0 if the answer does not say
	Error    string         `json:"error"` // the whole batch failed
	Results  []result       `json:"results"`
	Failures []batchFailure `json:"batchItemFailures"` // as of AWS Lambda
}

// result is the verdict on one change, named by its index or its document's id.
type result struct {
	Index  *int   `json:"index"`
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  string `json:"error"`
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

// maxShown is the number of bytes of an answer or an error that messages show.
const maxShown = 512

// errMalformed marks an answer that is not one of the protocol. It is one for the whole
// batch.
var errMalformed = errors.New("the answer is malformed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
}

// judge returns the verdict of an answer on a batch, as the error of the handler call.
func judge(b trigger.Batch, a answer) error {
	if a.Error != "" {
		return fmt.Errorf("the function failed: %s", shorten(a.Error))
	}
	results := a.Results
	for _, f := range a.Failures {
		results = append(results, result{ID: f.ID, Status: statusRetry, Error: "in batchItemFailures"})
	}
	return judgeResults(b, results)
}

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
		switch r.Status {
		case statusOK:
		case statusRetry:
			parts = append(parts, failed)
		case statusSkip:
			parts = append(parts, trigger.Skip(failed))
		default:
			return malformed("result %d has status %q, not %s, %s or %s", i, shorten(r.Status), statusOK, statusRetry, statusSkip)
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

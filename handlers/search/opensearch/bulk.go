package opensearch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"halley/handlers/position"
	"halley/handlers/search"
	"halley/trigger"
)

// operation is one operation of a bulk request.
type operation struct {
	change trigger.Change
	kind   string // index or delete
	lines  []byte // its lines in the request
}

// action is the first line of an operation, in the form of
// https://docs.opensearch.org/latest/api-reference/document-apis/bulk/
type action struct {
	ID          string `json:"_id"`
	Version     int64  `json:"version"`
	VersionType string `json:"version_type"`
}

// longestID is the limit of OpenSearch, in bytes.
const longestID = 512

// indexID returns the id of a document in the index.
func indexID(c trigger.Change) string {
	id := search.DocumentKey(c)
	if len(id) > longestID {
		sum := sha256.Sum256([]byte(id))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return id
}

// operationOf returns the operation of a change. An error means that the document can
// never be indexed.
func (x *Index) operationOf(b trigger.Batch, c trigger.Change) (operation, error) {
	o := operation{change: c, kind: "index"}
	if search.Deleted(c) {
		o.kind = "delete"
	}
	// A version must be above 0, which only a change made by hand may lack.
	first, err := json.Marshal(map[string]action{o.kind: {indexID(c), max(position.Of(b, c).Version(), 1), "external_gte"}})
	if err != nil {
		return o, err
	}
	o.lines = append(first, '\n')
	if o.kind == "delete" {
		return o, nil
	}
	content, err := search.Content(c.Document, x.settings.Fields)
	if err != nil {
		return o, err
	}
	if err := x.addMetadata(content, c); err != nil {
		return o, err
	}
	second, err := json.Marshal(content) // on one line
	o.lines = append(append(o.lines, second...), '\n')
	return o, err
}

// Handle is the handler: it writes a batch to the index.
func (x *Index) Handle(ctx context.Context, b trigger.Batch) error {
	v := &verdicts{}
	var operations []operation
	if b.Changes[0].Generation() > 0 {
		if err := x.putMapping(ctx); err != nil {
			return err
		}
	}
	for _, c := range b.Changes {
		o, err := x.operationOf(b, c)
		if err != nil {
			v.refuse(c, err)
			continue
		}
		operations = append(operations, o)
	}
	for len(operations) > 0 {
		n := x.requestSize(operations)
		if err := x.send(ctx, operations[:n], v); err != nil {
			return err
		}
		operations = operations[n:]
	}
	return v.err(len(b.Changes))
}

// requestSize returns how many operations the next request has: at least one.
func (x *Index) requestSize(operations []operation) int {
	bytes := 0
	for i, o := range operations {
		if bytes += len(o.lines); bytes > int(x.settings.BulkBytes) && i > 0 {
			return i
		}
	}
	return len(operations)
}

// send sends one bulk request and judges its operations. An error is one of the whole
// request.
func (x *Index) send(ctx context.Context, operations []operation, v *verdicts) error {
	var body bytes.Buffer
	for _, o := range operations {
		body.Write(o.lines)
	}
	var answer bulkAnswer
	status, err := x.request(ctx, http.MethodPost, "/"+x.settings.Index+"/_bulk", "application/x-ndjson", body.Bytes(), &answer)
	if status == http.StatusRequestEntityTooLarge && len(operations) == 1 {
		v.refuse(operations[0].change, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("index %d changes: %w", len(operations), err)
	}
	if len(answer.Items) != len(operations) {
		return fmt.Errorf("index %d changes: the answer has %d items", len(operations), len(answer.Items))
	}
	written := 0
	for i, o := range operations {
		result, ok := answer.Items[i][o.kind]
		if !ok {
			return fmt.Errorf("index %d changes: item %d of the answer is not of the operation %s", len(operations), i, o.kind)
		}
		if v.judge(o, result) {
			written++
		}
	}
	x.meter.Wrote(written)
	return nil
}

// bulkAnswer is the answer to a bulk request: an item for each operation, in order.
type bulkAnswer struct {
	Items []map[string]bulkResult `json:"items"`
}

type bulkResult struct {
	Status int        `json:"status"`
	Error  *bulkError `json:"error"`
}

type bulkError struct {
	Type   string     `json:"type"`
	Reason string     `json:"reason"`
	Cause  *bulkError `json:"caused_by"`
}

func (r bulkResult) err() error {
	text := fmt.Sprintf("status %d", r.Status)
	for e := r.Error; e != nil; e = e.Cause {
		text += fmt.Sprintf(": %s: %.300s", e.Type, e.Reason)
	}
	return errors.New(text)
}

// verdicts collects the changes of a batch that are not handled.
type verdicts struct {
	failed, refused []error
	first           error // of those that failed
}

// judge maps the status of an operation, and reports whether the index has taken it.
func (v *verdicts) judge(o operation, r bulkResult) (written bool) {
	switch {
	case r.Status >= 200 && r.Status < 300:
		return true
	case r.Status == http.StatusConflict:
	case r.Status == http.StatusNotFound && o.kind == "delete" && r.Error == nil:
	case r.Status == http.StatusBadRequest:
		v.refuse(o.change, fmt.Errorf("the index refuses the document: %w", r.err()))
	default:
		err := r.err()
		v.failed = append(v.failed, trigger.Failed(err, o.change))
		if v.first == nil {
			v.first = err
		}
	}
	return false
}

func (v *verdicts) refuse(c trigger.Change, err error) {
	v.refused = append(v.refused, trigger.Failed(err, c))
}

// err returns the verdict on a batch of n changes. If all changes fail, the cluster
// probably cannot be used. Refused changes wait for those that failed: a verdict is final
// for all of its changes or for none.
func (v *verdicts) err(n int) error {
	switch {
	case len(v.failed) == n:
		return fmt.Errorf("index %d changes: %w", n, v.first)
	case len(v.failed) > 0:
		return errors.Join(append(v.failed, v.refused...)...)
	case len(v.refused) > 0:
		return trigger.Skip(errors.Join(v.refused...))
	}
	return nil
}

package emulator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"halley/trigger/emulator/epk"
)

// maxOperations is the service's limit on one batch.
const maxOperations = 100

// batchOperation is one element of a transactional batch.
type batchOperation struct {
	Type        string          `json:"operationType"`
	ID          string          `json:"id"`
	IfMatch     string          `json:"ifMatch"`
	IfNoneMatch string          `json:"ifNoneMatch"`
	Key         string          `json:"partitionKey"` // of a bulk operation, as in the header
	Body        json.RawMessage `json:"resourceBody"`
	draft       draft
	invalid     error // not nil if the draft cannot be stored
}

// batchResult is one element of its answer.
type batchResult struct {
	StatusCode    int             `json:"statusCode"`
	SubStatusCode int             `json:"subStatusCode,omitempty"`
	RequestCharge float64         `json:"requestCharge"`
	RetryAfter    int64           `json:"retryAfterMilliseconds,omitempty"`
	ETag          string          `json:"eTag,omitempty"`
	Body          json.RawMessage `json:"resourceBody,omitempty"`
}

// batch carries out all operations or none. If one fails, the answer is 207: it
// has its own status and the others 424. Its substatus is in the header of the answer and
// not in the result (recorded answers of a hosted account, October 2026).
func (c *call) batch() (*response, error) {
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	operations, err := c.batchOperations(o)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(c.header.Get("X-Ms-Cosmos-Batch-Atomic"), "false") {
		return c.bulk(o, operations)
	}
	key, err := o.wholeKey(c.header.Get("X-Ms-Documentdb-Partitionkey"))
	if err != nil {
		return nil, c.refuse(o, err)
	}
	return c.locked(o, func() (*response, error) {
		t, err := c.begin(o, key)
		if err != nil {
			return nil, err
		}
		outcomes, failed := t.run(c.ctx, operations)
		if failed != nil && errors.Is(failed, context.Cause(c.ctx)) {
			return nil, failed
		}
		if failed != nil {
			return c.batchFailure(t, len(operations), len(outcomes), failed), nil
		}
		t.commit()
		return c.batchResponse(t, outcomes), nil
	})
}

func (c *call) batchOperations(o *container) ([]batchOperation, error) {
	operations, err := decodeOperations(c.body)
	if err != nil {
		return nil, err
	}
	for i := range operations {
		operations[i].parse(o.keyDefinition)
	}
	return operations, nil
}

// decodeOperations stops at the limit: an operation takes more memory than its text.
func decodeOperations(body []byte) ([]batchOperation, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if len(body) > 0 && body[0] >= utf8.RuneSelf {
		return nil, unsupported("A batch in the binary format of HybridRow", "send JSON")
	}
	if first, err := decoder.Token(); err != nil || first != json.Delim('[') {
		return nil, badRequest("The batch is not a JSON array of operations.")
	}
	var operations []batchOperation
	for decoder.More() {
		if len(operations) == maxOperations {
			return nil, badRequest("The batch has more than %d operations; send 1 to %d.", maxOperations, maxOperations)
		}
		var next batchOperation
		if err := decoder.Decode(&next); err != nil {
			return nil, badRequest("The batch is not a JSON array of operations: %v.", err)
		}
		operations = append(operations, next)
	}
	if _, err := decoder.Token(); err != nil || decoder.More() {
		return nil, badRequest("The batch is not a JSON array of operations.")
	}
	if len(operations) == 0 {
		return nil, badRequest("The batch has no operations; send 1 to %d.", maxOperations)
	}
	return operations, nil
}

// parse reads the document of an operation that has one.
func (b *batchOperation) parse(definition epk.Definition) {
	switch b.Type {
	case "Create", "Upsert", "Replace":
		b.draft, b.invalid = parseDraft(b.Body, definition)
	}
}

// run stages operations until one fails or ctx ends.
func (t *transaction) run(ctx context.Context, operations []batchOperation) (outcomes []outcome, err error) {
	for i := range operations {
		if err := context.Cause(ctx); err != nil {
			return outcomes, err
		}
		out, err := t.perform(&operations[i])
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, nil
}

func (t *transaction) perform(b *batchOperation) (outcome, error) {
	if b.invalid != nil {
		return outcome{}, b.invalid
	}
	switch b.Type {
	case "Create":
		return t.create(b.draft)
	case "Upsert":
		return t.upsert(b.draft, b.IfMatch)
	case "Replace":
		return t.replace(b.ID, b.draft, b.IfMatch)
	case "Read":
		return t.read(b.ID, b.IfNoneMatch)
	case "Delete":
		return t.delete(b.ID, b.IfMatch)
	case "Patch":
		return t.patch(b.ID, b.Body, b.IfMatch)
	}
	return outcome{}, badRequest("The operationType %q is not supported; use Create, Upsert, Replace, Read, Delete or Patch.", b.Type)
}

func (c *call) batchResponse(t *transaction, outcomes []outcome) *response {
	results, units := make([]batchResult, len(outcomes)), 0.0
	for i, out := range outcomes {
		results[i] = c.batchResult(out)
		units += out.units
	}
	return c.finishBatch(t.container, t.partition, http.StatusOK, results, units)
}

func (c *call) batchResult(out outcome) batchResult {
	result := batchResult{StatusCode: out.status, RequestCharge: out.units}
	if out.document == nil {
		return result
	}
	result.ETag = out.document.etag()
	if out.status != http.StatusNotModified && (out.read || !c.minimal()) {
		result.Body = out.document.body
	}
	return result
}

// batchFailure answers a batch if the operation at index culprit failed.
func (c *call) batchFailure(t *transaction, operations, culprit int, err error) *response {
	results := make([]batchResult, operations)
	for i := range results {
		results[i].StatusCode = http.StatusFailedDependency
	}
	results[culprit] = failedResult(err)
	substatus := results[culprit].SubStatusCode
	results[culprit].SubStatusCode = 0
	r := c.finishBatch(t.container, t.partition, http.StatusMultiStatus, results, failedUnits)
	if substatus != 0 {
		r.set("x-ms-substatus", strconv.Itoa(substatus))
	}
	return r
}

func failedResult(err error) batchResult {
	f := asFailure(err)
	return batchResult{StatusCode: f.status, SubStatusCode: f.substatus, RequestCharge: failedUnits, RetryAfter: milliseconds(f.retryAfter)}
}

func (c *call) finishBatch(o *container, p *partition, status int, results []batchResult, units float64) *response {
	p.budget.spend(units)
	r := reply(status, encode(results)).charge(units)
	r.set("x-ms-item-count", strconv.Itoa(len(results)))
	o.name(r)
	r.stamp(p.replica(), status == http.StatusOK)
	return r
}

// bulk carries out independent operations, each with the partition key that it or the
// header names. The SDKs' bulk modes send operations of several keys to one range, which
// they name; a request without a range has one key. The answer is 207 if any operation
// failed. If the client does not want to continue after a failure, the operations
// after it have 424. Each operation is a transaction of its own; dice decide whether it
// shares the LSN of the one before it.
func (c *call) bulk(o *container, operations []batchOperation) (*response, error) {
	results, units, status := make([]batchResult, len(operations)), 0.0, http.StatusOK
	continueOnError := strings.EqualFold(c.header.Get("X-Ms-Cosmos-Batch-Continue-On-Error"), "true")
	return c.locked(o, func() (*response, error) {
		p, err := c.bulkPartition(o)
		if err != nil {
			return nil, err
		}
		if !o.takesWrites(p) {
			return nil, writeForbidden()
		}
		dice := newBulkDice(o, p)
		for i := range operations {
			if status != http.StatusOK && !continueOnError {
				results[i].StatusCode = http.StatusFailedDependency
				continue
			}
			if err := context.Cause(c.ctx); err != nil {
				return nil, err
			}
			out, err := c.bulkOperation(o, p, &operations[i], dice.joins(p))
			if results[i] = c.batchResult(out); err != nil {
				results[i], status = failedResult(err), http.StatusMultiStatus
			}
			units += results[i].RequestCharge
		}
		return c.finishBatch(o, p, status, results, units), nil
	})
}

// bulkPartition returns the range that a bulk request names, or that of its key.
func (c *call) bulkPartition(o *container) (*partition, error) {
	if id := c.header.Get("X-Ms-Documentdb-Partitionkeyrangeid"); id != "" {
		return o.partition(id)
	}
	key, err := o.wholeKey(c.header.Get("X-Ms-Documentdb-Partitionkey"))
	if err != nil {
		return nil, err
	}
	return o.locate(o.keyDefinition.Hash(key)), nil
}

// bulkOperation is a transaction of its own. If it joins the one before it, it has the
// same LSN.
func (c *call) bulkOperation(o *container, p *partition, b *batchOperation, joins bool) (outcome, error) {
	key, err := o.wholeKey(cmp.Or(b.Key, c.header.Get("X-Ms-Documentdb-Partitionkey")))
	if err != nil {
		return outcome{}, err
	}
	t, err := c.begin(o, key)
	if err != nil {
		return outcome{}, err
	}
	if t.partition != p {
		return outcome{}, rangeGone(p.ID)
	}
	t.joins = joins
	out, err := t.perform(b)
	if err == nil {
		t.commit()
	}
	return out, err
}

// bulkDice decide which operations of a bulk request share an LSN. The service gave two
// writes of one request one LSN in a recorded exchange (hosted account, October 2026), as
// they do here without a seed, and documents neither that it always does so nor that it
// never does.
type bulkDice struct {
	draws *rand.Rand
	odds  float64 // that an operation shares the LSN of the one before it
	first int64   // LSN of the range before the request
}

// newBulkDice draws for one request in three that all operations share an LSN, for one
// that none do, and for one that some do. What it draws depends on the seed and on the
// place of the request in its range.
func newBulkDice(o *container, p *partition) *bulkDice {
	seed := o.platform.options.BulkSeed
	if seed == 0 {
		return &bulkDice{draws: rand.New(rand.NewPCG(0, 0)), odds: 1, first: p.lsn}
	}
	h := fnv.New64a()
	fmt.Fprint(h, o.database.Name, "/", o.Name, "/", p.ID, "/", p.lsn)
	draws := rand.New(rand.NewPCG(seed, h.Sum64()))
	return &bulkDice{draws: draws, odds: float64(draws.IntN(3)) / 2, first: p.lsn}
}

// joins reports whether the next operation shares the LSN of the one before it. The first
// one that commits has an LSN of its own.
func (d *bulkDice) joins(p *partition) bool { return d.draws.Float64() < d.odds && p.lsn > d.first }

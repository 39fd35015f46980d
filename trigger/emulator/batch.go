package emulator

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"halley/trigger/emulator/patch"
)

// maxOperations is the service's limit on one batch.
const maxOperations = 100

// batchOperation is one element of a transactional batch.
type batchOperation struct {
	Type        string          `json:"operationType"`
	ID          string          `json:"id"`
	IfMatch     string          `json:"ifMatch"`
	IfNoneMatch string          `json:"ifNoneMatch"`
	Body        json.RawMessage `json:"resourceBody"`
	draft       draft
	invalid     error // what is wrong with the draft
}

// batchResult is one element of its answer.
type batchResult struct {
	StatusCode    int             `json:"statusCode"`
	SubStatusCode int             `json:"subStatusCode,omitempty"`
	RequestCharge float64         `json:"requestCharge"`
	ETag          string          `json:"eTag,omitempty"`
	Body          json.RawMessage `json:"resourceBody,omitempty"`
}

// batch carries out all operations or none. If one fails, the answer is 207: it
// has its own status and the others 424.
func (c *call) batch() (*response, error) {
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	operations, err := c.batchOperations(o)
	if err != nil {
		return nil, err
	}
	key, err := c.partitionKey(o)
	if err != nil {
		return nil, err
	}
	return c.locked(o, func() (*response, error) {
		t, err := o.begin(key, c.now)
		if err != nil {
			return nil, err
		}
		outcomes, failed := t.run(operations)
		if failed != nil {
			return c.batchFailure(t, len(operations), len(outcomes), failed)
		}
		t.commit()
		return c.batchResponse(t, outcomes)
	})
}

func (c *call) batchOperations(o *container) ([]batchOperation, error) {
	if strings.EqualFold(c.header.Get("X-Ms-Cosmos-Batch-Atomic"), "false") {
		return nil, badRequest("Only atomic batches are supported: send x-ms-cosmos-batch-atomic: true.")
	}
	var operations []batchOperation
	if err := json.Unmarshal(c.body, &operations); err != nil {
		return nil, badRequest("The batch is not a JSON array of operations: %v.", err)
	}
	if n := len(operations); n == 0 || n > maxOperations {
		return nil, badRequest("The batch has %d operations; send 1 to %d.", n, maxOperations)
	}
	for i := range operations {
		operations[i].parse(o)
	}
	return operations, nil
}

// parse reads the document of an operation that has one.
func (b *batchOperation) parse(o *container) {
	switch b.Type {
	case "Create", "Upsert", "Replace":
		b.draft, b.invalid = parseDraft(b.Body, o.keyDefinition)
	}
}

// run stages operations until one fails.
func (t *transaction) run(operations []batchOperation) (outcomes []outcome, err error) {
	for i := range operations {
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

func (c *call) batchResponse(t *transaction, outcomes []outcome) (*response, error) {
	results, units := make([]batchResult, len(outcomes)), 0.0
	for i, out := range outcomes {
		results[i] = c.batchResult(out)
		units += out.units
	}
	return c.finishBatch(t, http.StatusOK, results, units)
}

func (c *call) batchResult(out outcome) batchResult {
	result := batchResult{StatusCode: out.status, RequestCharge: out.units}
	if out.document == nil {
		return result
	}
	result.ETag = out.document.etag
	if out.status != http.StatusNotModified && (out.read || !c.minimal()) {
		result.Body = out.document.body
	}
	return result
}

// batchFailure tells that the operation at index culprit failed.
func (c *call) batchFailure(t *transaction, operations, culprit int, err error) (*response, error) {
	var f *failure
	if !errors.As(err, &f) {
		return nil, err
	}
	results := make([]batchResult, operations)
	for i := range results {
		results[i].StatusCode = http.StatusFailedDependency
	}
	results[culprit] = batchResult{StatusCode: f.status, SubStatusCode: f.substatus, RequestCharge: readUnits}
	return c.finishBatch(t, http.StatusMultiStatus, results, readUnits)
}

func (c *call) finishBatch(t *transaction, status int, results []batchResult, units float64) (*response, error) {
	body, err := json.Marshal(results)
	if err != nil {
		return nil, err
	}
	t.partition.budget.spend(units)
	r := reply(status, body).charge(units)
	t.container.name(r)
	t.partition.stamp(r)
	return r, nil
}

// patch changes parts of a document.
func (t *transaction) patch(id string, body []byte, ifMatch string) (outcome, error) {
	old, err := t.match(id, ifMatch)
	if err != nil {
		return outcome{}, err
	}
	request, err := patch.Parse(body)
	if err != nil {
		return outcome{}, badRequest("%v", err)
	}
	if err := meets(request.Condition, old, t.now); err != nil {
		return outcome{}, err
	}
	text, err := request.Apply(old.body)
	if err != nil {
		return outcome{}, badRequest("%v", err)
	}
	d, err := parseDraft(text, t.container.keyDefinition)
	if err != nil {
		return outcome{}, err
	}
	return t.replace(id, d, "")
}

// meets fails unless doc is what a patch is conditional on.
func meets(condition string, doc *document, now time.Time) error {
	if condition == "" {
		return nil
	}
	ok, err := matches(condition, doc.body, now)
	if err != nil {
		return err
	}
	if !ok {
		return fail(http.StatusPreconditionFailed, subConditionFailed, "The document does not meet the condition %q.", condition)
	}
	return nil
}

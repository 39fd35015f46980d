package cosmos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// MaxTransaction is how many writes a [Transaction] may have. The service also bounds its
// body by 2 MB.
const MaxTransaction = 100

// Transaction collects writes to documents of one logical partition, of which all are
// applied or none: see [Container.Commit]. The zero value is empty. A document is as for
// [Container.Create].
type Transaction struct {
	writes []transactionWrite
	size   int
	err    error // of the first document that cannot be sent
}

// transactionWrite is an operation in the body of a transactional batch.
type transactionWrite struct {
	Type    string          `json:"operationType"`
	ID      string          `json:"id,omitempty"`
	IfMatch azcore.ETag     `json:"ifMatch,omitempty"`
	Body    json.RawMessage `json:"resourceBody,omitempty"`
}

// Create creates a document. If it exists, the transaction fails with a conflict.
func (t *Transaction) Create(doc any) { t.add(transactionWrite{Type: "Create"}, doc) }

// Upsert creates or replaces a document.
func (t *Transaction) Upsert(doc any) { t.add(transactionWrite{Type: "Upsert"}, doc) }

// Replace replaces a document. If ifMatch is not empty and the document has another etag,
// the transaction fails.
func (t *Transaction) Replace(id string, doc any, ifMatch azcore.ETag) {
	t.add(transactionWrite{Type: "Replace", ID: id, IfMatch: ifMatch}, doc)
}

// Delete deletes a document. If it does not exist, or if ifMatch is not empty and the
// document has another etag, the transaction fails.
func (t *Transaction) Delete(id string, ifMatch azcore.ETag) {
	t.writes = append(t.writes, transactionWrite{Type: "Delete", ID: id, IfMatch: ifMatch})
}

func (t *Transaction) add(w transactionWrite, doc any) {
	body, err := marshal(doc)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("document of write %d: %w", len(t.writes)+1, err)
	}
	w.Body = body
	t.writes = append(t.writes, w)
	t.size += len(body)
}

// Len is the number of writes.
func (t *Transaction) Len() int { return len(t.writes) }

// Size is the number of bytes of the documents.
func (t *Transaction) Size() int { return t.size }

// transactionResult is the answer to one write. The service states the substatus of a
// failure in the header of the answer and not here (recorded answers of a hosted account,
// October 2026); an SDK reads it here.
type transactionResult struct {
	Status     int     `json:"statusCode"`
	SubStatus  int     `json:"subStatusCode"`
	RetryAfter float64 `json:"retryAfterMilliseconds"`
}

// Commit applies the writes of a transaction to the documents of a partition key, all or
// none. If one of them fails, the error holds an [Error] with its status, and
// [IsConflict], [IsPreconditionFailed] and [IsDocumentNotFound] tell why, as for single
// writes.
func (c *Container) Commit(ctx context.Context, pk PartitionKey, t *Transaction) (Response, error) {
	op := &operation{
		name: "commit transaction", parent: c.link, link: c.link,
		method: http.MethodPost, path: c.path + "/docs", write: true,
		header: newHeader(),
	}
	for _, name := range []string{headerIsBatch, headerBatchAtomic, headerBatchOrdered} {
		op.header.Set(name, "true")
	}
	if t.err != nil {
		return Response{}, fmt.Errorf("%s: %w", op, t.err)
	}
	if len(t.writes) == 0 || len(t.writes) > MaxTransaction {
		return Response{}, fmt.Errorf("%s: it has %d writes: 1 to %d are possible", op, len(t.writes), MaxTransaction)
	}
	var err error
	if op.body, err = json.Marshal(t.writes); err != nil {
		return Response{}, fmt.Errorf("%s: %w", op, err)
	}
	resp, err := c.doDocument(ctx, op, pk)
	if err != nil {
		return Response{}, err
	}
	resp.Body, resp.ETag = nil, ""
	var results []transactionResult
	if err := op.decode(&results); err != nil {
		return Response{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return resp, t.failure(op, resp, results)
}

// failure returns the error of the write that failed, or nil.
func (t *Transaction) failure(op *operation, resp Response, results []transactionResult) error {
	for i, r := range results {
		if r.Status >= 400 && r.Status != http.StatusFailedDependency && i < len(t.writes) {
			return &Error{
				Op:     fmt.Sprintf("%s, write %d of %d (%s %s)", op, i+1, len(t.writes), t.writes[i].Type, t.writes[i].ID),
				Status: r.Status, SubStatus: cmp.Or(r.SubStatus, op.subStatus), ActivityID: resp.ActivityID, RetryAfter: milliseconds(r.RetryAfter), owner: op.parent,
			}
		}
	}
	if len(results) != len(t.writes) {
		return fmt.Errorf("%w: %s: the answer has %d results for %d writes", ErrOutcomeUnknown, op, len(results), len(t.writes))
	}
	return nil
}

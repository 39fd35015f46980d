package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Response is the answer to an operation on one document.
type Response struct {
	ETag         azcore.ETag     // of the current version; empty after a delete
	SessionToken string          // of the physical range, for [FeedRequest].SessionToken
	Date         time.Time       // the service's, in whole seconds
	Charge       float64         // request units
	ActivityID   string          // to quote to Azure support
	Body         json.RawMessage // the document, after a read; empty after a write
}

// Create creates a document. If the document exists, [IsConflict] holds for the
// error. doc is sent as it is if it is a []byte or a [json.RawMessage],
// otherwise as JSON.
func (c *Container) Create(ctx context.Context, pk PartitionKey, doc any) (Response, error) {
	return c.post(ctx, "create document", pk, doc, false)
}

// Upsert creates or replaces a document. doc is as for [Container.Create].
func (c *Container) Upsert(ctx context.Context, pk PartitionKey, doc any) (Response, error) {
	return c.post(ctx, "upsert document", pk, doc, true)
}

func (c *Container) post(ctx context.Context, name string, pk PartitionKey, doc any, upsert bool) (Response, error) {
	op := &operation{
		name: name, parent: c.link, link: c.link,
		method: http.MethodPost, path: c.path + "/docs", header: newHeader(),
	}
	if upsert {
		op.header.Set(headerIsUpsert, "true")
	}
	return c.writeDocument(ctx, op, pk, doc)
}

// Read reads a document. If it does not exist, [IsDocumentNotFound] holds for
// the error.
func (c *Container) Read(ctx context.Context, id string, pk PartitionKey) (Response, error) {
	op, err := c.documentOperation("read document", http.MethodGet, id)
	if err != nil {
		return Response{}, err
	}
	return c.doDocument(ctx, op, pk)
}

// ReadIfChanged reads a document unless its etag is still the given one: then
// changed is false, and the answer has no body. An empty etag always reads it.
func (c *Container) ReadIfChanged(ctx context.Context, id string, pk PartitionKey, etag azcore.ETag) (resp Response, changed bool, err error) {
	op, err := c.documentOperation("read document", http.MethodGet, id)
	if err != nil {
		return Response{}, false, err
	}
	if etag != "" {
		op.header.Set("If-None-Match", string(etag))
	}
	resp, err = c.doDocument(ctx, op, pk)
	return resp, err == nil && len(resp.Body) > 0, err
}

// Replace replaces a document. If the document does not exist,
// [IsDocumentNotFound] holds for the error. If ifMatch is not empty and the
// document has another etag, [IsPreconditionFailed] holds. doc is as for
// [Container.Create].
func (c *Container) Replace(ctx context.Context, id string, pk PartitionKey, doc any, ifMatch azcore.ETag) (Response, error) {
	op, err := c.documentOperation("replace document", http.MethodPut, id)
	if err != nil {
		return Response{}, err
	}
	setIfMatch(op, ifMatch)
	return c.writeDocument(ctx, op, pk, doc)
}

// Delete deletes a document. If the document does not exist,
// [IsDocumentNotFound] holds for the error. If ifMatch is not empty and the
// document has another etag, [IsPreconditionFailed] holds.
func (c *Container) Delete(ctx context.Context, id string, pk PartitionKey, ifMatch azcore.ETag) (Response, error) {
	op, err := c.documentOperation("delete document", http.MethodDelete, id)
	if err != nil {
		return Response{}, err
	}
	op.write = true
	setIfMatch(op, ifMatch)
	return c.doDocument(ctx, op, pk)
}

func setIfMatch(op *operation, etag azcore.ETag) {
	if etag != "" {
		op.header.Set("If-Match", string(etag))
	}
}

// documentOperation returns an operation on one document. It rejects the
// characters that the service does not allow in an id.
func (c *Container) documentOperation(name, method, id string) (*operation, error) {
	link := c.link + "/docs/" + id
	if id == "" || strings.ContainsAny(id, `/\?#`) {
		return nil, fmt.Errorf(`%s %s: document id %q must not be empty or contain any of / \ ? #`, name, c.link, id)
	}
	return &operation{
		name: name, parent: link, link: link, document: true,
		method: method, path: c.path + "/docs/" + url.PathEscape(id), header: newHeader(),
	}, nil
}

func (c *Container) writeDocument(ctx context.Context, op *operation, pk PartitionKey, doc any) (Response, error) {
	body, err := marshal(doc)
	if err != nil {
		return Response{}, fmt.Errorf("%s: document: %w", op, err)
	}
	op.body, op.write = body, true
	return c.doDocument(ctx, op, pk)
}

func marshal(doc any) ([]byte, error) {
	switch doc := doc.(type) {
	case json.RawMessage:
		return nonEmpty(doc)
	case []byte:
		return nonEmpty(doc)
	}
	return json.Marshal(doc)
}

func nonEmpty(doc []byte) ([]byte, error) {
	if len(doc) == 0 {
		return nil, errors.New("is empty")
	}
	return doc, nil
}

func (c *Container) doDocument(ctx context.Context, op *operation, pk PartitionKey) (Response, error) {
	if err := pk.check(); err != nil {
		return Response{}, fmt.Errorf("%s: %w", op, err)
	}
	op.kind, op.container = "docs", c
	op.header.Set(headerPartitionKey, pk.header)
	if op.write {
		op.header.Set("Prefer", "return=minimal")
	}
	resp, err := c.client.do(ctx, op)
	if err != nil {
		return Response{}, c.identifyMissing(ctx, err)
	}
	op.subStatus = substatus(resp)
	return Response{
		ETag:         etag(resp.Header),
		SessionToken: resp.Header.Get(headerSessionToken),
		Date:         op.date,
		Charge:       op.charge,
		ActivityID:   resp.Header.Get(headerActivityID),
		Body:         op.answer.bytes,
	}, nil
}

// identifyMissing returns err, the error of an operation on a document. If it is a 404 that
// may be about the container, it reads the container and notes whether that is missing.
func (c *Container) identifyMissing(ctx context.Context, err error) error {
	var e *Error
	if !errors.As(err, &e) || !IsDocumentNotFound(err) || strings.Contains(e.Message, entityMissing) {
		return err
	}
	var container struct{}
	if missing := c.client.readResource(ctx, "read container", "colls", c.link, c.path, &container); isContainerMissing(missing) {
		e.ContainerMissing = true
		c.Forget()
	}
	return err
}

package cosmos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"halley/trigger/redact"
)

// operation is one call of the API, before regions, retries and signatures. The
// goroutine of the call owns it.
type operation struct {
	name   string // for error texts, for example "replace document"
	kind   string // resource type in the signature, for example "docs"
	parent string // resource link in the signature; no leading slash, not escaped
	link   string // resource link, for error texts
	method string
	path   string // escaped, with leading slash
	header http.Header
	body   []byte

	endpoint  *url.URL       // the only one to be asked; nil is not set
	container *Container     // nil if the operation does not concern a container
	document  bool           // addresses one document, which may be absent
	write     bool           // changes data: retry only if not applied
	feed      bool           // reads a physical range by its id
	admit     func(int) bool // see FeedRequest.Admit; may be nil

	answer    *buffer // body of a success; set by retryPolicy
	subStatus int     // of a success: a batch that failed has that of its operation
	charge    float64 // request units of all tries; set by retryPolicy
	throttled bool    // earlier tries got 429, 449 or 503; set by retryPolicy for reads
}

func (op *operation) String() string { return strings.TrimSuffix(op.name+" "+op.link, " ") }

// isQuick reports whether the service answers op in milliseconds: metadata, polls of the feed at a
// position, and requests for leases.
func (op *operation) isQuick() bool {
	switch {
	case op.kind != "docs" && op.kind != "":
		return true
	case op.feed:
		return op.header.Get("If-None-Match") != ""
	}
	return op.container != nil && op.container.pinnedFor.Load() > 0
}

// do sends op and returns the head of the answer; the body is in op.answer. If
// the answer is not a success, the error holds an [Error]. No error shows the
// query or the user info of a URL, such as that of a proxy.
func (c *Client) do(ctx context.Context, op *operation) (*http.Response, error) {
	req, err := c.newRequest(ctx, op)
	if err != nil {
		return nil, redact.Error(fmt.Errorf("%s: %w", op, err))
	}
	resp, err := c.pipeline.Do(req)
	if err != nil {
		return nil, redact.Error(err)
	}
	return resp, nil
}

func (c *Client) newRequest(ctx context.Context, op *operation) (*policy.Request, error) {
	ctx = policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	req, err := runtime.NewRequest(ctx, op.method, c.regions.base.Scheme+"://"+c.regions.base.Host+op.path)
	if err != nil {
		return nil, err
	}
	raw := req.Raw()
	if op.header != nil {
		raw.Header = op.header
	}
	setCommonHeaders(raw.Header)
	if err := checkHeader(raw.Header); err != nil {
		return nil, err
	}
	req.SetOperationValue(op)
	runtime.SkipBodyDownload(req)
	if op.body == nil {
		return req, nil
	}
	return req, req.SetBody(streaming.NopCloser(bytes.NewReader(op.body)), cmp.Or(raw.Header.Get("Content-Type"), "application/json"))
}

// decode decodes the answer of op as JSON.
func (op *operation) decode(v any) error {
	if err := json.Unmarshal(op.answer.bytes, v); err != nil {
		return fmt.Errorf("%s: answer is not the expected JSON: %w", op, err)
	}
	return nil
}

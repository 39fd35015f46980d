package cosmos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
)

// operation is one request of the API, before regions, retries and signatures.
type operation struct {
	name   string // for error texts: "replace document"
	kind   string // resource type in the signature: "docs"
	parent string // resource link in the signature; no leading slash, not escaped
	link   string // what is asked, for error texts
	method string
	path   string // escaped, with leading slash
	header http.Header
	body   []byte

	container *Container // where it concerns one
	write     bool       // changes something
	feed      bool       // reads a physical range by its id

	answer *buffer // body of a success; set by the retry policy
}

func (op *operation) String() string { return strings.TrimSuffix(op.name+" "+op.link, " ") }

// do sends op and returns the head of the answer, whose body is in op.answer.
// An answer that is not a success is an [Error].
func (c *Client) do(ctx context.Context, op *operation) (*http.Response, error) {
	req, err := c.newRequest(ctx, op)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	resp, err := c.pipeline.Do(req)
	if err != nil {
		return nil, err
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

// decode reads the answer of op as JSON.
func (op *operation) decode(v any) error {
	if err := json.Unmarshal(op.answer.bytes, v); err != nil {
		return fmt.Errorf("%s: answer is not the JSON expected: %w", op, err)
	}
	return nil
}

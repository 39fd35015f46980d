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
	"time"

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
	path   string   // escaped, with leading slash
	target *url.URL // path parsed, nil if that is to be done
	header http.Header
	values []string // memory for values of header
	body   []byte

	endpoint  *url.URL       // the only one to be asked; nil is not set
	container *Container     // nil if the operation does not concern a container
	document  bool           // addresses one document, which may be absent
	write     bool           // changes data: retry only if not applied
	feed      bool           // reads a physical range by its id
	admit     func(int) bool // see FeedRequest.Admit; may be nil

	answer    *buffer   // body of a success; set by retryPolicy
	subStatus int       // of a success: a batch that failed has that of its operation
	attempts  int       // begun so far
	charge    float64   // request units of all tries; set by retryPolicy
	date      time.Time // of the last answer; set by retryPolicy
	throttled bool      // earlier tries got 429, 449 or 503; set by retryPolicy for reads
}

func (op *operation) String() string {
	text := strings.TrimSuffix(op.name+" "+op.link, " ")
	if op.feed {
		text += " range " + value(op.header, headerPartitionRangeID)
	}
	return text
}

// setHeader sets a header whose name is in canonical form.
func (op *operation) setHeader(name, value string) {
	op.values = append(op.values, value)
	last := len(op.values)
	op.header[name] = op.values[last-1 : last : last]
}

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
	resp, err := c.send(ctx, op)
	if err != nil {
		return nil, redact.Error(err)
	}
	return resp, nil
}

func (c *Client) send(ctx context.Context, op *operation) (*http.Response, error) {
	if op.header == nil {
		op.header = newHeader()
	}
	if err := checkHeader(op.header); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if c.direct != nil {
		return c.retries.run(ctx, op, func(ctx context.Context, endpoint *url.URL) (*http.Response, error) {
			return c.direct.send(ctx, op, endpoint)
		})
	}
	req, err := c.newRequest(ctx, op)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return c.pipeline.Do(req)
}

// newRequest returns a request for the pipeline. Its header has what [attemptHeader] adds to that of
// op: the pipeline copies it for each attempt.
func (c *Client) newRequest(ctx context.Context, op *operation) (*policy.Request, error) {
	ctx = policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	raw, err := http.NewRequestWithContext(ctx, op.method, op.path, nil)
	if err != nil {
		return nil, err
	}
	raw.URL.Scheme, raw.URL.Host, raw.Host = c.regions.base.Scheme, c.regions.base.Host, c.regions.base.Host
	req, err := runtime.NewRequestFromRequest(raw)
	if err != nil {
		return nil, err
	}
	req.SetOperationValue(op)
	runtime.SkipBodyDownload(req)
	if op.body == nil {
		return req, nil
	}
	return req, req.SetBody(streaming.NopCloser(bytes.NewReader(op.body)), op.contentType())
}

// contentType is that of the body.
func (op *operation) contentType() string {
	return cmp.Or(op.header.Get("Content-Type"), "application/json")
}

// decode decodes the answer of op as JSON.
func (op *operation) decode(v any) error {
	if err := json.Unmarshal(op.answer.bytes, v); err != nil {
		return fmt.Errorf("%s: answer is not the expected JSON: %w", op, err)
	}
	return nil
}

package cosmos

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// directSender sends attempts without azcore's pipeline, which copies each request several times. It
// does the same as the pipeline does for a client without policies of the caller.
type directSender struct {
	transport  policy.Transporter
	authorizer authorizer
	userAgent  []string // nil is none
}

// authorizer gives attempts their date and Authorization header, as values of a header that are not
// changed in place. It is told of answers with 401.
type authorizer interface {
	authorize(ctx context.Context, op *operation) (date, authorization []string, err error)
	refused(ctx context.Context)
}

// newDirectSender returns nil if the requests need azcore's pipeline, for policies of the caller or for
// azcore's log.
func newDirectSender(cred Credential, o policy.ClientOptions, base *url.URL, audience string, now func() time.Time) *directSender {
	isLogged := os.Getenv("AZURE_SDK_GO_LOGGING") != "" || !reflect.ValueOf(o.Logging).IsZero()
	if isLogged || len(o.PerCallPolicies) > 0 || len(o.PerRetryPolicies) > 0 || o.APIVersion != "" {
		return nil
	}
	d := &directSender{transport: o.Transport, userAgent: userAgent(o.Telemetry)}
	if cred.token == nil {
		d.authorizer = &keyPolicy{sign: cred.sign, now: now}
	} else {
		d.authorizer = newTokenHolder(bearerPolicy(cred, base, audience), base, now)
	}
	return d
}

// userAgent returns the name of the client as azcore's policy sends it, nil if it sends none.
func userAgent(o policy.TelemetryOptions) []string {
	req, err := runtime.NewRequest(context.Background(), http.MethodGet, "https://localhost")
	if err != nil {
		return nil
	}
	_, _ = runtime.NewTelemetryPolicy(module, version, &o).Do(req) // it ends there, with the header set
	return req.Raw().Header["User-Agent"]
}

// nextHeader returns the header for the next attempt, which sets further values before it is sent. Each
// attempt has its own, as one that has ended may still read it; the first has that of the operation.
func (op *operation) nextHeader() http.Header {
	if op.attempts++; op.attempts == 1 {
		return op.header
	}
	return maps.Clone(op.header)
}

// at returns the URL of op at an endpoint.
func (op *operation) at(endpoint *url.URL) (*url.URL, error) {
	target := op.target
	if target == nil {
		var err error
		if target, err = url.Parse(op.path); err != nil {
			return nil, err
		}
	}
	to := *target
	to.Scheme, to.Host = endpoint.Scheme, endpoint.Host
	return &to, nil
}

// send sends op once.
func (d *directSender) send(ctx context.Context, op *operation, endpoint *url.URL) (*http.Response, error) {
	to, err := op.at(endpoint)
	if err != nil {
		return nil, err
	}
	date, authorization, err := d.authorizer.authorize(ctx, op)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	header := op.nextHeader()
	header[headerDate], header["Authorization"] = date, authorization
	if d.userAgent != nil {
		header["User-Agent"] = d.userAgent
	}
	raw := (&http.Request{
		Method: op.method, URL: to, Host: endpoint.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
	}).WithContext(ctx)
	if op.body != nil {
		header["Content-Type"] = []string{op.contentType()}
		raw.ContentLength = int64(len(op.body))
		raw.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(op.body)), nil }
		raw.Body, _ = raw.GetBody()
	}
	resp, err := d.transport.Do(raw)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	if resp.StatusCode == http.StatusUnauthorized {
		d.authorizer.refused(ctx)
	}
	return resp, nil
}

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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// directSender sends attempts without azcore's pipeline, which copies each request several times. It
// does the same as the pipeline does for a client with an account key and no policies of its own.
type directSender struct {
	transport policy.Transporter
	keys      *keyPolicy
	userAgent []string // nil is none
}

// newDirectSender returns nil if the requests need azcore's pipeline: for tokens, for the policies of
// the caller, or for azcore's log.
func newDirectSender(cred Credential, o policy.ClientOptions, keys *keyPolicy) *directSender {
	isLogged := os.Getenv("AZURE_SDK_GO_LOGGING") != "" || !reflect.ValueOf(o.Logging).IsZero()
	if cred.sign == nil || isLogged || len(o.PerCallPolicies) > 0 || len(o.PerRetryPolicies) > 0 || o.APIVersion != "" {
		return nil
	}
	return &directSender{transport: o.Transport, keys: keys, userAgent: userAgent(o.Telemetry)}
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
	header := op.nextHeader()
	header[headerDate], header["Authorization"] = d.keys.dateAndSign(signedLink{op.method, op.kind, op.parent})
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
	return resp, nil
}

package cosmos

import (
	"io"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// maxErrorBody bounds how much of the body of an error is read, in bytes. The service's
// errors have some kilobytes; a proxy or an impostor may send more than the memory holds.
const maxErrorBody = 64 << 10

// LimitErrors returns a transport that ends the bodies of answers with 4xx and 5xx after
// 64 KiB: clients on azcore read them whole. A [Client] has it around its transport. Clients
// of other services, such as Azure Storage, take it as their option Transport; next is
// their HTTP client, or nil for one like that of [NewClient].
func LimitErrors(next policy.Transporter) policy.Transporter {
	if next == nil {
		next = newHTTPTransport()
	}
	return limitedErrors{next}
}

type limitedErrors struct{ next policy.Transporter }

// Do sends the request with the next transport.
func (t limitedErrors) Do(req *http.Request) (*http.Response, error) {
	resp, err := t.next.Do(req)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		resp.Body = limitedBody{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	}
	return resp, err
}

// limitedBody is the beginning of a body.
type limitedBody struct {
	io.Reader
	io.Closer
}

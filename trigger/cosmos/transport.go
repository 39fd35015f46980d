package cosmos

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// httpTransport sends requests with net/http. An [http.Client] would copy each header, for redirects: the
// service does not redirect, and a signature is valid for one host only.
type httpTransport struct{ *http.Transport }

// newHTTPTransport returns the transport that is used when ClientOptions has no
// Transport. HTTP/2 is off because it costs more CPU per byte and puts all
// ranges on one connection; gzip is off because the gateway does not offer it.
func newHTTPTransport() httpTransport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return httpTransport{&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		Protocols:           protocols,
		DisableCompression:  true,
		MaxIdleConns:        1000,
		MaxIdleConnsPerHost: 1000,             // at a stop the releases of all ranges may be under way; see maxFeedReads for the others
		IdleConnTimeout:     30 * time.Second, // a start opens more than are needed afterwards
		TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
	}}
}

// Do sends a request. Its errors are those of an [http.Client].
func (t httpTransport) Do(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, &url.Error{Op: req.Method[:1] + strings.ToLower(req.Method[1:]), URL: req.URL.String(), Err: err}
	}
	return resp, nil
}

// observedTransport tells of each request.
type observedTransport struct {
	next    policy.Transporter
	observe func(*http.Request, *http.Response, error)
}

func (t observedTransport) Do(req *http.Request) (*http.Response, error) {
	resp, err := t.next.Do(req)
	t.observe(req, resp, err)
	return resp, err
}

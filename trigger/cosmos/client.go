package cosmos

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// ClientOptions are the options of [NewClient]; zero values mean the defaults.
type ClientOptions struct {
	// Transport sends the requests. If it is nil, the client uses an HTTP/1.1
	// client of its own.
	//
	// Of Retry, the client honours these fields: MaxRetries is the number of
	// retries of one call (default 9, negative for none), RetryDelay the first
	// backoff, which doubles with each retry (100 ms), MaxRetryDelay its bound
	// (5 s), and TryTimeout the time for one request and its answer (65 s). If
	// the service requests a wait, that wait replaces the backoff. Retry
	// options of a context ([policy.WithRetryOptions]) have no effect.
	azcore.ClientOptions

	// PreferredRegions are the regions to read from, best first, under the
	// names that the account lists, for example "West Europe". When empty, the
	// account's own order applies.
	PreferredRegions []string

	// Audience is the scope of the Entra ID tokens. When empty, it is
	// https://{host of the endpoint}/.default.
	Audience string
}

// Client sends requests to one account. It is safe for concurrent use.
type Client struct {
	endpoint string
	pipeline runtime.Pipeline
	regions  *regions
	clock    clock
	idle     func()
	buffers  bufferPool

	feedSlots chan struct{} // bounds the feed reads under way; a read holds one from its request to the end of the body

	mu         sync.Mutex
	containers map[[2]string]*Container
}

const (
	module  = "halley"
	version = "v0.1.0"
)

// maxFeedReads bounds the feed reads of a client that are under way, and so its
// connections: others wait for one of them, in order. Writes of leases and all other
// requests are not bounded: they must not wait for a feed that does not answer. At
// 10 ms for an answer, 64 reads are 6,400 pages per second.
const maxFeedReads = 64

// NewClient returns a client of the account at endpoint, for example
// https://games.documents.azure.com:443/. It does no I/O.
func NewClient(endpoint string, cred Credential, opts *ClientOptions) (*Client, error) {
	base, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if cred.isZero() {
		return nil, errors.New("no credential: pass a KeyCredential or a TokenCredential")
	}
	if cred.token != nil && base.Scheme != "https" && !isLoopback(base.Hostname()) {
		return nil, fmt.Errorf("endpoint %s: Entra ID tokens are not sent over http: use https", endpoint)
	}
	if opts == nil {
		opts = &ClientOptions{}
	}
	c := &Client{endpoint: endpoint, containers: map[[2]string]*Container{}, idle: func() {}, feedSlots: make(chan struct{}, maxFeedReads)}
	c.regions = newRegions(base, opts.PreferredRegions, c.Account)
	c.pipeline = c.newPipeline(base, cred, opts)
	return c, nil
}

// newPipeline returns azcore's pipeline, without azcore's retries and its
// download of bodies. [retryPolicy] replaces both: it knows by method,
// substatus and region when a retry is safe, and reads bodies within an attempt
// and into reused buffers.
func (c *Client) newPipeline(base *url.URL, cred Credential, opts *ClientOptions) runtime.Pipeline {
	o := opts.ClientOptions
	if o.Transport == nil {
		client := newHTTPClient(o.Retry.TryTimeout)
		o.Transport, c.idle = client, client.CloseIdleConnections
	}
	o.Transport = LimitErrors(o.Transport)
	o.PerCallPolicies = append(slices.Clone(o.PerCallPolicies), newRetryPolicy(c, o.Retry, cred.token != nil))
	o.Retry = policy.RetryOptions{MaxRetries: -1}
	return runtime.NewPipeline(module, version, runtime.PipelineOptions{
		AllowedHeaders: loggedHeaders,
		PerRetry:       authorization(cred, base, opts.Audience, c.Now),
	}, &o)
}

// Endpoint returns the endpoint that was given to [NewClient].
func (c *Client) Endpoint() string { return c.endpoint }

// Now returns the service's time: the newest Date header plus the monotonic
// time since it arrived. Before the first answer it is [time.Now]. It may be
// seconds behind the service, because a Date header is cut to whole seconds and
// takes time to arrive.
func (c *Client) Now() time.Time { return c.clock.now() }

// CloseIdleConnections closes the connections that are not in use. It has no
// effect if a Transport was given to [NewClient].
func (c *Client) CloseIdleConnections() { c.idle() }

// parseEndpoint checks the endpoint of an account and drops its path.
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("account endpoint must be https://{account}.documents.azure.com:443/")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("account endpoint on host %s must have no user, path or query", u.Host)
	}
	if u.Scheme == "http" && isAzure(u.Hostname()) {
		return nil, fmt.Errorf("account endpoint on host %s must begin with https://", u.Host)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}, nil
}

func isAzure(host string) bool {
	return slices.ContainsFunc([]string{".azure.com", ".azure.cn", ".azure.us"}, func(suffix string) bool {
		return strings.HasSuffix(strings.ToLower(host), suffix)
	})
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// newHTTPClient returns the HTTP client that is used when ClientOptions has no
// Transport. HTTP/2 is off because it costs more CPU per byte and puts all
// ranges on one connection; gzip is off because the gateway does not offer it.
func newHTTPClient(headerTimeout time.Duration) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			Protocols:             protocols,
			DisableCompression:    true,
			MaxIdleConns:          1000,
			MaxIdleConnsPerHost:   1000, // lease writes of all ranges may be under way; see maxFeedReads for the others
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
			ResponseHeaderTimeout: max(cmp.Or(headerTimeout, tryTimeout), 0),
			ReadBufferSize:        16 << 10, // that of a TLS record: larger reads fill the page's own buffer
		},
		// The service does not redirect, and a signature is valid for one host only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

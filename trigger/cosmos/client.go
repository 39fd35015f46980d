package cosmos

import (
	"errors"
	"fmt"
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
	//
	// Without policies of the caller, requests do not go through azcore's pipeline,
	// which costs as much as the rest of the client. Then azcore's log does not show
	// them, unless a field of Logging or the variable AZURE_SDK_GO_LOGGING is set.
	azcore.ClientOptions

	// PreferredRegions are the regions to read from, best first, under the
	// names that the account lists, for example "West Europe". When empty, the
	// account's own order applies.
	PreferredRegions []string

	// ObserveAttempt, if set, is called after each attempt of a request with the request
	// that was sent, and with the head of the answer or an error. It must be quick, must not
	// read the body, and is called from several goroutines. It costs less than a policy.
	ObserveAttempt func(req *http.Request, resp *http.Response, err error)

	// Audience is the scope of the Entra ID tokens. When empty, it is
	// https://{host of the endpoint}/.default.
	Audience string
}

// Client sends requests to one account. It is safe for concurrent use.
type Client struct {
	endpoint string
	retries  *retryPolicy
	pipeline runtime.Pipeline
	direct   *directSender // in place of the pipeline; nil if that is needed
	regions  *regions
	clock    clock
	idle     func()
	buffers  *bufferPool // an allocation of its own: documents that are kept hold it, and not the client

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
	c := &Client{endpoint: endpoint, containers: map[[2]string]*Container{}, idle: func() {}, buffers: &bufferPool{}, feedSlots: make(chan struct{}, maxFeedReads)}
	c.regions = newRegions(base, opts.PreferredRegions, c.Account)
	c.usePolicies(base, cred, *opts)
	return c, nil
}

// usePolicies makes the sender of attempts, and azcore's pipeline for clients
// that need it, both without azcore's retries and its download of bodies. [retryPolicy] replaces both: it knows by method,
// substatus and region when a retry is safe, and reads bodies within an attempt
// and into reused buffers.
func (c *Client) usePolicies(base *url.URL, cred Credential, opts ClientOptions) {
	o := opts.ClientOptions
	if o.Transport == nil {
		transport := newHTTPTransport()
		o.Transport, c.idle = transport, transport.CloseIdleConnections
	}
	o.Transport = LimitErrors(o.Transport)
	if opts.ObserveAttempt != nil {
		o.Transport = observedTransport{o.Transport, opts.ObserveAttempt}
	}
	c.retries = newRetryPolicy(c, o.Retry, cred.token != nil)
	c.direct = newDirectSender(cred, o, base, opts.Audience, c.Now)
	// Until an attempt, a request has no header that azcore would copy.
	perAttempt := []policy.Policy{attemptHeader{}, runtime.NewTelemetryPolicy(module, version, &o.Telemetry)}
	o.PerCallPolicies = append(slices.Clone(o.PerCallPolicies), c.retries)
	o.Retry = policy.RetryOptions{MaxRetries: -1}
	o.Telemetry.Disabled = true
	c.pipeline = runtime.NewPipeline(module, version, runtime.PipelineOptions{
		AllowedHeaders: loggedHeaders,
		PerRetry:       append(perAttempt, authorization(cred, base, opts.Audience, c.Now)...),
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

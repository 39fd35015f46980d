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
	// Transport sends the requests: an own HTTP/1.1 client when nil.
	//
	// Of Retry these fields are honoured: MaxRetries is how often one call
	// repeats its request (default 9, negative for never), RetryDelay the first
	// backoff, doubled each time (100 ms), MaxRetryDelay its bound (5 s), and
	// TryTimeout the time for one request and its answer (65 s). A wait that the
	// service asks for is kept whatever RetryDelay says. Retry options of a
	// context ([policy.WithRetryOptions]) have no effect.
	azcore.ClientOptions

	// PreferredRegions are the regions to read from, best first, by the names
	// that the account lists, for example "West Europe". When empty the
	// account's own order holds.
	PreferredRegions []string

	// Audience is the scope asked for with Entra ID tokens. When empty it is
	// https://{host of the endpoint}/.default.
	Audience string
}

// Client speaks to one account.
type Client struct {
	endpoint string
	pipeline runtime.Pipeline
	regions  *regions
	clock    clock
	idle     func()
	buffers  sync.Pool

	mu         sync.Mutex
	containers map[[2]string]*Container
}

const (
	module  = "halley"
	version = "v0.1.0"
)

// NewClient makes a client of the account at endpoint, for example
// https://games.documents.azure.com:443/. It does no I/O.
func NewClient(endpoint string, cred Credential, opts *ClientOptions) (*Client, error) {
	base, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if cred.isZero() {
		return nil, errors.New("no credential: give KeyCredential or TokenCredential")
	}
	if cred.token != nil && base.Scheme != "https" && !isLoopback(base.Hostname()) {
		return nil, fmt.Errorf("endpoint %s: Entra ID tokens are not sent over http: use https", endpoint)
	}
	if opts == nil {
		opts = &ClientOptions{}
	}
	c := &Client{endpoint: endpoint, containers: map[[2]string]*Container{}, idle: func() {}}
	c.regions = newRegions(base, opts.PreferredRegions, c.Account)
	c.pipeline = c.newPipeline(base, cred, opts)
	return c, nil
}

// newPipeline is azcore's, with its retry policy off and its download of
// bodies skipped: ours decides by method, substatus and region what may be
// repeated, and reads bodies within a try and into reused buffers.
func (c *Client) newPipeline(base *url.URL, cred Credential, opts *ClientOptions) runtime.Pipeline {
	o := opts.ClientOptions
	if o.Transport == nil {
		client := newHTTPClient(o.Retry.TryTimeout)
		o.Transport, c.idle = client, client.CloseIdleConnections
	}
	o.PerCallPolicies = append(slices.Clone(o.PerCallPolicies), newRetryPolicy(c, o.Retry, cred.token != nil))
	o.Retry = policy.RetryOptions{MaxRetries: -1}
	return runtime.NewPipeline(module, version, runtime.PipelineOptions{
		AllowedHeaders: loggedHeaders,
		PerRetry:       authorization(cred, base, opts.Audience, c.Now),
	}, &o)
}

// Endpoint returns the endpoint as it was given to [NewClient].
func (c *Client) Endpoint() string { return c.endpoint }

// Now returns the service's time: the newest Date header of an answer plus the
// time since on the monotonic clock. Before the first answer it is
// [time.Now]. It may be seconds behind the service, for a header shows whole
// seconds and takes time to arrive.
func (c *Client) Now() time.Time { return c.clock.now() }

// CloseIdleConnections closes the connections that no request uses. It has no
// effect on a Transport that was given to [NewClient].
func (c *Client) CloseIdleConnections() { c.idle() }

// parseEndpoint checks the endpoint of an account.
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("account endpoint must read https://{account}.documents.azure.com:443/")
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

// newHTTPClient is the transport of a client that was given none. HTTP/2 is
// left out: it costs more per byte and puts all ranges on one connection. So is
// gzip, which the gateway does not offer.
func newHTTPClient(patience time.Duration) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			Protocols:             protocols,
			DisableCompression:    true,
			MaxIdleConns:          1000,
			MaxIdleConnsPerHost:   1000, // all ranges may poll at one tick
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
			ResponseHeaderTimeout: max(cmp.Or(patience, tryTimeout), 0),
			ReadBufferSize:        64 << 10,
		},
		// The service does not redirect, and a signature is for one host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Package opensearch keeps a full-text index of a container in an OpenSearch cluster. It
// writes with the bulk API, which Elasticsearch has, too.
//
// The one rule of idempotency is: each write has the version of its change, and the
// cluster refuses an older one (version_type external_gte). The version is the position
// of the change as one number ([halley/handlers/position]): it depends neither on leases
// nor on redelivery. A refused write (409) is a success, because the index has a newer
// version already.
//
// # Deletes
//
// A delete, an expiry or a soft delete removes the document, with its version as well.
// The cluster forgets the version of a delete after index.gc_deletes, by default 60 s:
// an older write that arrives later brings the document back. Set it to more than a lease
// expiration and a handler call together, such as 1h; the command check looks at it.
//
// A function that starts from a snapshot adds metadata to each document (_halley), by which the end
// of a later snapshot removes documents that were deleted while no host could see it: see
// [Index.RemoveUnshown].
//
// # Order and failures
//
// The operations of a batch are in one request, or in several after each other if they
// are larger than BULK_BYTES, so that the versions of a document stay in order. Each
// operation has a status of its own:
//
//   - 2xx, and 404 for a delete: done;
//   - 409: the index is newer; done;
//   - 400: the mapping of the index refuses the document; it is dead-lettered;
//   - 429, 5xx and all others: this change is repeated after a backoff.
//
// If the request as a whole fails, the call fails. If it is too large for the cluster
// (413), the batch is halved until a single document is; that is dead-lettered.
package opensearch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"halley/handlers"
	"halley/handlers/search"
	"halley/trigger"
)

// Settings of the handler, read with the prefix HALLEY_SEARCH_ if the function's name is
// search.
type Settings struct {
	URL            handlers.URL      `desc:"URL of the cluster, https://HOST:PORT; required"`
	Index          string            `desc:"name of the index or of its alias; required"`
	Username       string            `desc:"user of the cluster; none if empty"`
	Password       handlers.Secret   `desc:"password of the user"`
	Fields         []string          `desc:"properties that are indexed, at the first level, separated by commas; all if empty"`
	BulkBytes      handlers.Count    `split_words:"true" default:"5242880" desc:"size of a request at which the next one begins"`
	RequestTimeout handlers.Interval `split_words:"true" default:"30s" desc:"time for one request"`
	PoolSize       handlers.Count    `split_words:"true" default:"64" desc:"connections to the cluster, at most"`
	CAFile         string            `split_words:"true" desc:"certificates that TLS trusts, PEM; by default those of the system"`
	CertFile       string            `split_words:"true" desc:"client certificate for TLS, PEM"`
	KeyFile        string            `split_words:"true" desc:"its private key, PEM"`
}

// validate returns an error that begins with the name of the setting.
func (s Settings) validate() (*url.URL, error) {
	cluster, err := parseCluster(s.URL)
	if err != nil {
		return nil, fmt.Errorf("URL %w", err)
	}
	switch {
	case !indexName.MatchString(s.Index):
		return nil, fmt.Errorf("INDEX is %q; write lower-case letters, digits, - and _, and begin with a letter or digit", s.Index)
	case (s.Username == "") != (s.Password == ""):
		return nil, errors.New("USERNAME and PASSWORD must both be set, or none")
	case s.Password != "" && cluster.Scheme == "http" && !handlers.IsLoopback(cluster.Hostname()):
		return nil, errors.New("URL is http, which would show the password on the network; write https")
	case s.BulkBytes < 1:
		return nil, fmt.Errorf("BULK_BYTES is %d; it must be above 0", s.BulkBytes)
	case s.RequestTimeout < handlers.Interval(time.Second):
		return nil, fmt.Errorf("REQUEST_TIMEOUT is %v; it must be at least 1s", s.RequestTimeout)
	}
	return cluster, nil
}

// parseCluster reads a URL of the form https://host[:port][/path]. Its error does not
// repeat the URL.
func parseCluster(u handlers.URL) (*url.URL, error) {
	if u == "" {
		return nil, errors.New("is empty; set it to a URL such as https://search.example.com:9200")
	}
	parsed, err := url.Parse(u.Reveal())
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http":
		return nil, errors.New("is not a URL such as https://search.example.com:9200")
	case parsed.User != nil || strings.Contains(parsed.Path, "@"):
		return nil, errors.New("has a user or a password; put them into USERNAME and PASSWORD")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return nil, errors.New("has a query; leave it out")
	}
	return parsed, nil
}

// Open returns the handler. It does not connect.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	x, err := New(s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	x.meter = env.Meter("opensearch")
	x.client.Transport = x.meter.Transport(x.client.Transport)
	env.OfferProbe(x.probe(env.Prefix))
	x.source = env.Database + "/" + env.ContainerName
	if env.FromSnapshot {
		env.FollowRanges(handlers.RangeCallbacks{SnapshotRead: x.RemoveUnshown})
	}
	return x.Handle, x.Close, nil
}

// Index is an index of a cluster. It is safe for concurrent use.
type Index struct {
	settings Settings
	cluster  *url.URL
	client   *http.Client
	meter    *handlers.Meter
	source   string      // of the metadata
	isMapped atomic.Bool // the index has the mapping of the metadata
}

// New returns the index that the settings describe. It does no I/O. The error begins with
// the name of a setting.
func New(s Settings) (*Index, error) {
	cluster, err := s.validate()
	if err != nil {
		return nil, err
	}
	config, err := handlers.TLSFiles{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}.Config(cluster.Scheme == "https")
	if err != nil {
		return nil, err
	}
	return &Index{settings: s, cluster: cluster, client: &http.Client{
		Timeout:       time.Duration(s.RequestTimeout),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, MaxConnsPerHost: int(s.PoolSize), MaxIdleConnsPerHost: int(s.PoolSize),
			IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true,
		},
	}}, nil
}

// Close closes idle connections.
func (x *Index) Close() error {
	x.client.CloseIdleConnections()
	return nil
}

// Command returns the command search of an app:
//
//	options.Commands = []*cobra.Command{opensearch.Command(options.Inspect)}
func Command(inspect handlers.Inspect) *cobra.Command {
	return search.NewCommand(func(ctx context.Context, function string) (search.Query, func() error, error) {
		found, err := inspect(ctx, function)
		if err != nil {
			return nil, nil, err
		}
		s, ok := found.Settings.(*Settings)
		if !ok {
			return nil, nil, fmt.Errorf("--function %s: not an index in OpenSearch", function)
		}
		x, err := New(*s)
		if err != nil {
			return nil, nil, fmt.Errorf("setting %s%w", found.Env.Prefix, err)
		}
		return x.Search, x.Close, nil
	})
}

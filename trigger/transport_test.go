package trigger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// The transports of this file stand between a host and the embedded account: they
// count requests, fail them, or change answers.

// requestCounts are numbers of requests by purpose.
type requestCounts struct{ feed, writes int }

func (t requestCounts) minus(o requestCounts) requestCounts {
	return requestCounts{t.feed - o.feed, t.writes - o.writes}
}

// countRequests returns the requests sent so far.
func (w *world) countRequests() requestCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// countingTransport sends requests to the account and counts them.
type countingTransport struct{ w *world }

func (c countingTransport) Do(r *http.Request) (*http.Response, error) {
	c.w.mu.Lock()
	switch {
	case r.Header.Get("A-IM") != "" && strings.HasSuffix(r.URL.Path, "/colls/items/docs"):
		c.w.sent.feed++
	case strings.Contains(r.URL.Path, "/colls/leases/docs/") && r.Method != http.MethodGet,
		strings.HasSuffix(r.URL.Path, "/colls/leases/docs") && r.Header.Get("Content-Type") == "application/json":
		c.w.sent.writes++
	}
	onRequest := c.w.onRequest
	c.w.mu.Unlock()
	if onRequest != nil {
		onRequest(r)
	}
	return c.w.account.Do(r)
}

// hostNetwork is the network of one host. If intercept is set, it may answer a
// request instead of the account.
type hostNetwork struct {
	w         *world
	intercept func(*http.Request) (resp *http.Response, err error, handled bool)
}

func (n hostNetwork) Do(r *http.Request) (*http.Response, error) {
	if n.intercept != nil {
		if resp, err, handled := n.intercept(r); handled {
			return resp, err
		}
	}
	return n.w.account.Do(r)
}

// loseRequest never answers, like a dead connection.
func loseRequest(r *http.Request) (*http.Response, error, bool) {
	<-r.Context().Done()
	return nil, r.Context().Err(), true
}

// isFeedRead reports whether a request reads the change feed.
func isFeedRead(r *http.Request) bool {
	return r.Header.Get("A-IM") != "" && strings.HasSuffix(r.URL.Path, "/colls/items/docs")
}

// isLeaseReplace reports whether a request replaces a lease document.
func isLeaseReplace(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/colls/leases/docs/")
}

// isLeaseQuery reports whether a request lists the leases.
func isLeaseQuery(r *http.Request) bool {
	return r.Header.Get("Content-Type") == "application/query+json" && strings.HasSuffix(r.URL.Path, "/colls/leases/docs")
}

// isLeaseCreate reports whether a request creates a document in the lease container. A
// query is a POST as well.
func isLeaseCreate(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/leases/docs") && r.Header.Get("Content-Type") == "application/json"
}

// hostThrough makes a host without a logger that sends its requests through a
// transport.
func (w *world) hostThrough(owner string, transport policy.Transporter, handler Handler) *Host {
	w.t.Helper()
	credential, err := cosmos.KeyCredential(emulator.Key)
	must(w.t, err)
	client, err := cosmos.NewClient(w.account.Endpoint(), credential, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: transport},
	})
	must(w.t, err)
	h, err := New(client.Container("db", "leases"), []Function{{
		FeedSource: FeedSource{Name: "test", Container: client.Container("db", "items"), StartFrom: FromBeginning()}, Handler: handler,
	}}, &Options{Owner: owner, Observers: []func(Event){w.recordEvent}})
	must(w.t, err)
	return h
}

// offsetClock adds an offset to the times of the account's answers, as if the host's
// clock differed from the service's.
type offsetClock struct {
	w      *world
	offset time.Duration
}

var timestampPattern = regexp.MustCompile(`"_ts":\d+`)

func (e offsetClock) Do(r *http.Request) (*http.Response, error) {
	resp, err := countingTransport{e.w}.Do(r)
	if err != nil {
		return resp, err
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return resp, err
	}
	resp.Header.Set("Date", date.Add(e.offset).UTC().Format(http.TimeFormat))
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return resp, err
	}
	body = timestampPattern.ReplaceAllFunc(body, func(ts []byte) []byte {
		n, _ := strconv.ParseInt(strings.TrimPrefix(string(ts), `"_ts":`), 10, 64)
		return strconv.AppendInt([]byte(`"_ts":`), n+int64(e.offset/time.Second), 10)
	})
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return resp, err
}

// shiftedLSNs lowers the LSNs of documents by offset, like a merge after which the
// LSNs of a range start from a lower number.
type shiftedLSNs struct {
	w      *world
	offset int64
}

func (c *shiftedLSNs) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.w.account.Do(r)
	if err != nil || r.Header.Get("A-IM") == "" || c.offset == 0 {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	for lsn := c.offset + 1; lsn < 100; lsn++ {
		body = bytes.ReplaceAll(body, fmt.Appendf(nil, `"_lsn":%d}`, lsn), fmt.Appendf(nil, `"_lsn":%d}`, lsn-c.offset))
		body = bytes.ReplaceAll(body, fmt.Appendf(nil, `"_lsn":%d,`, lsn), fmt.Appendf(nil, `"_lsn":%d,`, lsn-c.offset))
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return resp, err
}

// maxAnswers is the number of answers after which repeatingFeed gives up, so that a
// failing test ends.
const maxAnswers = 300

// repeatingFeed answers feed reads with changes and the continuation of the request,
// until isFixed is set.
type repeatingFeed struct {
	w       *world
	isFixed atomic.Bool
	answers atomic.Int64
}

func (s *repeatingFeed) Do(r *http.Request) (*http.Response, error) {
	asked := r.Header.Get("If-None-Match")
	resp, err := countingTransport{s.w}.Do(r)
	if err == nil && r.Header.Get("A-IM") != "" && resp.StatusCode == http.StatusOK && asked != "" && !s.isFixed.Load() {
		resp.Header.Set("Etag", asked)
		s.isFixed.Store(s.answers.Add(1) >= maxAnswers)
	}
	return resp, err
}

package cosmos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"
)

// The kinds of calls that differ in when they may be retried.
var (
	readOne = func(ctx context.Context, c *Container) error {
		_, err := c.Read(ctx, "x", onePK)
		return err
	}
	writeOne = func(ctx context.Context, c *Container) error {
		_, err := c.Replace(ctx, "x", onePK, "{}", `"e"`)
		return err
	}
	readFeedOnce = func(ctx context.Context, c *Container) error {
		_, err := c.ReadFeed(ctx, FeedRequest{Range: wholeRange, Continuation: `"7"`})
		return err
	}
	aQuery = func(ctx context.Context, c *Container) error {
		_, err := c.queryPage(ctx, Query{Text: "SELECT 1"})
		return err
	}
)

// Each answer or error has a fixed number of requests and a fixed result.
func TestRetryRules(t *testing.T) {
	cut := func() *http.Response {
		r := reply(200, emptyPage[:9], "Etag", `"1"`)
		r.ContentLength = int64(len(emptyPage))
		return r
	}
	certificate := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	repeated, single := 10, 1
	for name, test := range map[string]struct {
		call     func(context.Context, *Container) error
		answer   any
		requests int // if the answer never changes
		unknown  bool
	}{
		"429 read":             {readOne, status(429, "x-ms-retry-after-ms", "5"), repeated, false},
		"429 write":            {writeOne, status(429, "x-ms-retry-after-ms", "5"), repeated, false},
		"429 without a wait":   {readOne, status(429), repeated, false},
		"449 read":             {readOne, status(449), repeated, false},
		"449 write":            {writeOne, status(449), repeated, false},
		"408 read":             {readOne, status(408), repeated, false},
		"408 write":            {writeOne, status(408), single, true},
		"500 read":             {readOne, status(500), repeated, false},
		"500 write":            {writeOne, status(500), single, true},
		"503 feed":             {readFeedOnce, status(503), repeated, false},
		"503 query":            {aQuery, status(503), repeated, false},
		"503 write":            {writeOne, status(503), single, true},
		"501 write":            {writeOne, status(501), single, false},
		"404/0":                {readOne, func() *http.Response { return reply(404, absentDocument) }, single, false},
		"404/0 feed":           {readFeedOnce, status(404), single, false},
		"404/1002":             {readOne, status(404, "x-ms-substatus", "1002"), repeated, false},
		"404/1003":             {readOne, status(404, "x-ms-substatus", "1003"), single, false},
		"409":                  {writeOne, status(409), single, false},
		"412":                  {writeOne, status(412), single, false},
		"413":                  {writeOne, status(413), single, false},
		"400":                  {readFeedOnce, status(400), single, false},
		"403":                  {readOne, status(403), single, false},
		"403/3 write":          {writeOne, status(403, "x-ms-substatus", "3"), 121, false},
		"403/1008 read":        {readOne, status(403, "x-ms-substatus", "1008"), 121, false},
		"400/1024 feed":        {readFeedOnce, status(400, "x-ms-substatus", "1024"), single, false},
		"410 feed":             {readFeedOnce, status(410), single, false},
		"410/1000 feed":        {readFeedOnce, status(410, "x-ms-substatus", "1000"), single, false},
		"410/1000 read":        {readOne, status(410, "x-ms-substatus", "1000"), 2, false},
		"410/1000 write":       {writeOne, status(410, "x-ms-substatus", "1000"), 2, false},
		"410/1002 feed":        {readFeedOnce, status(410, "x-ms-substatus", "1002"), single, false},
		"410/1007 feed":        {readFeedOnce, status(410, "x-ms-substatus", "1007"), single, false},
		"410/1008 feed":        {readFeedOnce, status(410, "x-ms-substatus", "1008"), repeated, false},
		"410/1002 write":       {writeOne, status(410, "x-ms-substatus", "1002"), repeated, false},
		"410/1007 query":       {aQuery, status(410, "x-ms-substatus", "1007"), repeated, false},
		"redirect":             {readOne, status(307, "Location", "https://evil"), single, false},
		"refused read":         {readOne, errRefused, repeated, false},
		"refused write":        {writeOne, errRefused, repeated, false},
		"no host write":        {writeOne, errNoHost, repeated, false},
		"reset read":           {readOne, errReset, repeated, false},
		"reset write":          {writeOne, errReset, single, true},
		"ended query":          {aQuery, errEnded, repeated, false},
		"ended write":          {writeOne, errEnded, single, true},
		"some error read":      {readFeedOnce, errOther, repeated, false},
		"some error write":     {writeOne, errOther, single, true},
		"certificate read":     {readOne, certificate, single, false},
		"certificate write":    {writeOne, certificate, single, false},
		"truncated feed":       {readFeedOnce, cut, repeated, false},
		"truncated read":       {readOne, cut, repeated, false},
		"not a page of a feed": {readFeedOnce, ok("<html>"), single, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t, test.answer)
				err := test.call(t.Context(), s.container())
				if err == nil {
					t.Fatal("no error")
				}
				if len(s.requests) != test.requests {
					t.Errorf("%d requests, want %d: %v", len(s.requests), test.requests, err)
				}
				if got := errors.Is(err, ErrOutcomeUnknown); got != test.unknown {
					t.Errorf("outcome unknown is %v: %v", got, err)
				}
				if cause, ok := test.answer.(error); ok && !errors.Is(err, cause) {
					t.Errorf("%v does not wrap %v", err, cause)
				}
			})
		})
	}
}

// If the second attempt succeeds, the caller does not notice the first failure.
func TestRetrySucceeds(t *testing.T) {
	for name, test := range map[string]struct {
		call   func(context.Context, *Container) error
		answer any
	}{
		"429 write":     {writeOne, status(429)},
		"449 write":     {writeOne, status(449)},
		"503 feed":      {readFeedOnce, status(503)},
		"refused write": {writeOne, errRefused},
		"reset read":    {readOne, errReset},
		"410/1000 read": {readOne, status(410, "x-ms-substatus", "1000")},
		"403/3 write":   {writeOne, status(403, "x-ms-substatus", "3")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t, test.answer, ok(emptyPage))
				if err := test.call(t.Context(), s.container()); err != nil {
					t.Fatal(err)
				}
				if len(s.requests) != 2 {
					t.Fatalf("%d requests", len(s.requests))
				}
				first, second := s.requests[0], s.requests[1]
				first.Header.Del("Authorization")
				second.Header.Del("Authorization")
				first.Header.Del("x-ms-date")
				second.Header.Del("x-ms-date")
				if diff := cmp.Diff(first.Header, second.Header); diff != "" || first.body != second.body {
					t.Errorf("repeated with %q, was %q\n%s", second.body, first.body, diff)
				}
			})
		})
	}
}

// gaps returns the waits between the requests.
func (s *service) gaps() (gaps []time.Duration) {
	for i := 1; i < len(s.requests); i++ {
		gaps = append(gaps, s.requests[i].at.Sub(s.requests[i-1].at))
	}
	return gaps
}

func TestThrottledCallWaitsAsRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t,
			status(429, "x-ms-retry-after-ms", "120"), status(429, "x-ms-retry-after-ms", "0.5"), status(429, "x-ms-retry-after-ms", "7000"), ok("{}"))
		if err := writeOne(t.Context(), s.container()); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{120 * time.Millisecond, 500 * time.Microsecond, 7 * time.Second}
		if diff := cmp.Diff(want, s.gaps()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestThrottleWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, status(429, "x-ms-substatus", "3200", "x-ms-retry-after-ms", "14000"))
		err := readOne(t.Context(), s.container())
		if len(s.requests) != 3 {
			t.Errorf("%d requests, want the third to pass 30 s", len(s.requests))
		}
		var failed *Error
		if !errors.As(err, &failed) || failed.RetryAfter != 14*time.Second || failed.SubStatus != 3200 {
			t.Errorf("got %#v", err)
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, status(449))
		if err := writeOne(t.Context(), s.container()); !isStatus(err, 449) {
			t.Fatal(err)
		}
		for i, gap := range s.gaps() {
			full := min(100*time.Millisecond<<i, 5*time.Second)
			if gap < full/2 || gap > full {
				t.Errorf("wait %d is %v, want %v to %v", i, gap, full/2, full)
			}
		}
	})
}

func TestRetryOptions(t *testing.T) {
	for name, test := range map[string]struct {
		options  policy.RetryOptions
		ctx      policy.RetryOptions
		requests int
		longest  time.Duration
	}{
		"two":         {policy.RetryOptions{MaxRetries: 2, RetryDelay: time.Second, MaxRetryDelay: 1500 * time.Millisecond}, policy.RetryOptions{}, 3, 1500 * time.Millisecond},
		"no bound":    {policy.RetryOptions{MaxRetries: 12, RetryDelay: time.Hour, MaxRetryDelay: -1}, policy.RetryOptions{}, 13, 2048 * time.Hour},
		"one bound":   {policy.RetryOptions{MaxRetries: 2, RetryDelay: time.Hour, MaxRetryDelay: time.Second}, policy.RetryOptions{}, 3, time.Second},
		"none":        {policy.RetryOptions{MaxRetries: -1}, policy.RetryOptions{}, 1, 0},
		"no delay":    {policy.RetryOptions{MaxRetries: 3, RetryDelay: -1}, policy.RetryOptions{}, 4, 0},
		"of context":  {policy.RetryOptions{MaxRetries: 1}, policy.RetryOptions{MaxRetries: 7}, 2, 100 * time.Millisecond},
		"status list": {policy.RetryOptions{MaxRetries: 1, StatusCodes: []int{400}}, policy.RetryOptions{}, 2, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t, status(503))
				c := s.client(&ClientOptions{ClientOptions: azcore.ClientOptions{Retry: test.options}}).Container("db", "c")
				err := readOne(policy.WithRetryOptions(t.Context(), test.ctx), c)
				if !isStatus(err, 503) || len(s.requests) != test.requests {
					t.Errorf("%d requests, want %d: %v", len(s.requests), test.requests, err)
				}
				for _, gap := range s.gaps() {
					if gap > test.longest {
						t.Errorf("waited %v, want at most %v", gap, test.longest)
					}
				}
			})
		})
	}
}

// A context that ends during a wait ends the call at once, with both errors.
func TestContextEndsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, status(429, "x-ms-retry-after-ms", "10000"))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := writeOne(ctx, s.container())
		if !errors.Is(err, context.DeadlineExceeded) || !isStatus(err, 429) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("took %v", waited)
		}
	})
}

// hang answers a request only when its context ends.
func hang(_ int, req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func TestContextEndsRequest(t *testing.T) {
	for name, test := range map[string]struct {
		call    func(context.Context, *Container) error
		unknown bool
	}{"read": {readOne, false}, "write": {writeOne, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t)
				s.answer = hang
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				err := test.call(ctx, s.container())
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrOutcomeUnknown) != test.unknown || len(s.requests) != 1 {
					t.Errorf("%d requests, %v", len(s.requests), err)
				}
			})
		})
	}
}

func TestEndedContextSendsNothing(t *testing.T) {
	s := newService(t, ok("{}"))
	c := s.container()
	if err := readOne(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := writeOne(ctx, c)
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) || len(s.requests) != 1 {
		t.Errorf("%d requests, %v: nothing was sent", len(s.requests), err)
	}
}

// An attempt that takes too long is canceled, its page is dropped, and it is
// retried.
func TestTryTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.answer = func(n int, req *http.Request) (*http.Response, error) {
			switch n {
			case 0:
				return hang(n, req)
			case 1:
				r := reply(200, emptyPage, "Etag", `"1"`)
				r.Body = io.NopCloser(io.MultiReader(strings.NewReader(emptyPage[:5]), stalled{req.Context()}))
				return r, nil
			}
			return ok(emptyPage)(), nil
		}
		start := time.Now()
		if err := readFeedOnce(t.Context(), s.container()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); len(s.requests) != 3 || took < 130*time.Second || took > 131*time.Second {
			t.Errorf("%d requests in %v", len(s.requests), took)
		}
	})
}

// stalled is a body that blocks until its context ends.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// A write with a successful status is a success, even if the body of its answer
// is truncated.
func TestTruncatedAnswerToWriteIsSuccess(t *testing.T) {
	s := newService(t, func() *http.Response {
		r := reply(201, `{"id`, "Etag", `"new"`)
		r.ContentLength = 500
		return r
	})
	got, err := s.container().Create(t.Context(), onePK, "{}")
	if err != nil || got.ETag != `"new"` || len(got.Body) != 0 || len(s.requests) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTooLargeAnswerIsNotRetried(t *testing.T) {
	s := newService(t, func() *http.Response {
		r := reply(200, "", "Etag", `"1"`)
		r.ContentLength = maxBody + 1
		return r
	})
	err := readFeedOnce(t.Context(), s.container())
	if !errors.Is(err, errTooLarge) || len(s.requests) != 1 {
		t.Errorf("%d requests, %v", len(s.requests), err)
	}
}

// After 410/1000 and 400/1024 no cached property or range of the container is
// used.
func TestRecreatedContainerDropsCaches(t *testing.T) {
	for name, test := range map[string]struct {
		call   func(context.Context, *Container) error
		status int
		sub    string
		again  bool
	}{
		"read":      {readOne, 410, "1000", true},
		"feed":      {readFeedOnce, 410, "1000", false},
		"other rid": {readFeedOnce, 400, "1024", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t, status(test.status, "x-ms-substatus", test.sub), ok("{}"))
				c := s.container()
				c.properties, c.ranges.etag = &ContainerProperties{ID: "old"}, `"5"`
				err := test.call(t.Context(), c)
				if test.again != (err == nil) || !test.again && !strings.Contains(err.Error(), "old continuations are not valid") {
					t.Error(err)
				}
				if c.properties != nil || !c.ranges.invalid.Load() {
					t.Error("old properties or ranges are still cached")
				}
			})
		})
	}
}

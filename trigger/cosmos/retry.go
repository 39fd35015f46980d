package cosmos

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

const (
	maxRetries    = 9                // as the official SDKs repeat a 429
	maxThrottled  = 30 * time.Second // waited for 429 in one call, as they do
	firstBackoff  = 100 * time.Millisecond
	maxBackoff    = 5 * time.Second
	tryTimeout    = 65 * time.Second // the gateway gives up after 60
	maxRegional   = 120              // tries while regions refuse, as the official SDKs ...
	regionalDelay = time.Second      // ... and a second apart
)

// retryPolicy sends an operation to a region, reads the answer, and repeats
// what is safe to repeat.
type retryPolicy struct {
	client  *Client
	options policy.RetryOptions
	token   bool
}

func newRetryPolicy(c *Client, o policy.RetryOptions, token bool) *retryPolicy {
	o.MaxRetries = max(cmp.Or(o.MaxRetries, maxRetries), 0)
	o.RetryDelay = max(cmp.Or(o.RetryDelay, firstBackoff), 0)
	if o.MaxRetryDelay = cmp.Or(o.MaxRetryDelay, maxBackoff); o.MaxRetryDelay < 0 {
		o.MaxRetryDelay = math.MaxInt64 // azcore's way to say that there is no bound
	}
	o.TryTimeout = cmp.Or(o.TryTimeout, tryTimeout)
	return &retryPolicy{client: c, options: o, token: token}
}

// Do implements azcore's policy. An answer that is not a success is returned
// as an error.
func (p *retryPolicy) Do(req *policy.Request) (*http.Response, error) {
	var op *operation
	req.OperationValue(&op)
	ctx := req.Raw().Context()
	var spent progress
	for {
		endpoints, err := p.client.regions.endpoints(ctx, op)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		endpoint := endpoints[spent.moves%len(endpoints)]
		resp, err := p.try(ctx, req, op, endpoint)
		v := judge(op, resp, err, p.token)
		if v.action == succeed {
			return resp, nil
		}
		p.learn(op, endpoint, v)
		wait, again := p.spend(&spent, v)
		failed := failure(op, resp, err, v)
		if !again || err != nil && ctx.Err() != nil {
			return resp, failed
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("%w, waiting to repeat after: %w", err, failed)
		}
	}
}

// try sends op once and reads the answer, if it is a success, into op.answer.
func (p *retryPolicy) try(ctx context.Context, req *policy.Request, op *operation, endpoint *url.URL) (*http.Response, error) {
	within := ctx
	if p.options.TryTimeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, p.options.TryTimeout)
		defer cancel()
	}
	sent := req.WithContext(within)
	raw := sent.Raw()
	to := *raw.URL
	to.Scheme, to.Host = endpoint.Scheme, endpoint.Host
	raw.URL, raw.Host = &to, endpoint.Host
	resp, err := sent.Next()
	if resp != nil {
		p.client.clock.observe(resp)
		err = p.read(op, resp)
	}
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no whole answer within %v", p.options.TryTimeout)
	}
	return resp, err
}

// read takes the body of a success. That of a write is not missed: its head
// says all.
func (p *retryPolicy) read(op *operation, resp *http.Response) error {
	if !success(resp) {
		return nil
	}
	defer resp.Body.Close()
	op.answer = &buffer{}
	if op.feed {
		op.answer = newBuffer(&p.client.buffers)
	}
	err := op.answer.read(resp)
	if err == nil {
		return nil
	}
	op.answer.release()
	op.answer = &buffer{}
	if op.write {
		return nil
	}
	return fmt.Errorf("read answer: %w", err)
}

func success(resp *http.Response) bool {
	return resp.StatusCode >= 200 && resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified
}

// failure is the error of one try.
func failure(op *operation, resp *http.Response, err error, v verdict) error {
	if err == nil {
		body, _ := runtime.Payload(resp)
		err = newError(op, resp, body)
	} else {
		err = fmt.Errorf("%s: %w", op, err)
	}
	if v.unknown {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

// learn keeps what a try told about regions and names.
func (p *retryPolicy) learn(op *operation, endpoint *url.URL, v verdict) {
	switch {
	case v.unreachable:
		p.client.regions.unreachable(endpoint.Host)
	case v.action == askRegions:
		p.client.regions.stale()
	}
	if v.recreated && op.container != nil {
		op.container.Forget()
	}
}

// progress counts what one call has spent.
type progress struct {
	tries     int // repeated, those of askRegions apart
	regional  int
	moves     int // to the next region
	failures  int // of the kind that another region may not have
	throttled time.Duration
	token     bool // a new one was asked for
	container bool // a new one was met
}

// spend tells whether a call may repeat, and after what wait.
func (p *retryPolicy) spend(s *progress, v verdict) (wait time.Duration, again bool) {
	if v.move {
		if s.failures++; s.failures > 1 {
			s.moves++
		}
	}
	switch v.action {
	case askRegions:
		s.regional++
		return regionalDelay, s.regional <= maxRegional && p.options.MaxRetries > 0
	case renewToken:
		again, s.token = !s.token && p.options.MaxRetries > 0, true
		return 0, again
	case forgetNames:
		again, s.container = !s.container && p.options.MaxRetries > 0, true
		return 0, again
	case stop:
		return 0, false
	}
	s.tries++
	wait = v.wait
	if wait == 0 {
		wait = p.backoff(s.tries)
	}
	if v.action == throttle {
		s.throttled += wait
	}
	return wait, int32(s.tries) <= p.options.MaxRetries && s.throttled <= maxThrottled
}

// backoff doubles with each try up to its bound, and takes between half of that
// and all of it.
func (p *retryPolicy) backoff(tries int) time.Duration {
	d, bound := p.options.RetryDelay, p.options.MaxRetryDelay
	for range tries - 1 {
		if d > bound/2 {
			d = bound
			break
		}
		d *= 2
	}
	d = min(d, bound)
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d, or returns the error of ctx as soon as it ends.
func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

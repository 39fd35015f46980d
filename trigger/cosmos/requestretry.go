package cosmos

import (
	"cmp"
	"context"
	"errors"
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
	maxRetries    = 9                // as often as the official SDKs retry a 429
	maxThrottled  = 30 * time.Second // total wait for 429 in one call, as in the official SDKs
	firstBackoff  = 100 * time.Millisecond
	maxBackoff    = 5 * time.Second
	tryTimeout    = 65 * time.Second // the gateway times out after 60 s
	maxRegional   = 120              // retries while regions reject a request, as in the official SDKs
	regionalDelay = time.Second      // between these retries
)

// statusRetryWith is the service's answer to a write that met another one: repeat it.
const statusRetryWith = 449

// errNoAnswer is in the error of an attempt that took too long.
var errNoAnswer = errors.New("no complete answer")

type throttleKey struct{}

// WithoutThrottleRetries returns a context whose calls return an answer with status
// 429 or 449 at once, for callers that do something else meanwhile. They wait
// for [Error.RetryAfter] themselves.
func WithoutThrottleRetries(ctx context.Context) context.Context {
	return context.WithValue(ctx, throttleKey{}, true)
}

type retriesUntilKey struct{}

// WithRetriesUntil returns a context whose calls are not sent again once bound has
// ended. A request that is under way continues until ctx ends.
func WithRetriesUntil(ctx, bound context.Context) context.Context {
	return context.WithValue(ctx, retriesUntilKey{}, bound)
}

// retryPolicy sends an operation to a region, reads the answer, and retries if
// that is safe.
type retryPolicy struct {
	client  *Client
	options policy.RetryOptions
	token   bool
}

func newRetryPolicy(c *Client, o policy.RetryOptions, token bool) *retryPolicy {
	o.MaxRetries = max(cmp.Or(o.MaxRetries, maxRetries), 0)
	o.RetryDelay = max(cmp.Or(o.RetryDelay, firstBackoff), 0)
	if o.MaxRetryDelay = cmp.Or(o.MaxRetryDelay, maxBackoff); o.MaxRetryDelay < 0 {
		o.MaxRetryDelay = math.MaxInt64 // in azcore a negative value means no bound
	}
	o.TryTimeout = cmp.Or(o.TryTimeout, tryTimeout)
	return &retryPolicy{client: c, options: o, token: token}
}

// Do implements azcore's policy.
func (p *retryPolicy) Do(req *policy.Request) (*http.Response, error) {
	var op *operation
	req.OperationValue(&op)
	return p.run(req.Raw().Context(), op, func(ctx context.Context, endpoint *url.URL) (*http.Response, error) {
		sent := req.WithContext(ctx)
		raw := sent.Raw()
		to := *raw.URL
		to.Scheme, to.Host = endpoint.Scheme, endpoint.Host
		raw.URL, raw.Host = &to, endpoint.Host
		return sent.Next()
	})
}

// attempt sends an operation to an endpoint once, and returns the head of the answer.
type attempt func(ctx context.Context, endpoint *url.URL) (*http.Response, error)

// run makes attempts until the answer is final. If it is not a success, the error describes it.
func (p *retryPolicy) run(ctx context.Context, op *operation, send attempt) (*http.Response, error) {
	var used retryUsage
	var to route
	for {
		var err error
		if used.moves == 0 {
			if to, err = p.client.regions.route(ctx, op); err != nil {
				return nil, used.withRefusal(fmt.Errorf("%s: %w", op, err))
			}
		}
		endpoint := to.endpoints[used.regionShift%len(to.endpoints)]
		resp, err := p.try(ctx, send, op, endpoint, used.headTimeout(op, len(to.endpoints)))
		decision := decideRetry(op, resp, err, p.token)
		if to.movable {
			p.recordPlacement(ctx, op, to, endpoint, used.moves, resp, decision)
		}
		if decision.action == succeed {
			return resp, nil
		}
		if decision.silent {
			used.silent++
		}
		wait, retry := time.Duration(0), p.options.MaxRetries > 0
		if !used.move(to, decision) {
			p.recordFindings(op, endpoint, decision)
			wait, retry = p.planRetry(&used, decision)
			if to.movable { // its next route begins elsewhere if answers are lost
				used.regionShift = 0
			}
			retry = retry && !(!op.write && used.isBehindIn(len(to.endpoints), decision))
		}
		if resp != nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == statusRetryWith) && ctx.Value(throttleKey{}) != nil {
			retry = false
		}
		failed := p.failure(op, resp, err, decision)
		if !retry || err != nil && ctx.Err() != nil {
			return resp, used.withRefusal(failed)
		}
		if throttled, _ := IsThrottled(failed); throttled && !op.write {
			used.refusal, op.throttled = failed, true
		}
		if err := sleepBeforeRetry(ctx, wait); err != nil {
			return nil, fmt.Errorf("%w, while waiting to retry after: %w", err, failed)
		}
	}
}

// try sends op once. If the answer is a success, try reads it into op.answer. If headTimeout is not
// zero, the head of the answer must arrive in that time.
func (p *retryPolicy) try(ctx context.Context, send attempt, op *operation, endpoint *url.URL, headTimeout time.Duration) (*http.Response, error) {
	if op.feed {
		select {
		case p.client.feedSlots <- struct{}{}:
			defer func() { <-p.client.feedSlots }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	attemptCtx, timeout := ctx, p.options.TryTimeout
	if timeout > 0 && !endsWithin(ctx, timeout) {
		var cancel context.CancelFunc
		attemptCtx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	stopWaiting := func() bool { return true }
	if headTimeout > 0 {
		var cancel context.CancelFunc
		attemptCtx, cancel = context.WithCancel(attemptCtx)
		defer cancel()
		stopWaiting = time.AfterFunc(headTimeout, cancel).Stop
	}
	resp, err := send(attemptCtx, endpoint)
	stopWaiting()
	if resp != nil {
		op.date = p.client.clock.observe(resp)
		op.charge += charge(resp.Header)
		if op.container != nil && isAnsweredByRange(op, resp) {
			op.container.observeAnswer(resp)
		}
		err = p.read(op, resp)
	}
	if err != nil && attemptCtx.Err() != nil && ctx.Err() == nil {
		if resp == nil && headTimeout > 0 {
			timeout = headTimeout
		}
		err = fmt.Errorf("%w within %v", errNoAnswer, timeout)
	}
	return resp, err
}

// endsWithin reports whether ctx ends after d or earlier. A context that ends then would not be an
// earlier end, and cost most of the allocations of an attempt.
func endsWithin(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= d
}

// isAnsweredByRange reports whether an answer is from a range of the container. All others,
// also about documents of a missing container, are from the master partition, whose session
// tokens look the same: 0:-1#45 (recorded answer of a hosted account, October 2026).
func isAnsweredByRange(op *operation, resp *http.Response) bool {
	return op.kind == "docs" && (resp.StatusCode != http.StatusNotFound || substatus(resp) == subSessionBehind)
}

// read reads the body of an answer: that of an error, which failure describes, stays in resp. It is
// called before the attempt's context ends, which would close a connection with an unread body. An
// error while reading the answer to a write is ignored: its status and headers are complete.
func (p *retryPolicy) read(op *operation, resp *http.Response) error {
	if !isSuccess(resp) {
		_, _ = runtime.Payload(resp) // the status counts
		return nil
	}
	defer resp.Body.Close()
	if op.feed && resp.StatusCode == http.StatusNotModified {
		return nil // most answers of an idle range: they take no buffer
	}
	op.answer = &buffer{}
	if op.feed {
		op.answer = p.client.buffers.take()
	}
	err := op.answer.read(resp, op.admit)
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

// failure returns the error of one attempt.
func (p *retryPolicy) failure(op *operation, resp *http.Response, err error, decision retryDecision) error {
	if err == nil {
		body, _ := runtime.Payload(resp)
		answer := newError(op, resp, body)
		answer.Account = p.client.endpoint
		if answer.ContainerMissing && op.container != nil {
			op.container.Forget()
		}
		err = answer
	} else {
		err = fmt.Errorf("%s: %w", op, err)
	}
	if decision.outcomeUnknown {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

// recordFindings tells regions and the container about the result of an
// attempt.
func (p *retryPolicy) recordFindings(op *operation, endpoint *url.URL, decision retryDecision) {
	switch {
	case decision.unreachable, decision.silent:
		p.client.regions.markUnreachable(endpoint.Host)
	case decision.action == rereadAccount:
		p.client.regions.markStale()
	}
	if decision.recreated && op.container != nil {
		op.container.Forget()
	}
}

// recordPlacement tells the container in which region an attempt was answered, or not. Refusals
// for the rate, conflicts and other such answers are those of a range that is there.
func (p *retryPolicy) recordPlacement(ctx context.Context, op *operation, to route, endpoint *url.URL, moves int, resp *http.Response, decision retryDecision) {
	c := op.container
	lost, refused := resp == nil || decision.nextRegion || decision.outcomeUnknown, decision.action == rereadAccount
	switch {
	case lost && ctx.Err() != nil: // the caller has ended it
	case lost, refused:
		c.placements.inUse.Store(true)
		if refused { // not if a region is silent: that may be the one that is asked for the ranges
			c.locate(ctx)
		}
		c.placements.failed(c.rangeOf(op), to.endpoints, endpoint, refused)
	case isAnsweredByWriter(resp):
		id := c.rangeOf(op)
		switch {
		case !op.write:
			c.placements.read(id, endpoint.Host, moves > 0)
		case c.placements.wrote(id, endpoint.Host, to.first, c.client.regions.baseline(time.Duration(c.pinnedFor.Load())), c.sessions.version(id)):
			p.client.regions.markStale() // the whole account may have failed over
		}
	}
}

// isAnsweredByWriter reports whether an answer to a write shows that its range takes writes there. A
// gateway that denies or throttles a request shows nothing.
func isAnsweredByWriter(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, statusRetryWith:
		return true
	}
	return isSuccess(resp)
}

// retryUsage counts the retries of one call.
type retryUsage struct {
	retries      int           // those of rereadAccount not included
	regional     int           // retries of rereadAccount
	regionShift  int           // how many regions down the list the next attempt goes
	moves        int           // attempts that went on in the next region at once, since the last wait
	failures     int           // that another region may not have
	silent       int           // attempts that no answer came to in time
	behind       int           // answers from behind the session
	throttled    time.Duration // total wait for 429
	refusal      error         // last answer to this read that was 429, 449 or 503, or nil
	tokenRenewed bool
	cacheDropped bool
}

// move reports whether the call tries the next region at once. Once all have been asked, it
// waits, and begins again with the first one.
func (u *retryUsage) move(to route, decision retryDecision) bool {
	if !to.movable {
		return false
	}
	if !decision.isElsewhere() || u.moves >= len(to.endpoints)-1 {
		u.moves, u.regionShift = 0, 0
		return false
	}
	u.moves++
	u.regionShift++
	return true
}

// headTimeout returns how long the next attempt waits for the head of an answer, while another of
// so many regions may answer: longer once all have been silent. It is zero if there is only one, and
// for requests whose answers may take their time.
func (u *retryUsage) headTimeout(op *operation, regions int) time.Duration {
	if regions < 2 || !op.isQuick() {
		return 0
	}
	return quickTimeout << min(u.silent/regions, 4)
}

// isBehindIn counts an answer from behind the session, and reports whether each of several regions
// has been asked twice: then a failover may have lost the session, and the caller finds out.
func (u *retryUsage) isBehindIn(regions int, decision retryDecision) bool {
	if !decision.behind || regions < 2 {
		return false
	}
	u.behind++
	u.regionShift = u.behind
	return u.behind >= 2*regions
}

// withRefusal adds the last refusal to the error of a read whose last attempt got no
// answer, for example because the caller's context ended. Otherwise a service that
// throttles would look like one that cannot be reached.
func (u *retryUsage) withRefusal(err error) error {
	if status, _ := Status(err); u.refusal == nil || status != 0 {
		return err
	}
	return fmt.Errorf("%w, in a retry after: %w", err, u.refusal)
}

// planRetry counts an attempt and reports whether the call may retry, and after
// which wait.
func (p *retryPolicy) planRetry(u *retryUsage, decision retryDecision) (wait time.Duration, retry bool) {
	if decision.nextRegion && !decision.silent { // a silent region comes last in the next route
		if u.failures++; u.failures > 1 {
			u.regionShift++
		}
	}
	switch decision.action {
	case rereadAccount:
		u.regional++
		return regionalDelay, u.regional <= maxRegional && p.options.MaxRetries > 0
	case renewToken:
		retry, u.tokenRenewed = !u.tokenRenewed && p.options.MaxRetries > 0, true
		return 0, retry
	case dropCaches:
		retry, u.cacheDropped = !u.cacheDropped && p.options.MaxRetries > 0, true
		return 0, retry
	case stop:
		return 0, false
	}
	u.retries++
	wait = decision.wait
	if wait == 0 {
		wait = p.backoff(u.retries)
	}
	if decision.action == throttle {
		u.throttled += wait
	}
	return wait, int32(u.retries) <= p.options.MaxRetries && u.throttled <= maxThrottled
}

// backoff returns the wait before a retry: it doubles with each retry up to its
// bound, and the upper half is jitter.
func (p *retryPolicy) backoff(retries int) time.Duration {
	d, bound := p.options.RetryDelay, p.options.MaxRetryDelay
	for range retries - 1 {
		if d > bound/2 {
			d = bound
			break
		}
		d *= 2
	}
	d = min(d, bound)
	return d/2 + rand.N(d/2+1)
}

// sleepBeforeRetry waits for d, or returns an error as soon as ctx, or the context
// that bounds its retries, ends.
func sleepBeforeRetry(ctx context.Context, d time.Duration) error {
	bound, bounded := ctx.Value(retriesUntilKey{}).(context.Context)
	if !bounded {
		return sleep(ctx, d)
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(bound, cancel)()
	if err := sleep(waiting, d); err != nil {
		return err
	}
	return bound.Err()
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

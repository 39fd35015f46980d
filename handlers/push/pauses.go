package push

import (
	"context"
	"maps"
	"sync"
	"time"
)

// pauses holds back requests to endpoints until the time that their push service
// gave in Retry-After.
type pauses struct {
	longest time.Duration // no pause is longer

	mu    sync.Mutex       // guards until
	until map[string]pause // by endpoint
}

type pause struct {
	end     time.Time
	refusal StatusError
}

// wait returns nil when the pause of the endpoint has ended, at once if there is
// none. If ctx ends earlier, it returns the refusal again; if ctx has a deadline
// before that time, it does not wait for it.
func (p *pauses) wait(ctx context.Context, endpoint string) error {
	for {
		refusal := p.check(endpoint)
		if refusal == nil {
			return nil
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= refusal.RetryAfter {
			return refusal
		}
		select {
		case <-time.After(refusal.RetryAfter):
		case <-ctx.Done():
			return refusal
		}
	}
}

// check returns the refusal of an endpoint while it is paused, or nil.
func (p *pauses) check(endpoint string) *StatusError {
	p.mu.Lock()
	defer p.mu.Unlock()
	paused, ok := p.until[endpoint]
	if !ok {
		return nil
	}
	left := time.Until(paused.end)
	if left <= 0 {
		delete(p.until, endpoint)
		return nil
	}
	refusal := paused.refusal
	refusal.RetryAfter = left
	return &refusal
}

// add pauses an endpoint if its push service sent Retry-After.
func (p *pauses) add(endpoint string, refusal *StatusError) {
	if refusal.RetryAfter == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.until == nil {
		p.until = make(map[string]pause)
	}
	for other, paused := range p.until {
		if paused.end.Before(now) {
			delete(p.until, other)
		}
	}
	p.until[endpoint] = pause{now.Add(min(refusal.RetryAfter, p.longest)), *refusal}
}

// cooldownTime is how long an endpoint gets no request after it has not answered
// one in time.
const cooldownTime = 5 * time.Minute

// cooldowns are the endpoints that get no request, because they have not answered
// one in time. The zero value is empty; it is safe for concurrent use.
type cooldowns struct {
	mu    sync.Mutex           // guards until
	until map[string]time.Time // by endpoint
}

func (c *cooldowns) add(endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.until == nil {
		c.until = make(map[string]time.Time)
	}
	maps.DeleteFunc(c.until, func(_ string, end time.Time) bool { return !end.After(now) })
	c.until[endpoint] = now.Add(cooldownTime)
}

func (c *cooldowns) contain(endpoint string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.until[endpoint])
}

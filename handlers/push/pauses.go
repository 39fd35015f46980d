package push

import (
	"context"
	"slices"
	"sync"
	"time"
)

// pauses keeps endpoints that asked for a rest from being asked again too
// early.
type pauses struct {
	longest time.Duration // no pause is longer

	mu    sync.Mutex
	until map[string]pause // by endpoint
}

type pause struct {
	end     time.Time
	refusal StatusError
}

// wait returns when the endpoint may be asked, which may be at once. Where ctx
// ends before that it repeats the refusal, without waiting if ctx has a deadline.
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

// check is the refusal of an endpoint that is still at rest, or nil.
func (p *pauses) check(endpoint string) *StatusError {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest, ok := p.until[endpoint]
	if !ok {
		return nil
	}
	left := time.Until(rest.end)
	if left <= 0 {
		delete(p.until, endpoint)
		return nil
	}
	refusal := rest.refusal
	refusal.RetryAfter = left
	return &refusal
}

// note remembers a refusal that says when to come again.
func (p *pauses) note(endpoint string, refusal *StatusError) {
	if refusal.RetryAfter == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.until == nil {
		p.until = make(map[string]pause)
	}
	for other, rest := range p.until {
		if rest.end.Before(now) {
			delete(p.until, other)
		}
	}
	p.until[endpoint] = pause{now.Add(min(refusal.RetryAfter, p.longest)), *refusal}
}

// order is devices with those at rest at the end, the longest rest last.
func (p *pauses) order(devices []Subscription) []Subscription {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(devices), func(a, b Subscription) int {
		return p.until[a.Endpoint].end.Compare(p.until[b.Endpoint].end)
	})
}

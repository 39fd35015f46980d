package push

import (
	"net/url"
	"sync"
	"time"
)

// pauses keeps endpoints that asked for a rest from being asked again too
// early: until then the same refusal is repeated without a request.
type pauses struct {
	longest time.Duration // no pause is longer

	mu    sync.Mutex
	until map[string]pause // by endpoint
}

type pause struct {
	end     time.Time
	refusal StatusError
}

// check repeats the refusal of an endpoint that is still at rest.
func (p *pauses) check(endpoint *url.URL) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest, ok := p.until[endpoint.String()]
	if !ok {
		return nil
	}
	left := time.Until(rest.end)
	if left <= 0 {
		delete(p.until, endpoint.String())
		return nil
	}
	refusal := rest.refusal
	refusal.RetryAfter = left
	return &refusal
}

// note remembers a refusal that says when to come again.
func (p *pauses) note(endpoint *url.URL, refusal *StatusError) {
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
	p.until[endpoint.String()] = pause{now.Add(min(refusal.RetryAfter, p.longest)), *refusal}
}

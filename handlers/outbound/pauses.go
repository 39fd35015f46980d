package outbound

import (
	"context"
	"sync"
	"time"
)

// Pauses hold back requests to targets until the time that the server gave in
// Retry-After. A target is an endpoint, a device, or whatever the server refused. They
// are safe for concurrent use.
type Pauses struct {
	Longest time.Duration // no pause is longer

	mu    sync.Mutex       // guards until
	until map[string]pause // by target
}

type pause struct {
	end     time.Time
	refusal StatusError
}

// Wait returns nil when the pause of the target has ended, at once if there is
// none. If ctx ends earlier, it returns the refusal again, a [*StatusError]; if ctx
// has a deadline before that time, it does not wait for it.
func (p *Pauses) Wait(ctx context.Context, target string) error {
	for {
		refusal := p.check(target)
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

// check returns the refusal of a target while it is paused, or nil.
func (p *Pauses) check(target string) *StatusError {
	p.mu.Lock()
	defer p.mu.Unlock()
	paused, ok := p.until[target]
	if !ok {
		return nil
	}
	remaining := time.Until(paused.end)
	if remaining <= 0 {
		delete(p.until, target)
		return nil
	}
	refusal := paused.refusal
	refusal.RetryAfter = remaining
	return &refusal
}

// Add pauses a target if its server sent Retry-After.
func (p *Pauses) Add(target string, refusal *StatusError) {
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
	p.until[target] = pause{now.Add(min(refusal.RetryAfter, p.Longest)), *refusal}
}

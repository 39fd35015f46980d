package triggertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"halley/trigger"
)

// errTrouble is the error of a call that fails on purpose.
var errTrouble = errors.New("failed on purpose by triggertest")

// strike makes a call that meets the trouble of an episode. done is the number of
// changes that the handler gets before it.
type strike func(ctx context.Context, b trigger.Batch, done int, call trigger.Handler) error

// meet returns the trouble of an episode for a host: the first call with the target
// meets it, or the first calls if it is one that repeats.
func (r *run) meet(h *Host, e episode, strike strike) trouble {
	drain, struck := r.drains, 0
	return func(ctx context.Context, b trigger.Batch, call trigger.Handler) error {
		r.mu.Lock()
		if r.holdsPoisoned(b) {
			r.mu.Unlock()
			return errTrouble
		}
		if !e.kind.meetsCall() || struck == e.times || !holds(b, e.target) {
			r.mu.Unlock()
			return call(ctx, b)
		}
		struck++
		done := e.part(len(b.Changes))
		r.tell(drain, h, e.describe(done, len(b.Changes)))
		if e.kind == failsForever {
			r.poisoned[e.target] = true
		}
		r.mu.Unlock()
		return strike(ctx, b, done, call)
	}
}

// meetsCall reports whether trouble of that kind happens in a handler call.
func (k troubleKind) meetsCall() bool { return k != quiet && k != diesIdle }

// tell notes trouble for the report. The caller holds mu.
func (r *run) tell(drain int, h *Host, text string) {
	r.met = append(r.met, fmt.Sprintf("drain %d: %s %s", drain, h.name, text))
}

func holds(b trigger.Batch, id string) bool {
	return slices.ContainsFunc(b.Changes, func(c trigger.Change) bool { return c.ID() == id })
}

// holdsPoisoned reports whether a change of the batch fails until the end. The caller
// holds mu.
func (r *run) holdsPoisoned(b trigger.Batch) bool {
	return slices.ContainsFunc(b.Changes, func(c trigger.Change) bool { return r.poisoned[c.ID()] })
}

// part is the number of changes of a batch that the handler gets before the trouble:
// often all of them. A late delivery needs one that is late.
func (e episode) part(size int) int {
	limit := size
	if e.kind == deliversLate {
		limit--
	}
	return min(int(math.Round(e.share*float64(size))), limit)
}

func (e episode) describe(done, size int) string {
	in := fmt.Sprintf("the call with document %s", e.target)
	position := fmt.Sprintf("after %d of %d changes of %s", done, size, in)
	switch e.kind {
	case diesInCall:
		return "is killed " + position + ", and the range's position before this drain holds"
	case deliversLate:
		return fmt.Sprintf("pauses %s, and delivers the others in the old epoch %s", position, e.moment)
	case failsHalfway:
		return "fails " + position
	case failsForever:
		return "fails " + position + ", and on this document until dead letters are replayed at the end"
	case failsInside:
		return "makes " + in + " several times, each of which fails at a later point of its effect,"
	case losesContext:
		return "makes " + in + " with a context that has ended"
	case splitsRange:
		return "meets a split in " + in
	case mergesRanges:
		return "meets a merge in " + in
	}
	return ""
}

// strike is the trouble of one host.
func (r *run) strike(h *Host, e episode) strike {
	return func(ctx context.Context, b trigger.Batch, done int, call trigger.Handler) error {
		switch e.kind {
		case diesInCall:
			_ = callPart(ctx, b, 0, done, call) // its verdict does not count
			h.Kill()
			return errDied
		case failsHalfway, failsForever:
			_ = callPart(ctx, b, 0, done, call) // a verdict on a part is none on the batch
			return errTrouble
		case failsInside:
			return r.w.failInside(ctx, b, e.seed, call)
		case losesContext:
			ended, cancel := context.WithCancelCause(ctx)
			cancel(errTrouble)
			return call(ended, b)
		case splitsRange:
			ids := r.w.Ranges()
			r.w.Split(ids[len(b.Changes)%len(ids)])
		case mergesRanges:
			if ids := r.w.Ranges(); len(ids) > 1 {
				r.w.Merge(ids[:2]...)
			}
		}
		return call(ctx, b)
	}
}

// callPart calls the handler with some changes of a batch, if there are any.
func callPart(ctx context.Context, b trigger.Batch, from, to int, call trigger.Handler) error {
	if from == to {
		return nil
	}
	b.Changes = slices.Clone(b.Changes[from:to])
	return call(ctx, b)
}

// drainLate acts out a late delivery by a former owner. Host A pauses in a call, its
// leases expire, more changes are written, and host B acquires the leases. While B
// works, or when it has caught up, A continues the call in the old epoch, and ends.
func (r *run) drainLate(e episode, later []step) {
	r.t.Helper()
	a, p := r.beginDrain(), newPause()
	stopA := r.stopHost
	r.host = nil
	a.trouble = r.meet(a, e, p.strike)
	var working sync.WaitGroup
	working.Go(func() {
		a.Drain()
		p.reach() // if no call was met
		p.end()
	})
	<-p.reached
	r.write(later)
	r.w.ExpireLeases()
	b := r.beginDrain()
	b.trouble = p.resumeIn(e.moment, r.meet(b, episode{}, nil))
	b.Drain()
	p.resume()
	working.Wait()
	a.Kill()
	r.killed = append(r.killed, stopA)
}

// pause is a host's pause in a call. Each channel is closed by its function, which may
// be called several times.
type pause struct {
	reached, resumed, ended chan struct{}
	reach, resume, end      func()
}

func newPause() *pause {
	p := &pause{reached: make(chan struct{}), resumed: make(chan struct{}), ended: make(chan struct{})}
	p.reach = sync.OnceFunc(func() { close(p.reached) })
	p.resume = sync.OnceFunc(func() { close(p.resumed) })
	p.end = sync.OnceFunc(func() { close(p.ended) })
	return p
}

// strike pauses before the changes that are delivered late.
func (p *pause) strike(ctx context.Context, b trigger.Batch, done int, call trigger.Handler) error {
	defer p.end()
	if callPart(ctx, b, 0, done, call) != nil {
		return errTrouble
	}
	p.reach()
	<-p.resumed
	return callPart(ctx, b, done, len(b.Changes), call)
}

// resumeIn ends the pause at a moment of the next owner's work, and waits for the late
// delivery.
func (p *pause) resumeIn(moment lateMoment, next trouble) trouble {
	return func(ctx context.Context, b trigger.Batch, call trigger.Handler) error {
		if moment == beforeFirstCall {
			p.resume()
			<-p.ended
		}
		err := next(ctx, b, call)
		if moment == afterFirstCall {
			p.resume()
			<-p.ended
		}
		return err
	}
}

package delivery

import (
	"context"
	"errors"
	"time"

	"halley/trigger/internal/backoff"
)

// lane is one of several ordered queues of a range. It cuts the changes that come
// in into batches, and finishes each before it begins the next. Changes of one
// order key are always in one lane. One goroutine owns a lane.
type lane struct {
	*core
	index    int
	waiting  []*Item
	oldest   time.Time // arrival of the first waiting change
	closed   bool      // no more changes come in
	failures int       // failed calls since the last success
}

// group is a part of a batch that is delivered in one call.
type group struct {
	items          []*Item
	retry          RetryState
	suspect        bool // see isolation.go
	breakerApplied bool // it has already waited for the circuit breaker
}

var errWindowOver = errors.New("batching window is over")

// run delivers until the source is closed and everything is finished: nil.
// Otherwise it returns why no further delivery may begin.
func (l *lane) run(ctx, held context.Context, from source) error {
	for {
		if err := l.fill(ctx, from); err != nil {
			return err
		}
		if len(l.waiting) == 0 {
			return nil
		}
		if err := l.settle(ctx, held, l.cut(), nil); err != nil {
			return err
		}
	}
}

// fill waits until there is a batch: enough changes or bytes, or the end of the
// batching window, counted from the arrival of the first waiting change. With
// nothing waiting it returns only if no more changes come.
func (l *lane) fill(ctx context.Context, from source) error {
	var window *time.Timer
	for !l.closed && !l.full() {
		var over <-chan time.Time
		if len(l.waiting) > 0 {
			if window == nil {
				window = time.NewTimer(l.config.BatchWindow - time.Since(l.oldest))
				defer window.Stop()
			}
			over = window.C
		}
		more, open, err := from(ctx, over)
		if errors.Is(err, errWindowOver) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(l.waiting) == 0 {
			l.oldest = time.Now()
		}
		l.waiting = append(l.waiting, more...)
		l.closed = !open
	}
	return context.Cause(ctx)
}

func (l *lane) full() bool {
	if len(l.waiting) == 0 {
		return false
	}
	earlier := l.waiting[0].resumes
	return l.size() < len(l.waiting) || len(l.waiting) >= l.config.BatchItems || earlier != nil && len(l.waiting) >= earlier.Size
}

// size is the number of waiting changes that the next batch takes. A group with a
// history of an earlier owner is a batch of its own.
func (l *lane) size() int {
	bytes, most := 0, l.config.BatchItems
	earlier := l.waiting[0].resumes
	if earlier != nil {
		most = min(most, max(earlier.Size, 1))
	}
	for i, c := range l.waiting {
		bytes += c.Size()
		if i == 0 {
			continue
		}
		if i == most || bytes > l.config.BatchBytes || c.resumes != nil || earlier != nil && !earlier.holds(c) {
			return i
		}
	}
	return len(l.waiting)
}

// cut takes the next batch off the waiting changes.
func (l *lane) cut() *group {
	n := l.size()
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	l.oldest = time.Now()
	return l.resume(batch)
}

// resume returns the group of these changes, with the history that an earlier
// owner has saved. In a merged range LSNs do not tell which changes were in a
// group, so several changes start from zero there.
func (l *lane) resume(batch []*Item) *group {
	g := &group{items: batch}
	earlier := batch[0].resumes
	if earlier == nil {
		return g
	}
	g.retry = l.retries.state(earlier)
	if len(batch) > 1 && l.config.Merged {
		g.retry = RetryState{Tries: g.retry.Tries}
		return g
	}
	l.failures = max(l.failures, earlier.Failures)
	return g
}

// settle finishes a batch. It fails in parts: a group that failed is halved, and
// the first half comes before the second, so that order is kept and a poison
// change ends up alone.
func (l *lane) settle(ctx, held context.Context, batch *group, in *isolation) error {
	stack := []*group{batch} // the next group is the last
	for len(stack) > 0 {
		g := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		again, err := l.deliver(ctx, held, g, in)
		if err != nil {
			return err
		}
		stack = append(stack, again...)
	}
	return nil
}

// settleSuspect finishes one change that may end the process.
func (l *lane) settleSuspect(ctx, held context.Context, c *Item, in *isolation) error {
	g := l.resume([]*Item{c})
	g.suspect = true
	return l.settle(ctx, held, g, in)
}

// deliver makes one call with a group and returns the groups to deliver next, the
// next one last.
func (l *lane) deliver(ctx, held context.Context, g *group, in *isolation) (again []*group, err error) {
	if g.items, err = l.withoutBlocked(ctx, g.items); err != nil || len(g.items) == 0 {
		return nil, err
	}
	switch a := Decide(g.summary(), Verdict{}, l.state(), l.config.Policy, time.Now()); a.Step {
	case GiveUp:
		return nil, l.deadLetter(ctx, g.items, g.retry.Tries, a.Reason)
	case Isolate:
		if err := in.enter(ctx, g, l.failures); err != nil {
			return nil, err
		}
		defer in.leave()
	}
	if err := l.mayDeliver(ctx); err != nil { // last: the store and the suspect slot may have been slow
		return nil, err
	}
	v := l.calls.Handle(held, l.index, g.items, g.retry.Tries+1)
	g.retry.Tries++
	if g.suspect {
		in.leave()
		g.suspect = false
	}
	return l.after(ctx, held, g, v)
}

// after counts the changes that a call handled and acts on the decision about the
// others.
func (l *lane) after(ctx, held context.Context, g *group, v Verdict) (again []*group, err error) {
	failed, handled := v.split(g.items)
	l.finish(handled)
	if len(failed) == 0 {
		l.succeeded()
		if v.Checkpoint {
			l.progress.request(handled[len(handled)-1].Seq)
		}
		return nil, nil
	}
	cause := context.Cause(held)
	switch {
	case v.Outcome == Hung:
	case cause != nil:
		v.Outcome = Interrupted
	case len(handled) > 0 && v.Outcome == Failed: // the others are a new group
		l.succeeded()
		g = &group{retry: RetryState{Tries: g.retry.Tries, Since: g.retry.Since}}
	}
	g.items = failed
	a := Decide(g.summary(), v, l.state(), l.config.Policy, time.Now())
	l.failures = a.Failures
	if a.Reason != nil && a.Step != GiveUp {
		l.calls.Problem(l.index, a.Reason)
	}
	return l.act(ctx, g, v, a, cause)
}

// act carries out the decision after a failed call.
func (l *lane) act(ctx context.Context, g *group, v Verdict, a Action, cause error) (again []*group, err error) {
	half := g.items[:max(len(g.items)/2, 1)]
	switch a.Step {
	case GiveUp:
		if v.Outcome != GivenUp {
			l.retries.save(g.items, a.Retry, a.Failures) // the store may fail for longer than this owner lasts
			l.breaker.count(len(g.items))
		}
		return nil, l.deadLetter(ctx, g.items, g.retry.Tries, a.Reason)
	case Release:
		first := g.items
		if l.config.splits(len(first)) {
			first = half
		}
		l.retries.save(first, a.Retry, a.Failures)
		if v.Outcome == Hung {
			return nil, v.Err
		}
		return nil, cause
	case Split:
		second := &group{items: g.items[len(half):], retry: RetryState{Tries: g.retry.Tries}}
		first := &group{items: half, retry: a.Retry}
		again = []*group{second, first}
	default:
		again = []*group{{items: g.items, retry: a.Retry, breakerApplied: a.BreakerApplied}}
	}
	next := again[len(again)-1]
	l.retries.save(next.items, next.retry, a.Failures)
	return again, backoff.Sleep(ctx, a.Wait)
}

// succeeded resets the failures in a row: the sink accepts changes.
func (l *lane) succeeded() {
	l.failures = 0
	l.breaker.reset()
}

func (g *group) summary() Group {
	return Group{Size: len(g.items), Suspect: g.suspect, BreakerApplied: g.breakerApplied, Retry: g.retry}
}

func (l *lane) state() LaneState {
	return LaneState{Failures: l.failures, GivenUp: l.breaker.inARow()}
}

// mayDeliver returns once a delivery may begin, or the reason why none may.
func (l *lane) mayDeliver(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return l.calls.WaitTrusted(ctx)
}

// split separates the changes that a call did not handle from those that it did.
func (v Verdict) split(items []*Item) (failed, handled []*Item) {
	switch {
	case v.Outcome == Handled:
		return nil, items
	case v.Outcome == Hung || v.Failed == nil:
		return items, nil
	}
	next := 0
	for _, c := range items {
		if next < len(v.Failed) && v.Failed[next] == c {
			next++
		} else {
			handled = append(handled, c)
		}
	}
	return v.Failed, handled
}

package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"halley/trigger/internal/backoff"

	"go.uber.org/zap"
)

// lane is one of several ordered queues inside a leased range. It cuts what
// comes in into batches and brings each to its end, handled or dead-lettered,
// before the next begins. Changes of one key are always in one lane.
type lane struct {
	worker   *worker
	index    int
	incoming chan []*pending
	waiting  []*pending
	oldest   time.Time // when the first of waiting came in
	closed   bool      // nothing more comes in

	failures int // handler calls that failed since the last success
}

// group is a part of a batch that is delivered in one call.
type group struct {
	changes  []*pending
	tries    int       // calls so far, over all sizes; the next is attempt tries+1
	attempts int       // calls that failed with this very group
	since    time.Time // of the first failure
	paused   bool      // the breaker has had its say
	stuck    bool      // the last call did not return
	deaths   int       // owners that ended during a call with it, this one included should it end now
}

// run delivers until the lane is closed and empty: nil. Otherwise it returns
// why no further delivery may begin.
func (l *lane) run(ctx, held context.Context) error {
	for {
		if err := l.fill(ctx); err != nil {
			return err
		}
		if len(l.waiting) == 0 {
			return nil
		}
		if err := l.settle(ctx, held, l.cut()); err != nil {
			return err
		}
	}
}

// fill waits until there is a batch: enough changes or bytes, or the batching
// window, counted from the first waiting change, is over. A lane with nothing
// waiting returns only when it is closed.
func (l *lane) fill(ctx context.Context) error {
	var window *time.Timer
	for !l.closed && !l.full() {
		if len(l.waiting) == 0 {
			if err := l.take(ctx, nil); err != nil {
				return err
			}
			continue
		}
		if window == nil {
			window = time.NewTimer(l.worker.f.BatchWindow - time.Since(l.oldest))
			defer window.Stop()
		}
		if err := l.take(ctx, window.C); errors.Is(err, errWindowOver) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

var errWindowOver = errors.New("batching window is over")

// take adds what comes in next to what waits.
func (l *lane) take(ctx context.Context, over <-chan time.Time) error {
	select { // what is there already comes before the end of the window
	case more, open := <-l.incoming:
		l.add(more, open)
		return nil
	default:
	}
	select {
	case more, open := <-l.incoming:
		l.add(more, open)
		return nil
	case <-over:
		return errWindowOver
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *lane) add(more []*pending, open bool) {
	if len(l.waiting) == 0 {
		l.oldest = time.Now()
	}
	l.waiting = append(l.waiting, more...)
	l.closed = !open
}

func (l *lane) full() bool {
	if len(l.waiting) == 0 {
		return false
	}
	left := l.waiting[0].left
	return l.size() < len(l.waiting) || len(l.waiting) >= l.worker.f.BatchItems || left != nil && len(l.waiting) >= left.Size
}

// size is how many of the waiting changes the next batch takes. A group that an
// earlier owner was not done with is a batch of its own.
func (l *lane) size() int {
	bytes, items := 0, l.worker.f.BatchItems
	var left *trouble
	for i, p := range l.waiting {
		bytes += p.bytes()
		switch {
		case i == 0:
			if left = p.left; left != nil {
				items = min(items, max(left.Size, 1))
			}
		case i == items, bytes > l.worker.f.BatchBytes, p.left != nil, left != nil && !left.holds(p):
			return i
		}
	}
	return len(l.waiting)
}

// cut takes the next batch off what waits.
func (l *lane) cut() *group {
	n := l.size()
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	l.oldest = time.Now()
	if left := batch[0].left; left != nil {
		return l.resumed(batch, left)
	}
	return &group{changes: batch}
}

// settle brings a batch to its end. The batch fails in parts: with bisection a
// group that failed is halved, and the first half comes before the second, so
// that order is kept and a poison change ends up alone. Halving uses up no
// attempts; the wait between calls grows with each failure in a row, whatever
// the size, so that an outage of the sink costs few calls.
func (l *lane) settle(ctx, held context.Context, batch *group) error {
	groups := []*group{batch} // a stack: the next is the last
	for len(groups) > 0 {
		g := groups[len(groups)-1]
		groups = groups[:len(groups)-1]
		again, err := l.deliver(ctx, held, g)
		if err != nil {
			return err
		}
		groups = append(groups, again...)
	}
	return nil
}

// deliver makes one call with a group and returns what is to come again.
func (l *lane) deliver(ctx, held context.Context, g *group) (again []*group, err error) {
	if g.changes, err = l.divert(ctx, g.changes); err != nil || len(g.changes) == 0 {
		return nil, err
	}
	if cause := l.hopeless(g); cause != nil {
		return nil, l.bury(ctx, g.changes, g.tries, cause)
	}
	done, err := l.turn(ctx, g)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := l.mayDeliver(ctx); err != nil { // last: the store may have been slow
		return nil, err
	}
	v, err := l.attempt(held, g)
	done()
	if err != nil {
		l.stuck(g)
		return nil, err
	}
	l.worker.finish(v.handled)
	if len(v.failed) == 0 {
		l.succeeded()
		return nil, nil
	}
	if cause := context.Cause(held); cause != nil {
		l.interrupted(g, v.failed)
		return nil, cause
	}
	return l.failed(ctx, g, v)
}

// turnSpread is how long asking for a turn takes at most.
const turnSpread = 20 * time.Millisecond

// turn waits until no other change of this process is in a call that may end it,
// over all ranges and functions: or the death would be put down to all of them.
// Then it notes the call in the lease. The turn lasts until done is called.
func (l *lane) turn(ctx context.Context, g *group) (done func(), err error) {
	w, c := l.worker, g.changes[0]
	if !c.alone {
		return func() {}, nil
	}
	// Ranges that ask at one moment get an order by hash, so that a run can be repeated.
	if err := backoff.Sleep(ctx, backoff.Wait(1, turnSpread, turnSpread, w.keeper.id.owner, w.f.Name, w.lease.token)); err != nil {
		return nil, err
	}
	select {
	case w.f.host.alone <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	done = sync.OnceFunc(func() { <-w.f.host.alone })
	if c.left.Since == 0 {
		c.left.Since = w.f.store.now().Unix()
	}
	w.troubles.alone(c)
	c.alone, g.deaths = false, c.left.Deaths
	if err := w.keeper.prove(ctx); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// leastDeaths is how many owners a change must have outlived before it is given up
// for that: one or two may have died of something else.
const leastDeaths = 5

// hopeless is why a group is given up without a further call, which might be the
// end of this owner, too; or nil.
func (l *lane) hopeless(g *group) error {
	f := l.worker.f
	switch {
	case f.DeadLetters == nil:
	case g.stuck && l.exhausted(g):
		return errStuck{f.host.opts.StuckGrace}
	case f.MaxAttempts > 0 && g.deaths >= max(f.MaxAttempts, leastDeaths),
		f.RetryMaxAge > 0 && g.deaths >= leastDeaths && !g.since.IsZero() && time.Since(g.since) >= f.RetryMaxAge:
		return fmt.Errorf("%d hosts in a row ended without a word while they delivered this change alone: it may crash the process", g.deaths)
	}
	return nil
}

// stuck notes for the next owner that a call did not return. It counts as one
// that failed.
func (l *lane) stuck(g *group) {
	l.failures++
	g.stuck = false // of the half
	if g.since.IsZero() {
		g.since = time.Now()
	}
	if half := l.half(g.changes); half > 0 {
		g.changes = g.changes[:half]
	} else {
		g.stuck = true
		g.attempts++
	}
	l.remember(g)
}

// interrupted notes for the next owner that a call was ended with this one. That
// is no failure of its changes, but a sign that they may take longer than an owner
// lasts: half of them may not.
func (l *lane) interrupted(g *group, failed []*pending) {
	g.changes = failed
	if half := l.half(failed); half > 0 {
		g.changes = failed[:half]
	}
	l.remember(g)
}

// half is how many changes the first half of a group has; 0 where it is not to be
// halved.
func (l *lane) half(changes []*pending) int {
	if l.worker.f.NoBisection {
		return 0
	}
	return len(changes) / 2
}

// mayDeliver returns once a delivery may begin, or why none may.
func (l *lane) mayDeliver(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return l.worker.keeper.await(ctx)
}

func (l *lane) succeeded() {
	l.failures = 0
	l.worker.breaker.closed()
}

// failed decides what follows for a group after a verdict against it: the
// groups that are to be delivered next, last first, after the wait that is due.
func (l *lane) failed(ctx context.Context, g *group, v verdict) ([]*group, error) {
	f := l.worker.f
	if v.giveUp {
		return nil, l.bury(ctx, v.failed, g.tries, v.err)
	}
	if len(v.handled) > 0 {
		l.succeeded()
		g = &group{changes: v.failed, tries: g.tries, since: g.since}
	}
	l.failures++
	g.attempts++
	g.stuck, g.deaths = false, 0
	if g.since.IsZero() {
		g.since = time.Now()
	}
	wait := backoff.Wait(l.failures, f.RetryMin, f.RetryMax, l.worker.keeper.id.owner, l.worker.lease.token)
	if half := l.half(g.changes); half > 0 {
		first := &group{changes: g.changes[:half], tries: g.tries, since: g.since}
		second := &group{changes: g.changes[half:], tries: g.tries}
		l.remember(first)
		return []*group{second, first}, backoff.Sleep(ctx, wait)
	}
	l.remember(g)
	if !l.exhausted(g) {
		return []*group{g}, backoff.Sleep(ctx, wait)
	}
	if f.DeadLetters == nil {
		l.worker.tally.trouble(l.index, fmt.Errorf("no dead letter store, so the range waits for: %w", v.err))
		return []*group{g}, backoff.Sleep(ctx, wait)
	}
	if !g.paused && l.worker.breaker.open() {
		g.paused = true
		l.worker.tally.trouble(l.index, fmt.Errorf("paused, everything fails: %w", v.err))
		l.worker.log.Error("everything fails; the range pauses instead of filling the dead letter store",
			zap.Duration("pause", f.BreakerPause), zap.Error(v.err))
		return []*group{g}, backoff.Sleep(ctx, f.BreakerPause)
	}
	l.worker.breaker.gaveUp(len(g.changes))
	return nil, l.bury(ctx, g.changes, g.tries, v.err)
}

// exhausted reports whether a group has had all attempts or all the time that
// the function grants.
func (l *lane) exhausted(g *group) bool {
	f := l.worker.f
	return f.MaxAttempts > 0 && g.attempts >= f.MaxAttempts || f.RetryMaxAge > 0 && time.Since(g.since) >= f.RetryMaxAge
}

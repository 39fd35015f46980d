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
	*laneShared
	laneIndex     int
	waitingItems  []*Item
	oldestArrival time.Time // arrival of the first waiting change
	sourceClosed  bool      // no more changes come in
	failuresInRow int       // failed calls since the last success
}

// group is a part of a batch that is delivered in one call.
type group struct {
	items          []*Item
	retryState     RetryState
	suspect        bool // see isolation.go
	breakerApplied bool // it has already waited for the circuit breaker
}

var errWindowOver = errors.New("batching window is over")

// deliverAll delivers until the source is closed and everything is finished: nil.
// Otherwise it returns why no further delivery may begin.
func (l *lane) deliverAll(ctx, held context.Context, from itemSource) error {
	for {
		if err := l.fillBatch(ctx, from); err != nil {
			return err
		}
		if len(l.waitingItems) == 0 {
			return nil
		}
		if err := l.finishBatch(ctx, held, l.cutBatch(), nil); err != nil {
			return err
		}
	}
}

// fillBatch waits until there is a batch: enough changes or bytes, or the end of the
// batching window, counted from the arrival of the first waiting change. With
// nothing waiting it returns only if no more changes come.
func (l *lane) fillBatch(ctx context.Context, from itemSource) error {
	var window *time.Timer
	for !l.sourceClosed && !l.batchIsFull() {
		var over <-chan time.Time
		if len(l.waitingItems) > 0 {
			if window == nil {
				window = time.NewTimer(l.config.BatchWindow - time.Since(l.oldestArrival))
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
		if len(l.waitingItems) == 0 {
			l.oldestArrival = time.Now()
		}
		l.waitingItems = append(l.waitingItems, more...)
		l.sourceClosed = !open
	}
	return context.Cause(ctx)
}

func (l *lane) batchIsFull() bool {
	if len(l.waitingItems) == 0 {
		return false
	}
	earlier := l.waitingItems[0].resumedRecord
	return l.nextBatchSize() < len(l.waitingItems) || len(l.waitingItems) >= l.config.BatchItems || earlier != nil && len(l.waitingItems) >= earlier.Size
}

// nextBatchSize is the number of waiting changes that the next batch takes. A group with a
// history of an earlier owner is a batch of its own.
func (l *lane) nextBatchSize() int {
	bytes, most := 0, l.config.BatchItems
	earlier := l.waitingItems[0].resumedRecord
	if earlier != nil {
		most = min(most, max(earlier.Size, 1))
	}
	for i, c := range l.waitingItems {
		bytes += c.Size()
		if i == 0 {
			continue
		}
		if i == most || bytes > l.config.BatchBytes || c.resumedRecord != nil || earlier != nil && !earlier.holdsChange(&c.Change) {
			return i
		}
	}
	return len(l.waitingItems)
}

// cutBatch takes the next batch off the waiting changes.
func (l *lane) cutBatch() *group {
	n := l.nextBatchSize()
	batch := l.waitingItems[:n:n]
	l.waitingItems = l.waitingItems[n:]
	l.oldestArrival = time.Now()
	return l.resumeGroup(batch)
}

// resumeGroup returns the group of these changes, with the history that an earlier
// owner has saved. In a merged range LSNs do not tell which changes were in a
// group, so several changes start from zero there.
func (l *lane) resumeGroup(batch []*Item) *group {
	g := &group{items: batch}
	earlier := batch[0].resumedRecord
	if earlier == nil {
		return g
	}
	g.retryState = l.retries.retryState(earlier)
	if len(batch) > 1 && l.config.MergedRange {
		g.retryState = RetryState{Tries: g.retryState.Tries}
		return g
	}
	l.failuresInRow = max(l.failuresInRow, earlier.Failures)
	return g
}

// finishBatch finishes a batch. It fails in parts: a group that failed is halved, and
// the first half comes before the second, so that order is kept and a poison
// change ends up alone.
func (l *lane) finishBatch(ctx, held context.Context, batch *group, in *isolation) error {
	stack := []*group{batch} // the next group is the last
	for len(stack) > 0 {
		g := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		again, err := l.deliverGroup(ctx, held, g, in)
		if err != nil {
			return err
		}
		stack = append(stack, again...)
	}
	return nil
}

// finishSuspect finishes one change that may end the process.
func (l *lane) finishSuspect(ctx, held context.Context, c *Item, in *isolation) error {
	g := l.resumeGroup([]*Item{c})
	g.suspect = true
	return l.finishBatch(ctx, held, g, in)
}

// deliverGroup makes one call with a group and returns the groups to deliver next, the
// next one last.
func (l *lane) deliverGroup(ctx, held context.Context, g *group, in *isolation) (again []*group, err error) {
	if g.items, err = l.withoutBlocked(ctx, g.items); err != nil || len(g.items) == 0 {
		return nil, err
	}
	switch a := Decide(g.policyView(), Verdict{}, l.laneState(), l.config.Policy, time.Now()); a.Step {
	case GiveUp:
		return nil, l.giveUp(ctx, g.items, g.retryState.Tries, a.Reason)
	case Isolate:
		if err := in.enterSlot(ctx, g, l.failuresInRow); err != nil {
			return nil, err
		}
		defer in.leaveSlot()
	}
	if err := l.mayDeliver(ctx); err != nil { // last: the store and the suspect slot may have been slow
		return nil, err
	}
	v := l.calls.CallHandler(held, l.laneIndex, g.items, g.retryState.Tries+1)
	g.retryState.Tries++
	if g.suspect {
		in.leaveSlot()
		g.suspect = false
	}
	return l.applyVerdict(ctx, held, g, v)
}

// applyVerdict counts the changes that a call handled and acts on the decision about the
// others.
func (l *lane) applyVerdict(ctx, held context.Context, g *group, v Verdict) (again []*group, err error) {
	failed, handled := v.splitItems(g.items)
	l.finishItems(handled)
	if len(failed) == 0 {
		l.resetFailures()
		if v.Checkpoint {
			l.progress.requestCheckpoint(handled[len(handled)-1].Seq)
		}
		return nil, nil
	}
	cause := context.Cause(held)
	switch {
	case v.Outcome == Hung:
	case cause != nil:
		v.Outcome = Interrupted
	case len(handled) > 0 && v.Outcome == Failed: // the others are a new group
		l.resetFailures()
		g = &group{retryState: RetryState{Tries: g.retryState.Tries, Since: g.retryState.Since}}
	}
	g.items = failed
	a := Decide(g.policyView(), v, l.laneState(), l.config.Policy, time.Now())
	l.failuresInRow = a.Failures
	if a.Reason != nil && a.Step != GiveUp {
		l.calls.ReportProblem(l.laneIndex, a.Reason)
	}
	return l.carryOut(ctx, g, v, a, cause)
}

// carryOut carries out the decision after a failed call.
func (l *lane) carryOut(ctx context.Context, g *group, v Verdict, a Action, cause error) (again []*group, err error) {
	half := g.items[:max(len(g.items)/2, 1)]
	switch a.Step {
	case GiveUp:
		if v.Outcome != GivenUp {
			l.retries.saveGroup(g.items, a.Retry, a.Failures) // the store may fail for longer than this owner lasts
			l.breaker.addGivenUp(len(g.items))
		}
		return nil, l.giveUp(ctx, g.items, g.retryState.Tries, a.Reason)
	case Release:
		first := g.items
		if l.config.splitsGroup(len(first)) {
			first = half
		}
		l.retries.saveGroup(first, a.Retry, a.Failures)
		if v.Outcome == Hung {
			return nil, v.Err
		}
		return nil, cause
	case Split:
		second := &group{items: g.items[len(half):], retryState: RetryState{Tries: g.retryState.Tries}}
		first := &group{items: half, retryState: a.Retry}
		again = []*group{second, first}
	default:
		again = []*group{{items: g.items, retryState: a.Retry, breakerApplied: a.BreakerApplied}}
	}
	next := again[len(again)-1]
	l.retries.saveGroup(next.items, next.retryState, a.Failures)
	return again, backoff.Sleep(ctx, a.Wait)
}

// resetFailures resets the failures in a row: the sink accepts changes.
func (l *lane) resetFailures() {
	l.failuresInRow = 0
	l.breaker.resetCount()
}

func (g *group) policyView() Group {
	return Group{Size: len(g.items), Suspect: g.suspect, BreakerApplied: g.breakerApplied, Retry: g.retryState}
}

func (l *lane) laneState() LaneState {
	return LaneState{Failures: l.failuresInRow, GivenUp: l.breaker.inARow()}
}

// mayDeliver returns once a delivery may begin, or the reason why none may.
func (l *lane) mayDeliver(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return l.calls.WaitTrusted(ctx)
}

// splitItems separates the changes that a call did not handle from those that it did.
func (v Verdict) splitItems(items []*Item) (failed, handled []*Item) {
	switch {
	case v.Outcome == Handled:
		return nil, items
	case v.Outcome == Hung || v.FailedItems == nil:
		return items, nil
	}
	next := 0
	for _, c := range items {
		if next < len(v.FailedItems) && v.FailedItems[next] == c {
			next++
		} else {
			handled = append(handled, c)
		}
	}
	return v.FailedItems, handled
}

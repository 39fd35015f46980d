package delivery

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// lane is one of several ordered queues of a range. It cuts fresh changes into
// batches. A group that fails waits aside with the later changes of its keys, while
// the other keys continue; see aside.go. Changes of one order key are always in one
// lane. One goroutine owns a lane.
type lane struct {
	*laneShared
	laneIndex     int
	freshItems    []*Item   // in feed order; none of them has a waiting key
	oldestArrival time.Time // of the fresh changes
	lastArrival   time.Time // of any changes
	sourceClosed  bool      // no more changes come in
	alreadyOver   <-chan time.Time
	aside         aside
	postponed     map[uint64]*postponedKey // by order key
	firstDue      time.Time                // of these
	hasListed     bool                     // some of these were listed, and the feed may show changes before them
	storedSeq     int64                    // sequence number of the last change from the store
	sink          sinkHealth
	retryDue      atomic.Pointer[time.Time] // when the first change that is set aside is due, on the service's clock; zero is now, nil if none is set aside
	retryNext     bool                      // retries and fresh batches alternate: the next call is a retry, if one is due
}

// errTimeOver ends a wait for changes.
var errTimeOver = errors.New("time is over")

// ErrLeftAside ends a delivery that is to leave the changes that wait aside to the
// next owner, or to the children of a range that has split.
var ErrLeftAside = errors.New("ended while changes were being retried")

// deliverAll delivers until the source is closed and everything is finished: nil.
// Otherwise it returns why no further delivery may begin.
func (l *lane) deliverAll(ctx, held context.Context, from itemSource) error {
	defer l.noteRetryDue()
	for {
		g, err := l.nextGroup(ctx, from)
		if g == nil || err != nil {
			return err
		}
		if err := l.deliverGroup(ctx, held, g); err != nil {
			return err
		}
	}
}

// nextGroup returns the next group to deliver, or nil when everything is finished.
// Retries that are due and fresh batches alternate, so that neither starves.
func (l *lane) nextGroup(ctx context.Context, from itemSource) (*group, error) {
	for {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if err := l.takeArrived(ctx, from); err != nil {
			return nil, err
		}
		now := time.Now()
		probe := l.sink.mayCall(now)
		due, stored := l.aside.nextDue(now), l.duePostponed(now)
		fresh := l.batchIsReady(now)
		switch {
		case (due != nil || stored != nil) && probe.retry && (l.retryNext || !fresh || !probe.fresh):
			l.retryNext = false
			g, err := l.takeRetry(ctx, due, stored)
			if g != nil || err != nil {
				return g, err
			}
			continue
		case fresh && probe.fresh:
			l.retryNext = true
			g, err := l.cutBatch(ctx)
			if g != nil || err != nil {
				return g, err
			}
			continue
		case l.sourceClosed && len(l.freshItems) == 0 && l.aside.noKeys() && stored == nil:
			return nil, nil
		}
		if err := l.waitForWork(ctx, from, now); err != nil {
			return nil, err
		}
	}
}

// takeRetry takes the group that is due, or loads postponed changes if these were due
// before it. It returns nil if they are not in the store any more, or not due yet.
func (l *lane) takeRetry(ctx context.Context, due *group, stored []*postponedKey) (*group, error) {
	if due == nil || stored != nil && stored[0].due.Before(due.due) {
		return l.loadPostponed(ctx, stored)
	}
	l.takeAside(due)
	return due, nil
}

// takeAside takes a group that is about to be delivered.
func (l *lane) takeAside(g *group) {
	l.aside.take(g)
	l.waitingGroups.Add(-1)
}

// takeArrived takes changes that have arrived, until a batch is full. If a postponed change
// of an earlier owner waits until the feed has passed it, the lane takes all that have
// arrived: behind a backlog no batch is less than full.
func (l *lane) takeArrived(ctx context.Context, from itemSource) error {
	taken := l.takenPlace()
	for !l.sourceClosed && (l.hasListed || !l.batchIsFull()) {
		err := l.receive(ctx, from, l.alreadyOver)
		if errors.Is(err, errTimeOver) {
			break
		}
		if err != nil {
			return err
		}
	}
	if l.hasListed { // the lane has taken what it had got before
		taken.ended = taken.ended || l.sourceClosed && l.readToEnd.Load()
		l.passListed(taken)
	}
	return nil
}

// waitForWork waits for changes, the end of the batching window or the next retry.
func (l *lane) waitForWork(ctx context.Context, from itemSource, now time.Time) error {
	due := l.aside.earliest()
	l.noteRetryDue()
	until := l.sink.nextRetry(earlier(due, l.nextPostponed(now)))
	if len(l.freshItems) > 0 {
		until = earlier(until, l.sink.nextFresh(l.oldestArrival.Add(l.config.BatchWindow)))
	}
	if leave := l.leaveAside.Load(); leave != nil && l.sourceClosed && len(l.freshItems) == 0 {
		if !now.Before(*leave) {
			return ErrLeftAside
		}
		until = earlier(until, *leave)
	}
	var over <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(until.Sub(now))
		defer timer.Stop()
		over = timer.C
	}
	if err := l.receive(ctx, from, over); err != nil && !errors.Is(err, errTimeOver) {
		return err
	}
	return nil
}

// noteRetryDue notes when the first change that is set aside is due, for the next owner.
// Those that wait for no retry, but for a call, are due.
func (l *lane) noteRetryDue() {
	var due *time.Time
	isAside := func(c *Item) bool { return c.aside != nil }
	switch earliest := l.aside.earliest(); {
	case slices.ContainsFunc(l.freshItems, isAside), !l.aside.noKeys() && earliest.IsZero():
		due = &time.Time{}
	case !earliest.IsZero():
		served := l.calls.ServiceNow().Add(time.Until(earliest))
		due = &served
	}
	l.retryDue.Store(due)
}

// earlier returns the earlier of two times; a zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// receive takes the next changes that come in. Changes of waiting keys join their
// queues.
func (l *lane) receive(ctx context.Context, from itemSource, over <-chan time.Time) error {
	if l.sourceClosed { // only time passes
		select {
		case <-over:
			return errTimeOver
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	more, open, err := from(ctx, over)
	if err != nil {
		return err
	}
	l.sourceClosed, l.lastArrival = !open, time.Now()
	if len(l.freshItems) == 0 {
		l.oldestArrival = l.lastArrival
	}
	if free := l.withoutWaiting(l.withoutListed(more)); len(l.freshItems) == 0 {
		l.freshItems = free
	} else {
		l.freshItems = append(l.freshItems, free...)
	}
	return nil
}

// withoutWaiting moves the changes of waiting keys to their queues and returns the
// others.
func (l *lane) withoutWaiting(items []*Item) []*Item {
	if l.aside.noKeys() {
		return items
	}
	var free, queued []*Item
	for _, c := range items {
		if l.aside.holdsKey(l.keyOf(c)) {
			queued = append(queued, c)
		} else {
			free = append(free, c)
		}
	}
	for _, c := range l.keepAside(queued) {
		l.aside.enqueue(l.keyOf(c), c)
	}
	return free
}

// isLeaving reports whether the lane leaves waiting changes to the next owner.
func (l *lane) isLeaving(now time.Time) bool {
	leave := l.leaveAside.Load()
	return leave != nil && l.sourceClosed && !now.Before(*leave)
}

// setKeys finds the order keys of a group.
func (l *lane) setKeys(g *group) {
	g.keys = map[uint64]bool{}
	for _, c := range g.items {
		g.keys[l.keyOf(c)] = true
	}
}

// putAside lets a group wait until it is due. Its keys wait with it: their later
// changes queue behind it.
func (l *lane) putAside(g *group, due time.Time) {
	if g.keys == nil {
		l.setKeys(g)
	}
	g.due = due
	for part := g; part != nil; part = part.rest {
		part.items = l.keepAside(part.items)
	}
	l.waitingKeys.Add(int64(l.aside.add(g)))
	l.waitingGroups.Add(1)
	l.queueFresh()
}

// queueFresh moves the fresh changes of keys that wait now to their queues.
func (l *lane) queueFresh() {
	fresh := l.freshItems
	l.freshItems = nil
	l.freshItems = l.withoutWaiting(fresh)
}

// releaseKeys ends the wait of keys whose failed changes are all finished. Their
// queued changes are fresh again, in the order of the feed.
func (l *lane) releaseKeys(keys map[uint64]bool) {
	l.forgetPostponed(keys)
	queued, released := l.aside.release(keys)
	l.waitingKeys.Add(-int64(released))
	if len(queued) > 0 {
		slices.SortFunc(queued, func(a, b *Item) int { return cmp.Compare(a.Seq, b.Seq) })
		if len(l.freshItems) == 0 {
			l.oldestArrival = time.Now().Add(-l.config.BatchWindow) // they have waited long enough
		}
		l.freshItems = mergeItems(queued, l.freshItems, func(c *Item) int64 { return c.Seq })
	}
	l.notifyChange()
}

// deliverGroup makes one call with a group and acts on its verdict.
func (l *lane) deliverGroup(ctx, held context.Context, g *group) (err error) {
	before := g.items
	if g.items, err = l.withoutBlocked(ctx, g.items); err != nil {
		return err
	}
	if len(g.items) < len(before) && g.keys != nil {
		l.keysFinished(g)
	}
	if len(g.items) == 0 {
		return nil
	}
	a := Decide(g.policyView(), Verdict{}, l.laneState(), l.config.Policy, time.Now())
	if a.Step == GiveUp {
		return l.giveUp(ctx, g, a)
	}
	if err := l.payRate(ctx, g); err != nil { // before the suspect slot, which others may need meanwhile
		return err
	}
	alone, leave := false, func() {}
	if a.Step == Isolate {
		var entered bool
		var again time.Time
		if alone, entered, leave, again = l.tryEnter(g, time.Now()); !entered {
			l.putAside(g, again)
			return nil
		}
		defer leave()
	}
	if g.suspect || l.isolation.isAnnouncing() {
		if err := l.announce(ctx, g, alone); err != nil {
			return err
		}
	}
	if err := l.mayDeliver(ctx); err != nil { // last: the store and the announcement may have been slow
		return err
	}
	v := l.calls.CallHandler(held, l.laneIndex, g.items, g.retry.Tries+1)
	g.retry.Tries++
	g.paid = false
	leave()
	return l.applyVerdict(ctx, held, g, v)
}

// payRate waits until the function's rate allows a call with the group. A suspect that
// has paid and not got the suspect slot does not pay again.
func (l *lane) payRate(ctx context.Context, g *group) error {
	if g.paid {
		return nil
	}
	err := l.calls.WaitRate(ctx, l.laneIndex, len(g.items))
	g.paid = err == nil
	return err
}

// applyVerdict counts the changes that a call handled and acts on the decision
// about the others.
func (l *lane) applyVerdict(ctx, held context.Context, g *group, v Verdict) (err error) {
	wasSuspect := g.suspect
	g.suspect, g.suspectSince = false, time.Time{}
	failed, handled := v.splitItems(g.items)
	if err := l.finishHandled(held, handled, v); err != nil {
		return err
	}
	cause := context.Cause(held)
	if len(failed) > 0 && cause != nil && v.Outcome != Hung {
		v.Outcome = Interrupted
	}
	if len(handled) > 0 && (v.Outcome == Handled || v.Outcome == Failed) {
		l.succeeded()
	}
	some := len(handled) > 0
	if v.Outcome == Failed && len(v.Postponed) > 0 {
		before := len(failed)
		if failed, err = l.postponeFailed(held, g, v, !some); err != nil {
			return err
		}
		some = some || len(failed) < before
	}
	g.items = failed
	if len(failed) == 0 {
		l.keysFinished(g)
		if wasSuspect || l.isolation.isAnnouncing() {
			l.afterAnnouncedCall()
		}
		return nil
	}
	if some && v.Outcome == Failed { // the others are a new group
		g.retry = RetryState{Tries: g.retry.Tries, Since: g.retry.Since}
	}
	if v.Outcome == Failed || v.Outcome == Halved {
		l.setFailedKeys(g, some)
	}
	state := l.laneState()
	known := l.sink.knowsFailing(g.retry)
	state.Succeeded = known || l.sink.worksFor(g.keys)
	state.Repeated = l.sink.repeats(g.keys)
	a := Decide(g.policyView(), v, state, l.config.Policy, time.Now())
	g.retry = a.Retry
	if v.Outcome == Failed && !known {
		l.sink.failed(g.keys, !l.retryNext, a.Failures, time.Now(), l.config.Policy)
	}
	if a.Reason != nil && a.Step != GiveUp {
		l.calls.ReportProblem(l.laneIndex, a.Reason)
	}
	return l.carryOut(ctx, g, v, a, cause)
}

// setFailedKeys finds the keys of the changes that failed, and releases the keys of
// a group that are finished.
func (l *lane) setFailedKeys(g *group, some bool) {
	if g.keys == nil {
		l.setKeys(g)
	} else if some && g.rest == nil {
		l.keysFinished(g)
	}
}

// keysFinished releases the keys that a group has no changes of any more.
func (l *lane) keysFinished(g *group) {
	if g.keys == nil {
		return
	}
	if len(g.items) == 0 && g.rest != nil {
		l.putAside(g.rest, time.Now())
		return
	}
	finished := g.keys
	l.setKeys(g)
	for key := range g.keys {
		delete(finished, key)
	}
	l.releaseKeys(finished)
}

// carryOut acts on the decision after a failed call.
func (l *lane) carryOut(ctx context.Context, g *group, v Verdict, a Action, cause error) error {
	switch a.Step {
	case GiveUp:
		if v.Outcome != GivenUp {
			l.retries.saveGroup(g.items, g.retry) // the store may fail for longer than this owner lasts
			l.breaker.addGivenUp(len(g.items))
		}
		return l.giveUp(ctx, g, a)
	case Release:
		first := g.items
		if l.config.splitsGroup(len(first)) {
			first = first[:len(first)/2]
		}
		l.retries.saveGroup(first, a.Retry)
		if v.Outcome == Hung {
			return v.Err
		}
		return cause
	}
	parts := []*group{g}
	if a.Step == Split {
		parts = g.halve(l.keyOf)
		if len(parts) == 1 {
			parts[0].rest.retry = a.Retry
		}
	}
	due := time.Now().Add(a.Wait)
	for _, part := range parts {
		part.retry = a.Retry
		l.retries.saveGroup(part.items, part.retry)
		l.putAside(part, due)
		if v.Outcome == Halved {
			continue // no wait is planned
		}
		l.calls.PlanRetry(l.laneIndex, part.items, max(part.retry.Attempts, 1), a.Wait)
	}
	if l.isolation.isAnnouncing() {
		l.afterAnnouncedCall()
	}
	return nil
}

// afterAnnouncedCall has the lease's writer remove the name of a call that ended,
// and ends announcing if it is not needed any more.
func (l *lane) afterAnnouncedCall() {
	l.calls.WriteSoon()
	l.isolation.passed(l.progress.finished())
}

// succeeded says that the sink accepts changes. Groups that waited for the sink
// are due as their own failures say.
func (l *lane) succeeded() {
	if l.sink.failures > 0 {
		l.aside.pullForward(time.Now(), l.config.Policy)
	}
	l.sink.succeeded()
	l.breaker.resetCount()
}

func (l *lane) laneState() LaneState {
	givenUp, last := l.breaker.inARow()
	return LaneState{Failures: l.sink.failures, GivenUp: givenUp, GaveUpAt: last}
}

// mayDeliver returns once a delivery may begin, or the reason why none may.
func (l *lane) mayDeliver(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return l.calls.WaitTrusted(ctx)
}

// CountHandled counts the changes that a call handled.
func (v Verdict) CountHandled(items []*Item) int {
	switch {
	case v.Outcome == Handled:
		return len(items)
	case v.Outcome == Hung || v.FailedItems == nil:
		return 0
	}
	return len(items) - len(v.FailedItems)
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

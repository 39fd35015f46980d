package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// lane is one of several ordered queues of a range. It cuts fresh changes into
// batches. A group that fails waits aside with the later changes of its keys, while
// the other keys continue. Changes of one order key are always in one lane.
//
// [Admit] decides about a change from the feed by the state of its key (keys.go), and
// effectsOf about the changes of a call by its verdict (effects.go). The lane carries both
// out. One goroutine owns it.
type lane struct {
	*laneShared
	laneIndex   int
	inbox       inbox
	fresh       freshQueue
	keys        laneKeys
	sink        sinkHealth
	effects     []effect // memory for those of a call
	alreadyOver <-chan time.Time
	retryDue    atomic.Pointer[time.Time] // when the first change that is set aside is due, on the service's clock; zero is now, nil if none is set aside
	retryNext   bool                      // retries and fresh batches alternate: the next call is a retry, if one is due
}

func newLane(shared *laneShared, index int) *lane {
	elapsed := make(chan time.Time)
	close(elapsed)
	return &lane{
		laneShared: shared, laneIndex: index, inbox: make(inbox, 1), alreadyOver: elapsed,
		fresh: freshQueue{laneShared: shared},
		keys:  laneKeys{laneShared: shared, laneIndex: index, storedSeq: firstStoredSeq},
	}
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
func (l *lane) nextGroup(ctx context.Context, from itemSource) (g *group, err error) {
	for {
		if err := l.takeArrived(ctx, from); err != nil {
			return nil, err
		}
		now := time.Now()
		probe := l.sink.mayCall(now)
		next, due := l.keys.nextDue()
		stored, ready := l.keys.duePostponed(now, l.isLeaving(now)), l.fresh.readyAt(now)
		hasRetry, hasBatch := (isDue(due, now) || stored != nil) && probe.retry, isDue(ready, now) && probe.fresh
		switch {
		case hasRetry && (l.retryNext || !hasBatch):
			l.retryNext = false
			g, err = l.takeRetry(ctx, next, stored)
		case hasBatch:
			l.retryNext = true
			g, err = l.cutBatch(ctx)
		case l.fresh.hasEnded() && l.keys.waiting == 0 && stored == nil:
			return nil, nil
		default:
			err = l.waitForWork(ctx, from, now, ready)
		}
		if g != nil || err != nil {
			return g, err
		}
	}
}

// takeArrived takes changes that have arrived, until a batch is full. If a postponed change
// of an earlier owner waits until the feed has passed it, the lane takes all that have
// arrived: behind a backlog no batch is less than full.
func (l *lane) takeArrived(ctx context.Context, from itemSource) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	taken := l.takenPlace()
	for !l.fresh.isClosed && (l.keys.hasListed || !l.fresh.isFull()) {
		err := l.receive(ctx, from, l.alreadyOver)
		if errors.Is(err, errTimeOver) {
			break
		}
		if err != nil {
			return err
		}
	}
	if l.keys.hasListed { // the lane has taken in everything up to that place
		taken.ended = taken.ended || l.fresh.isClosed && l.readToEnd.Load()
		l.keys.passListed(taken, l.fresh.items)
	}
	return nil
}

// receive takes the next changes that come in.
func (l *lane) receive(ctx context.Context, from itemSource, timeout <-chan time.Time) error {
	if l.fresh.isClosed { // only time passes
		from = inbox(nil).receive
	}
	items, isOpen, err := from(ctx, timeout)
	if err != nil {
		return err
	}
	l.fresh.isClosed, l.fresh.isStalled = !isOpen, len(items) == 0 && l.config.Lanes > 1
	if len(items) > 0 {
		l.fresh.add(l.keys.arrived(items))
	}
	return nil
}

// waitForWork waits for changes, for the time at which a batch is ready, or for the next retry.
func (l *lane) waitForWork(ctx context.Context, from itemSource, now, ready time.Time) error {
	if hasRoom, err := l.makeRoom(ctx, now, l.config.Lanes == 1 && l.isLeaving(now)); hasRoom || err != nil {
		return err
	}
	l.noteRetryDue()
	_, due := l.keys.nextDue()
	wakeTime := l.sink.nextCall(earlier(due, l.keys.nextPostponed(now)), l.sink.tried.retry)
	wakeTime = earlier(wakeTime, l.sink.nextCall(ready, l.sink.tried.fresh))
	if leave := l.leaveAside.Load(); leave != nil && l.fresh.hasEnded() {
		if !now.Before(*leave) {
			return ErrLeftAside
		}
		wakeTime = earlier(wakeTime, *leave)
	}
	var timeout <-chan time.Time
	if !wakeTime.IsZero() {
		timeout = time.After(wakeTime.Sub(now))
	}
	l.rest()
	err := l.receive(ctx, from, timeout)
	l.lanesAtRest.Add(-1)
	if errors.Is(err, errTimeOver) {
		return nil
	}
	return err
}

// isLeaving reports whether the lane leaves waiting changes to the next owner.
func (l *lane) isLeaving(now time.Time) bool {
	leave := l.leaveAside.Load()
	return leave != nil && l.fresh.isClosed && !now.Before(*leave)
}

// makeRoom puts the oldest waiting key of the range into the store, with its attempts and its
// age, if the range is at a limit because of it. It returns false if there is no such key in
// this lane. If all waiting keys come from the store, it unloads one of these. If the store
// does not keep changes, reading waits, and status names the limit.
func (l *lane) makeRoom(ctx context.Context, now time.Time, isLeaving bool) (isMade bool, err error) {
	first, unacknowledged := l.progress.firstWaiting()
	limit := l.limitReached(first, unacknowledged, isLeaving)
	if limit == nil {
		return false, nil
	}
	if first == nil {
		return l.unload(), nil
	}
	s, g := l.keys.oldestWaiting(first)
	switch {
	case s == nil:
		return false, nil
	case l.deadLetters == nil || !l.deadLetters.Keeps() || l.keys.room() <= 0 && s.letters == nil:
		l.calls.ReportProblem(l.laneIndex, fmt.Errorf("%w, and no dead letter store has room for its oldest waiting key: reading waits", limit))
		return false, nil
	case g == nil: // earlier changes of the key are from the store
		queue := s.queue
		s.queue = nil
		return true, l.keys.follow(ctx, queue)
	}
	l.stalled.Store(false) // the next oldest key may be in another lane
	l.keys.take(g)
	serviceNow := l.calls.ServiceNow().UTC()
	return true, l.carryOut(ctx, ctx, Verdict{}, parked(g, l.keys.takeQueues(g.keys), limit, now, serviceNow))
}

// unload takes the group from the store that is due last out of memory. The store has its
// changes, and the retry records have its history: it is loaded again when its retry is due.
// Suspects stay, as they wait for a moment only.
func (l *lane) unload() (isMade bool) {
	var last *group
	for _, g := range l.keys.groups {
		if !g.suspect && (last == nil || g.due.After(last.due)) {
			last = g
		}
	}
	if last == nil {
		return false
	}
	l.stalled.Store(false)
	l.keys.take(last)
	for part := last; part != nil; part = part.later {
		l.keys.leaveStored(part.items)
	}
	for order := range last.keys {
		l.keys.states[order].letters.due = last.due
	}
	l.releaseKeys(last.keys)
	return true
}

// noteRetryDue notes when the first change that is set aside is due, for the next owner.
// Those that wait for no retry, but for a call, are due.
func (l *lane) noteRetryDue() {
	var retryDue *time.Time
	isAside := func(c *Item) bool { return c.aside != nil }
	switch next, due := l.keys.nextDue(); {
	case slices.ContainsFunc(l.fresh.items, isAside), l.keys.waiting > 0 && next == nil:
		retryDue = &time.Time{}
	case next != nil:
		served := l.calls.ServiceNow().Add(time.Until(due))
		retryDue = &served
	}
	l.retryDue.Store(retryDue)
}

// takeRetry takes the group that is due first, or loads postponed changes if these are due
// before it; their keys wait then, as those of a failed group. It returns nil if no change is
// to be delivered: they are not due yet, or not in the store any more, or their keys are
// blocked now.
func (l *lane) takeRetry(ctx context.Context, due *group, stored []*laneKey) (*group, error) {
	if due == nil || stored != nil && stored[0].letters.due.Before(due.due) {
		loaded, others, freed, err := l.keys.loadDue(ctx, stored)
		if err != nil {
			return nil, err
		}
		l.releaseKeys(freed)
		for _, g := range others {
			l.putAside(g, time.Now())
		}
		if due = loaded; due == nil {
			return nil, nil
		}
		l.putAside(due, time.Now())
	}
	l.keys.take(due)
	free, err := l.keys.admit(ctx, due.items, true)
	switch {
	case err != nil:
		return nil, err
	case len(free) == 0:
		return nil, l.carryOut(ctx, ctx, Verdict{}, endOf(due))
	case len(free) < len(due.items):
		freed := keysWithout(due.keys, orderKeys(free))
		due.items, due.keys = free, orderKeys(free)
		l.releaseKeys(freed)
	}
	return due, nil
}

// cutBatch takes the next batch. It returns nil if all of its changes wait behind others of
// their keys, or if they are suspects: they wait aside until their range has the suspect slot.
func (l *lane) cutBatch(ctx context.Context) (*group, error) {
	batch, err := l.keys.admit(ctx, l.fresh.cut(), false)
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	g := l.resumeGroup(batch)
	if !g.suspect {
		return g, nil
	}
	g.keys = l.keysOf(g.items)
	for _, part := range g.suspectParts() {
		l.putAside(part, time.Now())
	}
	return nil, nil
}

// putAside lets a group wait until it is due. Its keys wait with it: their later changes
// queue behind it.
func (l *lane) putAside(g *group, due time.Time) {
	if g.keys == nil {
		g.keys = l.keysOf(g.items)
	}
	l.keys.putAside(g, due)
	l.fresh.items = l.keys.arrived(l.fresh.items)
}

// releaseKeys ends the wait of keys whose failed changes are all finished. Their
// queued changes are fresh again, in the order of the feed.
func (l *lane) releaseKeys(keys map[uint64]bool) {
	l.fresh.putBack(l.keys.release(keys))
	l.notifyChange()
}

// deliverGroup makes one call with a group and carries out the effects of its verdict.
func (l *lane) deliverGroup(ctx, held context.Context, g *group) error {
	a := Decide(g, Verdict{}, l.laneState(), l.config.Policy, time.Now())
	if a.Step == GiveUp {
		return l.carryOut(ctx, held, Verdict{Outcome: GivenUp}, decided(g, a, l.config.Policy))
	}
	if !g.isPaid { // before the suspect slot, which others may need meanwhile
		if err := l.calls.WaitRate(ctx, l.laneIndex, len(g.items)); err != nil {
			return err
		}
		g.isPaid = true
	}
	alone, leave := false, func() {}
	if a.Step == Isolate {
		var entered bool
		var retryTime time.Time
		if alone, entered, leave, retryTime = l.tryEnter(l.laneIndex, g, time.Now()); !entered {
			l.putAside(g, retryTime)
			return nil
		}
		defer leave()
	}
	if g.suspect || l.isolation.isAnnouncing() {
		if err := l.announce(ctx, l.laneIndex, g, alone); err != nil {
			return err
		}
	}
	if err := l.mayDeliver(ctx); err != nil { // last: the store and the announcement may have been slow
		return err
	}
	l.stalled.Store(false) // after the call another lane may have to make room
	v := l.calls.CallHandler(held, l.laneIndex, g.items, g.retry.Tries+1)
	g.retry.Tries++
	leave()
	return l.applyVerdict(ctx, held, g, v)
}

// applyVerdict carries out the effects of a call.
func (l *lane) applyVerdict(ctx, held context.Context, g *group, v Verdict) error {
	isAnnounced := g.suspect || l.isolation.isAnnouncing()
	g.suspect, g.suspectSince = false, time.Time{}
	s := callState{policy: l.config.Policy, lane: l.laneState(), sink: &l.sink, effects: l.effects[:0]}
	if v.Outcome != Handled {
		if v.Outcome != Hung && context.Cause(held) != nil {
			v.Outcome = Interrupted
		}
		s.postponed, s.room = l.keys.postponedOf(l.keysOf(g.items)), l.keys.room()
		s.now, s.serviceNow = time.Now(), l.calls.ServiceNow().UTC()
	}
	l.effects = effectsOf(g, v, s)
	err := l.carryOut(ctx, held, v, l.effects)
	clear(l.effects) // their changes may be finished, and their pages in use again
	if err != nil {
		return err
	}
	if isAnnounced { // the lease's writer removes the name of the group
		l.calls.WriteSoon()
		l.isolation.passed(l.progress.finished())
	}
	return nil
}

// carryOut carries out effects. held ends when a running call must end, and with it the
// requests to the store that follow the call.
func (l *lane) carryOut(ctx, held context.Context, v Verdict, effects []effect) (err error) {
	for _, e := range effects {
		switch e.kind {
		case effectFinish:
			err = l.keys.finishHandled(held, e.items, v)
		case effectAccept:
			l.succeeded()
		case effectPostpone:
			err = l.keys.postpone(held, e.items[0], *e.letter)
		case effectFollow:
			err = l.keys.follow(held, e.items)
		case effectFree:
			l.releaseKeys(e.keys)
		case effectFail:
			l.sink.failed(e.keys, !l.retryNext, e.action.Failures, time.Now(), l.config.Policy)
		case effectResume:
			l.putAside(e.group, time.Now())
		case effectWait:
			l.waitAside(e.group, v, *e.action)
		case effectGiveUp:
			err = l.giveUp(ctx, e.items, v, *e.action)
		case effectRelease:
			l.retries.saveGroup(e.items, e.action.Retry)
			if err = context.Cause(held); v.Outcome == Hung {
				err = v.Err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waitAside lets a failed group wait for its next call.
func (l *lane) waitAside(g *group, v Verdict, a Action) {
	if a.Reason != nil {
		l.calls.ReportProblem(l.laneIndex, a.Reason)
	}
	l.retries.saveGroup(g.items, g.retry)
	l.putAside(g, time.Now().Add(a.Wait))
	if v.Outcome != Halved { // that plans no wait
		l.calls.PlanRetry(l.laneIndex, g.items, max(g.retry.Attempts, 1), a.Wait)
	}
}

// succeeded says that the sink accepts changes. Groups that waited for the sink
// are due as their own failures say.
func (l *lane) succeeded() {
	l.keys.pullForward(time.Now())
	l.sink.succeeded()
	l.breaker.resetCount()
}

func (l *lane) laneState() LaneState {
	givenUp, last := l.breaker.inARow()
	return LaneState{Failures: l.sink.failures, GivenUp: givenUp, GaveUpAt: last}
}

package delivery

import (
	"context"
	"fmt"
	"time"
)

// makeRoom puts the oldest waiting key of the range into the store, with its attempts and its
// age, if the range is at a limit because of it. It returns false if there is no such key in
// this lane. If all waiting keys come from the store, it unloads one of these. If the store
// does not keep changes, reading waits, and status names the limit.
func (l *lane) makeRoom(ctx context.Context, now time.Time, isLeaving bool) (isMade bool, err error) {
	first := l.progress.firstWaiting()
	limit := l.limitReached(first, isLeaving)
	if limit == nil {
		return false, nil
	}
	if first == nil {
		return l.unload(ctx)
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
func (l *lane) unload(ctx context.Context) (isMade bool, err error) {
	var last *group
	for _, g := range l.keys.groups {
		if !g.suspect && (last == nil || g.due.After(last.due)) {
			last = g
		}
	}
	if last == nil {
		return false, nil
	}
	l.stalled.Store(false)
	l.keys.take(last)
	for part := last; part != nil && err == nil; part = part.later {
		err = l.keys.follow(ctx, part.items)
	}
	for order := range last.keys {
		l.keys.states[order].letters.due = last.due
	}
	l.releaseKeys(last.keys)
	return true, err
}

// leaveAsideChanges makes room in the store for the oldest waiting keys of several lanes, which
// have ended, if the next owner would otherwise read too much again.
func (d *Delivery) leaveAsideChanges(ctx context.Context) error {
	for isMade := true; isMade; {
		isMade = false
		for _, l := range d.lanes {
			hasRoom, err := l.makeRoom(ctx, time.Now(), true)
			if err != nil {
				return err
			}
			l.noteRetryDue()
			isMade = isMade || hasRoom
		}
	}
	if d.progress.allFinished() {
		return nil
	}
	return ErrLeftAside
}

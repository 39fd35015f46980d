package delivery

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"halley/trigger/internal/backoff"
)

// RetryPolicy says how changes on which the handler has failed are redelivered.
type RetryPolicy struct {
	RetryMin, RetryMax time.Duration // bounds of the wait between attempts
	NoBisection        bool          // keep a failing batch together
}

// GiveUpPolicy says when changes on which the handler fails are dead-lettered.
type GiveUpPolicy struct {
	MaxAttempts  int           // failed calls with the same changes before they are dead-lettered; <= 0 is unlimited
	RetryMaxAge  time.Duration // age of the first failure at which they are dead-lettered; 0 is unlimited
	BlockKeys    bool          // later changes of a dead-lettered change's key follow it
	BreakerLimit int           // dead letters in a row after which each further one waits for BreakerPause; <= 0 is never
	BreakerPause time.Duration
}

// Policy is everything that [Decide] follows.
type Policy struct {
	RetryPolicy
	GiveUpPolicy
	DeadLetters bool          // there is a store; without one nothing is given up
	HungAfter   time.Duration // grace after the deadline of a call, for the error text
	JitterKey   []any         // spreads the waits of ranges and hosts
}

// LaneState is the state that all groups of a lane, or of its range, share.
type LaneState struct {
	Failures  int       // failures of the sink: those since the last success of the lane that no group accounts for
	Succeeded bool      // the failure is the group's: the lane had a success since its previous failure, or only this group fails
	Repeated  bool      // otherwise: the group is a part of one that has failed since the last success
	GivenUp   int       // changes of the range that were dead-lettered since its last success
	GaveUpAt  time.Time // when the last of them was
}

// Outcome says how a call ended.
type Outcome int

// The outcomes of a call.
const (
	NotCalled   Outcome = iota
	Handled             // all changes
	Failed              // the changes in Verdict.FailedItems, or all of them
	GivenUp             // like Failed, and the handler wants no further attempt
	Halved              // all failed, and the handler wants no further attempt for some of them, which it has not named
	Hung                // the handler did not return after its deadline and the grace
	Interrupted         // like Failed, but the call was ended because its owner stopped
)

// Verdict is the result of one handler call.
type Verdict struct {
	Outcome     Outcome
	Err         error   // nil if all changes were handled
	FailedItems []*Item // the changes that are not handled, in order; nil means all of them

	// With manual checkpoints. Answered is the number of the call among the calls of the
	// range that have returned, from 1. Requested is for Handled: the handler asked for a
	// checkpoint before the call with this number had returned; 0 if it did not ask.
	Answered, Requested int64

	Postponed map[*Item]time.Duration // Failed: of FailedItems, those that the handler has postponed, and for how long
}

// Step is the kind of an [Action].
type Step int

// The steps.
const (
	Deliver Step = iota // call the handler with the group
	Isolate             // the same, while no other suspect of this process is in a call
	Split               // halve the group; its parts start with Action.Retry
	GiveUp              // dead-letter the group
	Release             // end the worker; Action.Retry is for the next owner
)

// Action is the next step with a group.
type Action struct {
	Step     Step
	Wait     time.Duration // before the step; other groups are delivered meanwhile
	Retry    RetryState    // history of the group, or of its parts, after the verdict
	Failures int           // LaneState.Failures after the verdict
	Reason   error         // GiveUp: the error of the dead letter; otherwise, if not nil, why the group makes no progress
}

// ErrPaused is in the reason of a range that the circuit breaker pauses.
var ErrPaused = errors.New("everything fails")

// minCrashes is the number of owners in a row that must have ended during a call
// with one change before it is given up as a crasher. One or two of them may have
// ended for another reason.
const minCrashes = 5

// Decide returns the next step with a group after a verdict on some or all of
// its changes, or before a call (NotCalled). It is the whole retry policy:
//
//   - A change that hung, or whose owners crashed, too often is given up without
//     another call.
//   - A failed group waits aside and is halved until the failing key, and then the
//     failing change, is alone. Halving uses up no attempts. If the sink works, there is no
//     wait: many keys wait with one that fails. A group that its handler gives up without a
//     name is halved without a wait, too, and says nothing about the sink.
//   - A failure counts for the group if the lane had a success since its previous
//     failure, if only this group fails, or if it has failed before while the sink
//     worked. Otherwise it counts for the sink, once for a group and its halves. The
//     wait doubles with the failures of the group and with those of the sink, and the
//     longer of the two holds.
//   - A group that has spent its attempts or its age is dead-lettered. If
//     everything fails, the breaker lets BreakerPause pass before each further one.
//   - Without a dead letter store nothing is given up: the group waits.
//
// g has the changes that failed. If the call handled others, its history has no attempts yet:
// the failed changes are a new group. It is not changed.
func Decide(g *group, v Verdict, lane LaneState, p Policy, now time.Time) Action {
	a := Action{Retry: g.retry, Failures: lane.Failures}
	switch v.Outcome {
	case NotCalled:
		a.beforeCall(g, p, now)
	case Failed:
		a.afterFailure(g, v.Err, lane, p, now)
	case GivenUp:
		a.Step, a.Retry, a.Reason = GiveUp, g.retry.countAttempt(p), v.Err
	case Halved:
		a.Step, a.Retry = Split, g.retry.forPart()
	case Interrupted:
		a.Step = Release
	case Hung: // nothing can end the call; it is an attempt if the group cannot be halved
		a.Step, a.Retry = Release, g.retry.failedFirst(now)
		a.Retry.Hung = !p.splitsGroup(len(g.items))
		if a.Retry.Hung {
			a.Retry = a.Retry.countAttempt(p)
		}
	}
	return a
}

func (a *Action) beforeCall(g *group, p Policy, now time.Time) {
	if g.suspect {
		a.Step = Isolate
	}
	switch r := g.retry; {
	case !p.DeadLetters:
	case r.Hung && r.isExhausted(p, now):
		a.Step, a.Reason = GiveUp, &HungError{After: p.HungAfter}
	case r.Crashes >= minCrashes && (p.MaxAttempts > 0 || r.isTooOld(p, now)):
		a.Step, a.Reason = GiveUp, fmt.Errorf("%d hosts in a row ended without releasing the lease while they delivered this change alone: it may crash the process", r.Crashes)
	}
}

func (a *Action) afterFailure(g *group, err error, lane LaneState, p Policy, now time.Time) {
	r := g.retry.failedFirst(now).countAttempt(p)
	r.Hung, r.Crashes = false, 0
	switch {
	case lane.Succeeded:
		r.Failures++
	case !lane.Repeated:
		a.Failures++
	}
	if p.splitsGroup(len(g.items)) {
		a.Step, r = Split, r.forPart()
	}
	a.Retry = r
	a.Wait = max(p.wait(r.Failures), p.wait(a.Failures))
	pauseEnd := lane.GaveUpAt.Add(p.BreakerPause)
	switch {
	case a.Step == Split && lane.Succeeded:
		a.Wait = 0
	case a.Step == Split, !r.isExhausted(p, now):
	case !p.DeadLetters:
		a.Reason = fmt.Errorf("no dead letter store, so the range waits for: %w", err)
	case p.BreakerLimit > 0 && lane.GivenUp >= p.BreakerLimit && now.Before(pauseEnd):
		a.Wait = pauseEnd.Sub(now)
		a.Reason = fmt.Errorf("%w, so the range pauses for %s instead of filling the dead letter store: %w", ErrPaused, p.BreakerPause, err)
	default:
		a.Step, a.Wait, a.Reason = GiveUp, 0, err
	}
}

// wait is the wait after a number of failures in a row.
func (p Policy) wait(failures int) time.Duration {
	return backoff.Wait(max(failures, 1), p.RetryMin, p.RetryMax, p.JitterKey...)
}

// splitsGroup reports whether a group of that size is halved.
func (p Policy) splitsGroup(size int) bool { return !p.NoBisection && size > 1 }

// HungError is the error of a handler call that did not return.
type HungError struct{ After time.Duration }

func (e *HungError) Error() string {
	return fmt.Sprintf("handler has not returned %s after its deadline; the range is given up and the call left behind", e.After)
}

// breaker counts the changes of a range that were dead-lettered without a success between
// them. Many in a row mean that the sink is broken and not the changes, so Decide pauses
// before each further one. Lanes share it; mu guards it, and no other lock is taken under it.
type breaker struct {
	mu      sync.Mutex
	givenUp int
	last    time.Time
}

// inARow returns the count, and the time of the last change.
func (b *breaker) inARow() (givenUp int, last time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.givenUp, b.last
}

func (b *breaker) addGivenUp(changes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.givenUp, b.last = b.givenUp+changes, time.Now()
}

func (b *breaker) resetCount() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.givenUp = 0
}

package delivery

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"halley/trigger/internal/backoff"
)

// isolation finds a change that ends the process, and gives it up.
//
// A crash leaves no error behind, so the evidence is in the lease:
//
//  1. Host A calls the handler with a batch, and the process ends. A's lease
//     expires without a release. A has announced nothing, so its end makes no
//     change a suspect: it may have ended between two calls, for any reason.
//  2. Host B acquires the lease and counts an unclean exit in it (halley.deaths).
//     From now on B announces: it names the group of each call in the lease
//     (halley.retries, inFlight), in a write that it waits for before the call. The
//     write of the next checkpoint after the call removes the name. If B ends
//     between two calls, the lease names nothing.
//  3. B ends during a call. Host C finds the name in the lease: exactly these
//     changes are suspects. C halves the group, as B's end counts as a failure of
//     it. Suspects wait aside like failed groups: the other keys continue, and so
//     do all other ranges and functions.
//  4. A suspect is delivered while its range has the suspect slot, which only one
//     range of the process has at a time. If the suspect is a single change, C first
//     adds a crash to its record. If C ends, host D reads which change it was. A
//     crash is charged to no other change: the groups of other calls that C had
//     announced are suspects without a crash.
//  5. If the call returns, even with an error, the change is not the crasher, and its
//     record is dropped or starts without crashes. If C releases the lease in good
//     order before the call, it takes its announcement back.
//  6. Decide gives the change up without another call when its record counts
//     minCrashes crashes.
//  7. Announcing ends when the owner has finished all changes that the owner before
//     it can have read, but for those of waiting keys: up to the Q that it has saved, and
//     MaxAhead and a page of the usual size behind it, or everything if the feed ended before.
//
// No suspect waits for others without bound: a call that has run for slotHold gives
// the slot up, as it is more likely to hang than to crash, and a suspect that has
// waited for slotWait is delivered without the slot, and without a crash charged.
//
// The delivery owns it; its lanes share it.
type isolation struct {
	inherited int64        // Q of the owner before, as an LSN, or 0
	mostAhead int64        // changes that the owner before can have read behind its Q
	endsAt    atomic.Int64 // sequence number of the change whose end ends announcing; 0 after that
}

const (
	slotHold  = 10 * time.Second
	slotWait  = 30 * time.Second
	slotRetry = 50 * time.Millisecond // between two requests for the slot, at most
)

func newIsolation(c Config) *isolation {
	_, reached := c.inheritedValue()
	s := &isolation{inherited: reached, mostAhead: int64(c.mostTaken())}
	if c.Announce {
		s.endsAt.Store(math.MaxInt64)
		s.pageTaken(0, 0)
	}
	return s
}

func (s *isolation) isAnnouncing() bool { return s.endsAt.Load() > 0 }

// pageTaken is told how far this owner has read: the LSN and the sequence number of the last
// change.
func (s *isolation) pageTaken(lsn, seq int64) {
	if lsn >= s.inherited {
		s.endsAt.CompareAndSwap(math.MaxInt64, seq+s.mostAhead)
	}
}

// passed ends announcing if this owner has to announce no change after that one.
func (s *isolation) passed(seq int64) {
	if seq >= s.endsAt.Load() {
		s.endsAt.Store(0)
	}
}

// tryEnter requests the suspect slot for a call. If the group has entered, the caller must
// call leave after the call; else it asks again at the returned time. A group that has waited
// for slotWait enters without the slot: alone is then false.
func (s *laneShared) tryEnter(lane int, g *group, now time.Time) (alone, entered bool, leave func(), retryTime time.Time) {
	// Ranges and lanes that ask at one moment get an order, so that a simulated run repeats.
	retryTime = now.Add(backoff.Spread(slotRetry, s.config.JitterKey...) + time.Duration(lane)*time.Microsecond)
	if g.suspectSince.IsZero() {
		g.suspectSince = now
		return false, false, nil, retryTime
	}
	select {
	case s.config.SuspectSlot <- struct{}{}:
		release := sync.OnceFunc(func() { <-s.config.SuspectSlot })
		hold := time.AfterFunc(slotHold, release)
		return true, true, func() { hold.Stop(); release() }, now
	default:
		return false, now.Sub(g.suspectSince) >= slotWait, func() {}, retryTime
	}
}

// announce returns after the lease names the group. A single suspect that is alone in the
// process is charged with a crash, until the call returns.
func (s *laneShared) announce(ctx context.Context, lane int, g *group, alone bool) error {
	if lane > 0 { // as in tryEnter: a write names the groups that were there when it began
		if err := backoff.Sleep(ctx, time.Duration(lane)*time.Microsecond); err != nil {
			return err
		}
	}
	state := g.retry
	if alone && len(g.items) == 1 {
		state = state.failedFirst(time.Now())
		state.Crashes++
	}
	s.retries.announceGroup(g.items, state)
	return s.calls.ConfirmOwnership(ctx)
}

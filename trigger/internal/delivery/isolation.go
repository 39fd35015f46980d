package delivery

import (
	"context"
	"time"

	"halley/trigger/internal/backoff"
)

// isolation finds a change that ends the process, and gives it up.
//
// A crash leaves no error behind, so the evidence is in the lease:
//
//  1. Host A calls the handler with a batch, and the process ends. A's lease
//     expires without a release. Host B acquires it and counts one unclean exit in
//     the lease (halley.deaths). A release, or a checkpoint past the position at
//     which B began, resets the count. B delivers as usual: A may have ended for
//     any reason.
//  2. B ends as well. Host C acquires the lease and counts two: it starts in
//     isolation. It delivers each page with one change per call.
//  3. Before each of these calls C waits for the suspect slot, so that only one
//     suspected change is in a call in this process, over all ranges and functions.
//     A crash is then attributed to one change.
//  4. C adds one crash to the change's retry record and writes the lease, before
//     the call. If the process ends, host D reads in the record which change it was.
//  5. If the call returns, even with an error, the change is not the crasher, and
//     its record is dropped or starts without crashes. If C releases the lease in
//     good order first, it takes its crash back (Delivery.ClearSuspect).
//  6. The isolation ends with the first page after which the lease holds a newer
//     position. If the range ends uncleanly again before that, the next owner is in
//     isolation too, and delivers the same changes one by one.
//  7. Decide gives the change up without another call when its record counts
//     MaxAttempts crashes, and at least minCrashes.
//
// The goroutine that runs the delivery owns it.
type isolation struct {
	isActive         bool
	suspectSlot      chan struct{} // capacity 1, one per process
	confirmOwnership func(ctx context.Context) error
	retries          *retryRecords
	jitterKey        []any

	suspectName string // name of the change that was last delivered in isolation
	holdsSlot   bool   // this range holds the slot
}

// enterSpread bounds the jitter before the suspect slot is requested. Ranges that
// request it at one moment get an order by hash, so a simulated run can be repeated.
const enterSpread = 20 * time.Millisecond

// enterSlot returns when the group, a single change, may be delivered in isolation:
// this range has the suspect slot and the lease names the change. The caller must
// call leave after the call.
func (s *isolation) enterSlot(ctx context.Context, g *group, failures int) error {
	if err := backoff.Sleep(ctx, backoff.Wait(1, enterSpread, enterSpread, s.jitterKey...)); err != nil {
		return err
	}
	select {
	case s.suspectSlot <- struct{}{}:
		s.holdsSlot = true
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	marked := g.retryState.failedFirst(time.Now())
	marked.Crashes++
	s.suspectName = g.items[0].Name()
	s.retries.saveGroup(g.items, marked, failures)
	if err := s.confirmOwnership(ctx); err != nil {
		s.leaveSlot()
		return err
	}
	return nil
}

// leaveSlot gives the suspect slot back. It may be called again.
func (s *isolation) leaveSlot() {
	if s.holdsSlot {
		s.holdsSlot = false
		<-s.suspectSlot
	}
}

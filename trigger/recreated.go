package trigger

import (
	"errors"
	"sync"

	"halley/trigger/cosmos"
	"halley/trigger/internal/lease"
)

// isContainerGone reports whether an error says that a container of a function is missing or
// was created again.
func isContainerGone(err error) bool {
	return errors.Is(err, lease.ErrRecreated) || cosmos.Classify(err) == cosmos.OutcomeContainerGone
}

// reopenLeases has the next prepareLeases find the containers again after isContainerGone. No
// worker of the function is at work.
func (r *functionRunner) reopenLeases() {
	r.leases.Reopen()
	r.feedSource = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.coolingRanges) // the ranges of another container may have their tokens
}

// recordLost keeps the position of a lease whose document is gone, if this host owned it until
// then.
func (r *functionRunner) recordLost(w *rangeWorker) (deleted bool) {
	lost, deleted := w.held.DeletedLease()
	if deleted {
		r.leases.RecordLost(lost)
	}
	return deleted
}

// soloCalls are the calls of Dispatch and DrainRange of a function that are under way. They
// use the leases at the same time, so the last of them to end has the next one reopen them.
// mu guards the fields, and is held while the leases are reopened, which does no I/O.
type soloCalls struct {
	mu        sync.Mutex
	running   int
	reopenDue bool
}

// begin counts a call. The caller calls end with the call's error.
func (s *soloCalls) begin(reopen func()) (end func(err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reopenDue && s.running == 0 {
		s.reopenDue = false
		reopen()
	}
	s.running++
	return func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
		s.reopenDue = s.reopenDue || isContainerGone(err)
	}
}

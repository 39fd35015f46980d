package trigger

import (
	"halley/trigger/internal/delivery"
	"halley/trigger/stall"
)

// countFailed counts a batch that the handler failed on, and the changes that it handled.
// It is a stall, unless the handler has the batch halved. If the handler postpones all
// others, it is one only if they cannot be put into the store, see notPostponed.
func (s *rangeStats) countFailed(lane int, e Event, limit int, v delivery.Verdict) {
	cause := stall.Stall{Kind: stall.HandlerFails, Attempt: e.Attempt, Attempts: max(limit, 0), Text: e.Err.Error()}
	isPostponing := len(v.Postponed) > 0 && len(v.Postponed) == len(v.FailedItems)
	s.mu.Lock()
	s.rangeStatus.Retries++
	s.rangeStatus.Changes += e.Handled
	delete(s.postponing, lane)
	if isPostponing {
		s.postponing[lane] = cause
	}
	s.mu.Unlock()
	if !isPostponing && v.Outcome != delivery.Halved {
		s.setStall(lane, cause)
	}
}

// countPostponed counts a change that is in the store until it is due. If an earlier call
// failed with it, that stall is over.
func (s *rangeStats) countPostponed(lane int) {
	s.mu.Lock()
	s.rangeStatus.Postponed++
	delete(s.laneStalls, delivery.AllLanes) // the store works
	if s.postponing[lane].Attempt > 1 && s.laneStalls[lane].Kind == stall.HandlerFails {
		delete(s.laneStalls, lane)
	}
	s.mu.Unlock()
	s.reportRecovery()
}

// notPostponed notes that changes which the handler has postponed are retried: the range has
// too many postponed keys.
func (s *rangeStats) notPostponed(lane int) {
	s.mu.Lock()
	cause, asked := s.postponing[lane]
	delete(s.postponing, lane)
	s.mu.Unlock()
	if asked {
		s.setStall(lane, cause)
	}
}

package trigger

import (
	"maps"
	"slices"
	"time"

	"halley/trigger/stall"
)

// equalFailures is the number of equal failures in a row after which a range counts
// as stalled, however short they were.
const equalFailures = 5

// laneStall is the stall of one lane.
type laneStall struct {
	stall.Stall
	began    time.Time // local clock
	failures int       // equal ones in a row
	logged   time.Time // when the log last told of it
}

// currentStalls returns the stalls and the long calls, by lane, which the watch reports
// if they last. mu is held.
func (s *rangeStats) currentStalls(now time.Time) (stalls []stall.Stall) {
	for _, lane := range slices.Sorted(maps.Keys(s.laneStalls)) {
		stalls = append(stalls, s.laneStalls[lane].Stall)
	}
	for _, lane := range slices.Sorted(maps.Keys(s.runningCalls)) {
		if age := time.Since(s.runningCalls[lane]); age >= min(longCall, s.stallAfter) {
			stalls = append(stalls, stall.Stall{Kind: runningKind(lane), Since: now.Add(-age)})
		}
	}
	return stalls
}

// setProblem records why a lane, the reader or the lease's writer makes no progress. It
// reports whether that is news.
func (s *rangeStats) setProblem(lane int, kind stall.Kind, err error) bool {
	return s.setStall(lane, stall.Stall{Kind: kind, Text: err.Error()})
}

// setStall records a stall, and reports whether it is news. A stall of one kind lasts
// since its first failure, also if that was an earlier owner's.
func (s *rangeStats) setStall(lane int, cause stall.Stall) (news bool) {
	now := s.serviceNow()
	s.mu.Lock()
	previous, wasStalled := s.laneStalls[lane]
	next := laneStall{Stall: cause, began: time.Now(), failures: 1}
	next.Since = s.stalledSince(cause.Kind, now)
	if wasStalled && previous.Kind == cause.Kind {
		next.Since, next.began = previous.Since, previous.began
	}
	if wasStalled && previous.Text == cause.Text {
		next.failures, next.logged = previous.failures+1, previous.logged
	}
	s.laneStalls[lane] = next
	s.arm(s.stallAfter)
	s.mu.Unlock()
	if next.failures >= equalFailures || now.Sub(next.Since) >= s.stallAfter { // this owner may not live long enough for the watch
		s.reportStall()
	}
	return !wasStalled || previous.Text != cause.Text
}

// stalledSince returns the start of a stall that begins to show now: that of the last owner, if
// the range has made no progress since and the reason is the same. mu is held.
func (s *rangeStats) stalledSince(kind stall.Kind, now time.Time) time.Time {
	if kind == s.inherited.Kind && s.inherited.Since.Before(now) {
		return s.inherited.Since
	}
	return now
}

// isOver reports whether a page ends a stall of the last owner: the feed works, or the range has
// no work left.
func isOver(kind stall.Kind, isIdle bool) bool {
	return isIdle || kind == stall.FeedFails || kind == stall.FeedThrottled
}

// endInherited ends a stall of the last owner that is of one kind.
func (s *rangeStats) endInherited(kind stall.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inherited.Kind == kind {
		s.inherited = stall.Stall{}
	}
}

// clearStall says that a lane, the reader or the lease's writer works again.
func (s *rangeStats) clearStall(lane int) {
	s.mu.Lock()
	_, wasStalled := s.laneStalls[lane]
	delete(s.laneStalls, lane)
	s.mu.Unlock()
	if wasStalled {
		s.reportRecovery()
	}
}

// arm starts the watch if it is not running. mu is held.
func (s *rangeStats) arm(delay time.Duration) {
	if s.watchIsArmed || s.isClosed {
		return
	}
	s.watchIsArmed = true
	if s.watch == nil {
		s.watch = time.AfterFunc(delay, s.checkWatch)
		return
	}
	s.watch.Reset(delay)
}

// checkWatch reports a stall that has lasted too long, or waits until the oldest has.
func (s *rangeStats) checkWatch() {
	s.mu.Lock()
	s.watchIsArmed = false
	var oldest time.Time
	for lane, l := range s.laneStalls {
		if s.isHeldBack(lane) {
			continue // the limit is the reason at the moment
		}
		if oldest.IsZero() || l.began.Before(oldest) {
			oldest = l.began
		}
	}
	for _, began := range s.runningCalls {
		if oldest.IsZero() || began.Before(oldest) {
			oldest = began
		}
	}
	remaining := s.stallAfter - time.Since(oldest)
	switch {
	case oldest.IsZero():
	case remaining > 0:
		s.arm(remaining)
	default:
		defer s.reportStall()
	}
	s.mu.Unlock()
}

// reportStall reports once that the range is stalled.
func (s *rangeStats) reportStall() {
	s.reportMu.Lock()
	defer s.reportMu.Unlock()
	now := s.serviceNow()
	s.mu.Lock()
	cause, ok := longestStall(s.currentStalls(now))
	isNews := ok && s.reportedStall == nil && !s.isClosed
	if isNews {
		s.reportedStall = &cause
	}
	s.mu.Unlock()
	if isNews {
		s.report(EventStalled, cause)
	}
}

// reportRecovery reports once that the range makes progress again.
func (s *rangeStats) reportRecovery() {
	s.mu.Lock()
	isOver := s.stallIsOver()
	s.mu.Unlock()
	if !isOver {
		return
	}
	s.reportMu.Lock()
	defer s.reportMu.Unlock()
	s.mu.Lock()
	cause := s.reportedStall
	if isOver = s.stallIsOver(); isOver {
		s.reportedStall = nil
	}
	s.mu.Unlock()
	if isOver {
		s.report(EventRecovered, *cause)
	}
}

// close ends the watch with the worker. After it nothing is reported.
func (s *rangeStats) close() {
	s.reportMu.Lock()
	defer s.reportMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isClosed = true
	if s.watch != nil {
		s.watch.Stop()
	}
}

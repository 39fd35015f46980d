package trigger

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/lease"
)

// rangeStats are the counters of one worker, for [Host.Status]. mu guards them,
// and no other lock is taken under it.
type rangeStats struct {
	retentionError func() error // whether changes may be lost soon

	mu           sync.Mutex
	rangeStatus  RangeStatus
	laneProblems map[int]string // by lane, or delivery.AllLanes
	hasHung      bool           // a handler call was left behind
}

func newRangeStats(l *lease.Lease, late func() error) *rangeStats {
	return &rangeStats{retentionError: late, laneProblems: map[int]string{}, rangeStatus: RangeStatus{
		Range: l.Token(), Epoch: l.Epoch(), Continuation: l.Continuation(), Since: time.Now(),
	}}
}

func (s *rangeStats) currentStatus() RangeStatus {
	s.mu.Lock()
	status := s.rangeStatus
	var problems []string
	for _, lane := range slices.Sorted(maps.Keys(s.laneProblems)) {
		if p := s.laneProblems[lane]; !slices.Contains(problems, p) {
			problems = append(problems, p)
		}
	}
	s.mu.Unlock()
	if err := s.retentionError(); err != nil {
		problems = append(problems, err.Error())
	}
	status.Problem = strings.Join(problems, "; ")
	return status
}

// countPage counts a page: the feed works.
func (s *rangeStats) countPage(p *cosmos.Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rangeStatus.Continuation = p.Continuation
	delete(s.laneProblems, delivery.AllLanes)
}

// countDelivered counts a batch that the handler accepted.
func (s *rangeStats) countDelivered(lane int, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rangeStatus.Batches++
	s.rangeStatus.Changes += e.Changes
	s.rangeStatus.LastLSN = e.LastLSN
	delete(s.laneProblems, lane)
}

// countFailed counts a batch that the handler failed on.
func (s *rangeStats) countFailed(lane int, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rangeStatus.Retries++
	s.laneProblems[lane] = e.Err.Error()
}

// countDeadLetter counts a change that is in the dead letter store.
func (s *rangeStats) countDeadLetter(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rangeStatus.DeadLetters++
	delete(s.laneProblems, lane)
}

// setProblem records why a lane, or the range as a whole, makes no progress. It
// reports whether that is news.
func (s *rangeStats) setProblem(lane int, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.laneProblems[lane] != err.Error()
	s.laneProblems[lane] = err.Error()
	return news
}

func (s *rangeStats) markHung() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasHung = true
}

func (s *rangeStats) hasHungCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasHung
}

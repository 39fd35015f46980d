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
	late func() error // whether changes may be lost soon

	mu       sync.Mutex
	status   RangeStatus
	problems map[int]string // by lane, or delivery.AllLanes
	hasHung  bool           // a handler call was left behind
}

func newRangeStats(l *lease.Lease, late func() error) *rangeStats {
	return &rangeStats{late: late, problems: map[int]string{}, status: RangeStatus{
		Range: l.Token(), Epoch: l.Epoch(), Continuation: l.Continuation(), Since: time.Now(),
	}}
}

func (s *rangeStats) snapshot() RangeStatus {
	s.mu.Lock()
	status := s.status
	var problems []string
	for _, lane := range slices.Sorted(maps.Keys(s.problems)) {
		if p := s.problems[lane]; !slices.Contains(problems, p) {
			problems = append(problems, p)
		}
	}
	s.mu.Unlock()
	if err := s.late(); err != nil {
		problems = append(problems, err.Error())
	}
	status.Problem = strings.Join(problems, "; ")
	return status
}

// read counts a page: the feed works.
func (s *rangeStats) read(p *cosmos.Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Continuation = p.Continuation
	delete(s.problems, delivery.AllLanes)
}

// delivered counts a batch that the handler accepted.
func (s *rangeStats) delivered(lane int, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Batches++
	s.status.Changes += e.Changes
	s.status.LastLSN = e.LastLSN
	delete(s.problems, lane)
}

// failed counts a batch that the handler failed on.
func (s *rangeStats) failed(lane int, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Retries++
	s.problems[lane] = e.Err.Error()
}

// deadLettered counts a change that is in the dead letter store.
func (s *rangeStats) deadLettered(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.DeadLetters++
	delete(s.problems, lane)
}

// setProblem records why a lane, or the range as a whole, makes no progress. It
// reports whether that is news.
func (s *rangeStats) setProblem(lane int, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.problems[lane] != err.Error()
	s.problems[lane] = err.Error()
	return news
}

func (s *rangeStats) hung() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasHung = true
}

func (s *rangeStats) hasHungCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasHung
}

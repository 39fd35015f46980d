package lease

import (
	"sync"
	"time"
)

// writeState is what the goroutines of a range and the writer of its lease tell
// each other: the position to store, and how far writing has come.
type writeState struct {
	mu                       sync.Mutex    // guards all fields; never held during I/O, nor together with another lock
	acknowledgedContinuation string        // continuation that a checkpoint may hold
	storedContinuation       string        // continuation that the lease holds
	writeDueAt               time.Time     // when a write is due before the next renewal; zero if none is
	madeProgress             bool          // the next write resets the count of unclean exits
	lastSent                 time.Time     // when the last successful write left
	writesBegun              int           // begun so far
	lastSuccess              int           // number of the last successful write
	writtenSignal            chan struct{} // closed and replaced at each successful write
	loss                     error         // why the lease is lost, or nil
	refusedErr               error         // why the service refuses writes for the moment, or nil
	refusedSince             time.Time     // first refusal in a row
}

func newWriteState(continuation string, sent time.Time) *writeState {
	return &writeState{acknowledgedContinuation: continuation, storedContinuation: continuation, lastSent: sent, writtenSignal: make(chan struct{})}
}

// acknowledgePosition sets the position that a checkpoint may hold. It reports whether a
// write is due earlier than before.
func (s *writeState) acknowledgePosition(position string, saveAt time.Time) (earlier bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acknowledgedContinuation = position
	if saveAt.IsZero() || !s.writeDueAt.IsZero() && !saveAt.Before(s.writeDueAt) {
		return false
	}
	s.writeDueAt = saveAt
	return true
}

func (s *writeState) setMadeProgress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.madeProgress = true
}

// setDue makes a write due now.
func (s *writeState) setDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeDueAt = time.Now()
}

func (s *writeState) setLoss(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loss = err
}

// setRefused records that the service refused a write.
func (s *writeState) setRefused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusedErr == nil {
		s.refusedSince = time.Now()
	}
	s.refusedErr = err
}

// refusal returns why the service refuses writes and since when, nil if it does not.
func (s *writeState) refusal() (since time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusedSince, s.refusedErr
}

// beginWrite starts a write: it returns the position to store, whether the owner has
// made progress, and the number of the write.
func (s *writeState) beginWrite() (position string, madeProgress bool, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeDueAt = time.Time{}
	s.writesBegun++
	return s.acknowledgedContinuation, s.madeProgress, s.writesBegun
}

// writeSucceeded ends a write that stored a position.
func (s *writeState) writeSucceeded(stored string, sent time.Time, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastSent, s.storedContinuation, s.lastSuccess, s.refusedErr = sent, stored, number, nil
	close(s.writtenSignal)
	s.writtenSignal = make(chan struct{})
}

func (s *writeState) storedPosition() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.storedContinuation
}

func (s *writeState) lossError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loss
}

// writeSchedule returns when a write is due, zero if none is, and when the last
// successful one left.
func (s *writeState) writeSchedule() (dueAt, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeDueAt, s.lastSent
}

// isTrusted reports whether the last successful write left less than limit ago, by
// the monotonic clock and by the wall clock. The two differ after a suspended
// machine resumes and after a clock step; then only a new write restores trust.
func (s *writeState) isTrusted(limit time.Duration) (trusted bool, written <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	wall := now.Round(0).Sub(s.lastSent.Round(0))
	return now.Sub(s.lastSent) < limit && wall < limit && wall > -limit, s.writtenSignal
}

// nextWrite returns the number of the next write that begins.
func (s *writeState) nextWrite() (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writesBegun + 1
}

// storedBy reports whether the write of that number, or a later one, has stored
// the acknowledged position.
func (s *writeState) storedBy(number int) (stored bool, written <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastSuccess >= number && s.storedContinuation == s.acknowledgedContinuation, s.writtenSignal
}

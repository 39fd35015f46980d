package lease

import (
	"sync"
	"time"
)

// writeState is what the goroutines of a range and the writer of its lease tell
// each other: the position to store, and how far writing has come.
type writeState struct {
	mu           sync.Mutex    // guards all fields; never held during I/O, nor together with another lock
	acknowledged string        // continuation that a checkpoint may hold
	stored       string        // continuation that the lease holds
	due          bool          // a write is due before the next renewal
	madeProgress bool          // the next write resets the count of unclean exits
	sent         time.Time     // when the last successful write left
	writing      bool          // a write is under way, or has failed and will be repeated
	writes       int           // begun so far
	lastSuccess  int           // number of the last successful write
	written      chan struct{} // closed and replaced at each successful write
	loss         error         // why the lease is lost, or nil
}

func newWriteState(continuation string, sent time.Time) *writeState {
	return &writeState{acknowledged: continuation, stored: continuation, sent: sent, written: make(chan struct{})}
}

func (s *writeState) acknowledge(position string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acknowledged = position
}

func (s *writeState) setMadeProgress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.madeProgress = true
}

func (s *writeState) setDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = true
}

func (s *writeState) setLoss(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loss = err
}

// begin starts a write: it returns the position to store, whether the owner has
// made progress, and the number of the write.
func (s *writeState) begin() (position string, madeProgress bool, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due, s.writing = false, true
	s.writes++
	return s.acknowledged, s.madeProgress, s.writes
}

// succeed ends a write that stored a position.
func (s *writeState) succeed(stored string, sent time.Time, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.stored, s.lastSuccess, s.writing = sent, stored, number, false
	close(s.written)
	s.written = make(chan struct{})
}

func (s *writeState) position() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored
}

func (s *writeState) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loss
}

// schedule returns whether a write is due, and when the last successful one left.
func (s *writeState) schedule() (due bool, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due, s.sent
}

// trusted reports whether the last successful write left less than limit ago, by
// the monotonic clock and by the wall clock. The two differ after a suspended
// machine resumes and after a clock step; then only a new write restores trust.
func (s *writeState) trusted(limit time.Duration) (trusted bool, written <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	wall := now.Round(0).Sub(s.sent.Round(0))
	return now.Sub(s.sent) < limit && wall < limit && wall > -limit, s.written
}

// next returns the number of the next write, and whether none is due or under
// way before it.
func (s *writeState) next() (idle bool, number int, written <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.due && !s.writing, s.writes + 1, s.written
}

// storedBy reports whether the write of that number, or a later one, has stored
// the acknowledged position.
func (s *writeState) storedBy(number int) (stored bool, written <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastSuccess >= number && s.stored == s.acknowledged, s.written
}

package delivery

import "time"

// Checkpoint says how often the acknowledged prefix is saved. Its fields are those
// of trigger.Checkpoint.
type Checkpoint struct {
	Every    int
	Interval time.Duration
	Manual   bool
}

// checkpointSchedule decides which acknowledged positions are saved. The progress owns it
// and guards it.
type checkpointSchedule struct {
	setting      Checkpoint
	requestedSeq int64     // a handler asked for the position after this change
	savedSeq     int64     // last change before the position that was last to be saved
	savedAt      time.Time // when that was
}

// isDue reports whether the position after the change with that sequence number is
// to be saved now.
func (s *checkpointSchedule) isDue(seq int64) bool {
	changes := seq - s.savedSeq
	if changes <= 0 {
		return false
	}
	c := s.setting
	always := c.Every <= 0 && c.Interval <= 0
	if always || c.Every > 0 && changes >= int64(c.Every) || c.Interval > 0 && time.Since(s.savedAt) >= c.Interval {
		s.savedSeq, s.savedAt = seq, time.Now()
		return true
	}
	return false
}

// isRequestDue does the same with a position that a handler has asked for.
func (s *checkpointSchedule) isRequestDue(seq int64) bool {
	due := seq > s.savedSeq
	s.savedSeq = max(s.savedSeq, seq)
	return due
}

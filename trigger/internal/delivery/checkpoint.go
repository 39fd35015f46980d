package delivery

import "time"

// Checkpoint says how often the acknowledged prefix is saved. Its fields are those
// of trigger.Checkpoint, with the defaults filled in. If neither Every nor Interval is
// above 0, as with Manual, each new position is saved at once.
type Checkpoint struct {
	Every    int
	Interval time.Duration
	Manual   bool
}

// checkpointSchedule decides when acknowledged positions are saved. The progress owns it
// and guards it.
//
// The lease's writer saves the newest position when a save is due, with everything that
// was acknowledged until then. So a save that is planned for later covers the changes
// that are acknowledged meanwhile.
type checkpointSchedule struct {
	setting   Checkpoint
	latestSeq int64     // last change before the newest position
	savedSeq  int64     // last change before the position that was last saved
	savedAt   time.Time // when that was, or when the planned save is due
	isPlanned bool      // savedAt is the time of a planned save
}

// nextSave returns when the position after the change with that sequence number is to be
// saved, at the latest; the zero time means that it need not be for now.
func (s *checkpointSchedule) nextSave(seq int64, now time.Time) time.Time {
	if s.isPlanned && !now.Before(s.savedAt) {
		s.isPlanned, s.savedSeq = false, s.latestSeq
	}
	s.latestSeq = seq
	changes, c := seq-s.savedSeq, s.setting
	isDue := c.Every > 0 && changes >= int64(c.Every) || c.Interval > 0 && now.Sub(s.savedAt) >= c.Interval
	switch {
	case changes <= 0:
		return time.Time{}
	case isDue, c.Every <= 0 && c.Interval <= 0:
		s.savedSeq, s.savedAt, s.isPlanned = seq, now, false
	case c.Interval <= 0:
		return time.Time{}
	case !s.isPlanned:
		s.savedAt, s.isPlanned = s.savedAt.Add(c.Interval), true
	}
	return s.savedAt
}

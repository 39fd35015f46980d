package trigger

import "time"

// Checkpoint says how often the acknowledged prefix of a range is saved. The zero
// value saves continuously: as soon as a batch is handled, with everything
// acknowledged while the last save was under way. That costs the handler no time,
// and at most one write per round trip. With every choice but Manual, the last
// position is saved when the range is released.
type Checkpoint struct {
	// Every saves after that many changes.
	Every int
	// Interval saves if the last save is that long ago. With Every, the first of
	// the two counts.
	Interval time.Duration
	// Manual saves only the positions that the handler requests with
	// [Batch.Checkpoint], and nothing after the last of them.
	Manual bool
}

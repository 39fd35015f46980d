package trigger

import (
	"sync"
	"time"
)

// Checkpoint says how often the acknowledged prefix of a range is saved. The
// zero value saves continuously: as soon as a batch is handled, with everything
// acknowledged while the last save was under way, which costs the handler no
// time and at most one write per round trip. Whatever is chosen, the last
// position is saved when the range is released, except with Manual.
type Checkpoint struct {
	// Every saves after that many changes.
	Every int
	// Interval saves when the last save is that long ago. With Every, what comes
	// first counts.
	Interval time.Duration
	// Manual saves only what the handler asked for with [Batch.Checkpoint], and
	// nothing after it.
	Manual bool
}

// checkpoints passes acknowledged positions on to the keeper as the function's
// setting says.
type checkpoints struct {
	setting Checkpoint
	keeper  *keeper

	mu    sync.Mutex
	end   string    // of the acknowledged prefix
	at    int64     // the ordinal of the last change in it
	asked int64     // a handler asked for the position after this change
	saved int64     // at, when the position was last to be saved
	last  time.Time // and when that was
}

// request asks for the position after the change with that ordinal. Where it
// cannot be named, being inside a transaction or in a page of a merged range, the
// last one before it is as far as a checkpoint goes.
func (c *checkpoints) request(ordinal int64) {
	if !c.setting.Manual {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = max(c.asked, ordinal)
	c.saveAsked()
}

// advance is told each new end of the acknowledged prefix, and the ordinal of
// the last change in it.
func (c *checkpoints) advance(end string, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end, c.at = end, at
	if c.setting.Manual {
		c.saveAsked()
		return
	}
	c.keeper.advance(end, c.due())
}

// saveAsked saves the end of the prefix, if it was asked for.
func (c *checkpoints) saveAsked() {
	if c.end != "" && c.at <= c.asked {
		c.keeper.advance(c.end, true)
	}
}

// due reports whether the position is to be saved now.
func (c *checkpoints) due() bool {
	s, changes := c.setting, c.at-c.saved
	always := s.Every <= 0 && s.Interval <= 0
	if changes > 0 && always || s.Every > 0 && changes >= int64(s.Every) || changes > 0 && s.Interval > 0 && time.Since(c.last) >= s.Interval {
		c.saved, c.last = c.at, time.Now()
		return true
	}
	return false
}

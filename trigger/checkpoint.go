package trigger

import (
	"sync"
	"sync/atomic"
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
	// Manual saves only what the handler asked for with [Batch.Checkpoint].
	Manual bool
}

// checkpoints passes acknowledged positions on to the keeper as the function's
// setting says.
type checkpoints struct {
	setting Checkpoint
	keeper  *keeper

	requested atomic.Bool // the handler asked for one

	mu      sync.Mutex
	pending int       // changes since the last one
	last    time.Time // when it was
}

// request is what a handler calls, for the end of the batch it has in hand.
func (c *checkpoints) request() { c.requested.Store(true) }

// advance is told each new end of the acknowledged prefix and how many changes
// were finished to get there.
func (c *checkpoints) advance(end string, changes int) {
	if c.setting.Manual {
		if c.requested.CompareAndSwap(true, false) {
			c.keeper.advance(end, true)
		}
		return
	}
	c.keeper.advance(end, changes > 0 && c.due(changes))
}

// due reports whether the position is to be saved now.
func (c *checkpoints) due(changes int) bool {
	s := c.setting
	if s.Every <= 0 && s.Interval <= 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending += changes
	if s.Every > 0 && c.pending >= s.Every || s.Interval > 0 && time.Since(c.last) >= s.Interval {
		c.pending, c.last = 0, time.Now()
		return true
	}
	return false
}

package trigger

import "time"

// Checkpoint says how often the acknowledged prefix of a range is saved. By default it
// is saved at once if the last save was 200 ms ago or more, and else when the 200 ms are
// over, with everything acknowledged until then. A save costs the handler no time. After
// a crash, the changes since the last save are delivered again.
//
// With every choice but Manual, the last position is saved at once when the range is
// released or splits, and at the end of a drain.
type Checkpoint struct {
	// Every saves after that many changes.
	Every int
	// Interval saves if the last save is that long ago. With Every, the first of
	// the two counts. It is 200 ms if neither Every nor Manual is set. EachBatch saves
	// as soon as a batch is handled.
	Interval time.Duration
	// Manual saves a position only if all handled changes before it are covered by a
	// request of the handler, see [Batch.Checkpoint], or [Function.Flush] at the end.
	Manual bool
}

// EachBatch is the [Checkpoint].Interval that saves as soon as a batch is handled, with
// everything acknowledged while the last save was under way: at most one write per round
// trip. After a crash little more than the batches that were being handled is delivered
// again.
const EachBatch time.Duration = -1

func (c Checkpoint) validate(p *problems) {
	refuseNegative(p, nonNegative, field[int]{"Checkpoint.Every", c.Every})
	switch {
	case c.Manual && c != (Checkpoint{Manual: true}):
		p.add("Checkpoint.Manual", true, "leaves nothing for Checkpoint.Every and Checkpoint.Interval: remove these, or it")
	case c.Interval < 0 && c.Interval != EachBatch:
		p.add("Checkpoint.Interval", c.Interval, nonNegative)
	case c.Interval == EachBatch && c.Every > 0:
		p.add("Checkpoint.Every", c.Every, "adds nothing if each batch is saved: remove it, or Checkpoint.Interval")
	}
}

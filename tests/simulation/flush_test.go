package simulation

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"halley/tests/history"
	"halley/trigger"
)

// rangeEpoch is the work of a host on a range, from one acquisition to the release.
type rangeEpoch struct {
	token string
	epoch int64
}

// countCall counts the handler calls that have not returned.
func (p *process) countCall(at rangeEpoch, change int) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.calling[at] += change
}

// flushCall is one call of a host's Flush. The world's lock guards hasEnded and isGone.
type flushCall struct {
	p        *process
	id       string
	info     trigger.RangeInfo
	ends     chan error
	hasEnded bool
	isGone   bool // its context ended before
}

// flush is the Flush of a host's function. Its sink stores what it buffers, or refuses, as
// the seed decides.
func (p *process) flush(ctx context.Context, r trigger.RangeInfo) error {
	c := &flushCall{p: p, info: r, ends: make(chan error, 1)}
	if !c.begin() {
		return errCut
	}
	p.w.later(c.duration(), c.id, c.end)
	select {
	case err := <-c.ends:
		return err
	case <-p.cut:
		return errCut
	case <-ctx.Done():
	}
	p.w.mu.Lock()
	c.isGone = !c.hasEnded
	p.w.mu.Unlock()
	if c.isGone {
		return context.Cause(ctx)
	}
	return <-c.ends
}

// begin names the call. No handler call of the range may run.
func (c *flushCall) begin() bool {
	p, w := c.p, c.p.w
	w.used("Flush", 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.killed {
		return false
	}
	key := fmt.Sprintf("%s/flush/%s/%d", p.name, c.info.Range.ID, c.info.Epoch)
	p.sequences[key]++
	c.id = key + "#" + strconv.Itoa(p.sequences[key])
	if n := p.calling[rangeEpoch{c.info.Range.ID, c.info.Epoch}]; n > 0 {
		w.violate(hooked, "%s flushes range %s in epoch %d while %d of its calls run", p.name, c.info.Range.ID, c.info.Epoch, n)
	}
	return true
}

func (c *flushCall) duration() time.Duration {
	d := c.p.w.swarm.dice(c.id)
	if !c.p.w.swarm.quick && d.chance("slow", 0.1) {
		return d.duration("takes", 100*time.Millisecond, 3*time.Second)
	}
	return d.duration("takes", 50*time.Microsecond, quickest)
}

// end is the end of the call; the scheduler calls it.
func (c *flushCall) end() {
	w := c.p.w
	if wait := time.Until(c.p.frozen); wait > 0 {
		w.later(wait+w.afterThaw(c.id), c.id, c.end)
		return
	}
	w.mu.Lock()
	isOver := c.p.killed || c.isGone
	c.hasEnded = !isOver
	w.mu.Unlock()
	if isOver {
		return
	}
	flushed := history.Event{Kind: history.Flush, Host: c.p.name, Range: c.info.Range.ID, Epoch: c.info.Epoch}
	var err error
	if !w.calm && w.swarm.dice(c.id).chance("refuses", 0.15) {
		flushed.Verdict, err = history.Failed, errOnPurpose
	}
	w.record(flushed)
	c.ends <- err
}

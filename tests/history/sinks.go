package history

import (
	"maps"
	"slices"
)

// sinks follows the sinks that keep handled changes in memory until they flush them.
//
// A position may pass a change only when it is flushed: a request for a checkpoint covers
// the changes of its own call, if that returns nil, and of all calls that had returned
// before it. The sink flushes exactly these when it makes the request.
type sinks struct {
	buffers map[string]map[string][]Ref // by host and range
	batches map[Ref]wholeBatch          // the last call of each change that was given up without a name

	flushedAtEnd map[holder]bool // owners whose sinks have flushed when all their calls had returned
}

// wholeBatch is a call that gave up its batch and named no change.
type wholeBatch struct {
	changes int
	call    int64
}

func newSinks() sinks {
	return sinks{buffers: map[string]map[string][]Ref{}, batches: map[Ref]wholeBatch{}, flushedAtEnd: map[holder]bool{}}
}

// buffer records that a change was handled, and is only in the memory of its sink. If an
// earlier owner's sink has stored the change, that counts.
func (c *checker) buffer(by stream, name string, seq int64) {
	k := c.key(name)
	if seq < 1 || seq > int64(len(k.changes)) {
		return // already reported as a phantom
	}
	change := &k.changes[seq-1]
	change.unsaved = change.unsaved || !change.handled
	change.handled, change.kept, change.by, change.inStore = true, true, by, false
	ranges := c.buffers[by.host]
	if ranges == nil {
		ranges = map[string][]Ref{}
		c.buffers[by.host] = ranges
	}
	ranges[by.token] = append(ranges[by.token], Ref{name, seq})
}

// takeFlush takes in a flush of the sink of a host.
func (c *checker) takeFlush(e Event) {
	if e.Verdict == Failed {
		return
	}
	c.flush(e.Host, e.Range)
	if e.Epoch > 0 {
		c.flushedAtEnd[holder{e.Host, tenure{e.Range, e.Epoch}}] = true
	}
}

// flush records that the sink of a host has stored what it buffered for a range, or for
// all if token is empty.
func (c *checker) flush(host, token string) {
	for _, t := range slices.Sorted(maps.Keys(c.buffers[host])) {
		if token != "" && t != token {
			continue
		}
		for _, ref := range c.buffers[host][t] {
			c.handle(c.key(ref.Key).changes[ref.Seq-1].by, ref.Key, ref.Seq)
		}
		delete(c.buffers[host], t)
	}
}

// sinkEnded drops what the sink of a host has not flushed.
func (c *checker) sinkEnded(host string) {
	for _, refs := range c.buffers[host] {
		for _, ref := range refs {
			if change := &c.key(ref.Key).changes[ref.Seq-1]; change.unsaved && change.by.host == host {
				change.handled, change.unsaved = false, false
			}
		}
	}
	delete(c.buffers, host)
}

// inFeedOrder judges a delivery against the one before it in its call. A change that comes
// from the store has the number of the range that it was first read from.
func (c *checker) inFeedOrder(e Event) {
	earlier := c.calls[e.Call]
	if e.LSN == 0 || len(earlier) == 0 {
		return
	}
	last := earlier[len(earlier)-1]
	if e.LSN < last.LSN && !c.cameFromStore(e) && !c.cameFromStore(last) {
		c.violate(c.forward(FeedOrder, e.Host, e.Range), "a call of %q in epoch %d of range %q has %s/%d at %d after %s/%d at %d",
			e.Host, e.Epoch, e.Range, e.Key, e.Seq, e.LSN, last.Key, last.Seq, last.LSN)
	}
}

// wholeBatches keeps which changes were in a batch that its handler gave up without a name.
func (c *checker) wholeBatches(e Event, changes []Event) {
	for _, d := range changes {
		ref := Ref{d.Key, d.Seq}
		if delete(c.batches, ref); e.Op == GaveUpAll {
			c.batches[ref] = wholeBatch{len(changes), e.Call}
		}
	}
}

// givenUpAlone judges a dead letter of a change whose last call gave up its batch and named
// no change: only the change itself may have been in that batch.
func (c *checker) givenUpAlone(ref Ref, e Event) {
	b, found := c.batches[ref]
	if !found || !c.limits.Halves || e.Op == BlockedKey {
		return
	}
	if last := c.key(ref.Key).changes[ref.Seq-1].inCall; last != b.call { // a call that has not returned
		b = wholeBatch{len(c.calls[last]), last}
	}
	c.report.count(GivenUpAlone, 1, 0)
	if b.changes > 1 {
		c.violate(GivenUpAlone, "%s/%d was dead-lettered with the %d changes of call %d, whose handler named none", ref.Key, ref.Seq, b.changes, b.call)
	}
}

package history

import (
	"cmp"
	"maps"
	"slices"
)

// create judges a new lease. It is one of the first, the child of a parent that
// still exists, or it fills a gap that tampering has made.
func (c *checker) create(e Event) {
	l := &lease{token: e.Range, span: span{e.Min, e.Max}, epoch: e.Epoch, created: e.Epoch, position: e.Position, tampered: c.tampers[e.lid()]}
	if c.byToken[e.lid()] != nil {
		c.violate(Coverage, "lease %q was created twice", e.Range)
	}
	parents := map[string]*lease{}
	tampered := false // if a parent was tampered with, its position says nothing
	for token, p := range c.byToken {
		if token != e.lid() && p.contains(l.span) {
			parents[token] = p
			tampered = tampered || p.tampered > 0
		}
	}
	for token, p := range parents {
		// A request of an earlier owner may arrive after the parent was acquired again.
		if !p.tombstone && !e.Sent.Before(p.acquired) && (p.tampered == 0 && e.Epoch <= p.epoch || !tampered && e.Position < p.position) {
			c.violate(Monotone, "lease %q was created with epoch %d at %d below %q with epoch %d at %d", e.Range, e.Epoch, e.Position, token, p.epoch, p.position)
		}
	}
	if c.marked && len(parents) == 0 && !c.excuses(l.span) && !c.sentBefore(e) {
		c.violate(Coverage, "lease %q was created without a parent", e.Range)
	}
	c.byToken[e.lid()] = l
}

// sentBefore reports whether a lease was created by a request that left its host while
// the lease was still to be created: before the bootstrap had ended, or before a parent
// of the lease was retired. Host A sends the request and gives up; host B creates the
// leases of the two halves into which the range has split meanwhile; A's request
// arrives. The others supersede that lease: if it stays, two leases cover its keys at
// the end.
func (c *checker) sentBefore(e Event) bool {
	if e.Sent.IsZero() {
		return false
	}
	return e.Sent.Before(c.created) || slices.ContainsFunc(c.retired, func(p spanTime) bool {
		return p.contains(span{e.Min, e.Max}) && e.Sent.Before(p.at)
	})
}

func (c *checker) excuses(s span) bool {
	return slices.ContainsFunc(c.excused, func(t spanTime) bool { return s.overlaps(t.span) })
}

// cover judges the coverage of the key space when bootstrap is complete.
func (c *checker) cover() {
	if !c.marked {
		return
	}
	for _, gap := range gaps(c.sorted()) {
		if !c.excuses(gap) {
			c.violate(Coverage, "no lease covers [%q, %q)", gap.min, gap.max)
		}
	}
}

// sorted returns the leases that are not tombstones in the order of their keys.
func (c *checker) sorted() []*lease {
	live := slices.DeleteFunc(slices.Collect(maps.Values(c.byToken)), func(l *lease) bool { return l.tombstone })
	slices.SortFunc(live, func(a, b *lease) int { return cmp.Or(cmp.Compare(a.min, b.min), cmp.Compare(a.max, b.max)) })
	return live
}

// gaps returns the spans that sorted leases do not cover.
func gaps(sorted []*lease) (found []span) {
	reached := ""
	for _, l := range sorted {
		if l.min > reached {
			found = append(found, span{reached, l.min})
		}
		reached = max(reached, l.max)
	}
	if reached < "FF" {
		found = append(found, span{reached, "FF"})
	}
	return found
}

// finishLeases judges the last state of the leases. If the run became calm,
// there are no gaps and no overlaps, even if leases were tampered with before.
// Only the duplicate of a lease may remain, because an operator has to delete it.
func (c *checker) finishLeases() {
	if !c.calm || !c.marked {
		return
	}
	live := c.sorted()
	for _, gap := range gaps(live) {
		c.violate(Coverage, "at the end no lease covers [%q, %q)", gap.min, gap.max)
	}
	for i := range live[:max(len(live)-1, 0)] {
		if live[i].overlaps(live[i+1].span) && live[i].token != live[i+1].token {
			c.violate(Coverage, "at the end two leases cover [%q, %q)", live[i+1].min, min(live[i].max, live[i+1].max))
		}
	}
}

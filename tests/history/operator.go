package history

import "time"

// operator follows the changes that an operator makes to leases.
type operator struct {
	skips []Event    // writes of changes that were skipped
	taken []spanTime // leases that were taken from owners, and when
	moves []move     // of leases
	seeks []sought   // of leases, since which nothing else has moved them
}

// move is the span of a lease that was moved back, or whose finished changes behind its
// position became void.
type move struct {
	span
	from int64     // its position before, if it was moved back; else -1
	at   time.Time // when a seek, or an owner of another library, made that void; else zero
}

// movedBack reports whether a lease of these keys was moved to a position before a change, or
// whether its finished changes became void after the change was handled.
func (c *checker) movedBack(keys span, lsn int64, handled time.Time) bool {
	for _, m := range c.moves {
		if m.overlaps(keys) && (lsn <= m.from || handled.Before(m.at)) {
			return true
		}
	}
	return false
}

// operated judges a write of an operator, or of an owner that pauses the children of
// its lease.
func (c *checker) operated(e Event) {
	c.faulted = e.Time
	l := c.byToken[e.lid()]
	if l == nil {
		c.violate(Ownership, "lease %q was written by an operator, but does not exist", e.Range)
		return
	}
	switch e.Op {
	case Pause:
		l.paused = e.Time
		l.requester = "" // it stops waiting for a paused lease
		delete(c.orphans, e.lid())
		delete(c.handovers, e.lid())
		delete(c.resumes, e.lid())
		c.report.count(PausedRange, 1, 0)
	case Resume:
		l.paused = time.Time{}
	case Seek, Free:
		c.moved(e, l)
		c.soughtTo(e, l)
	case Take:
		c.takenAway(e, l)
	}
	if (e.Op == Pause || e.Op == Resume) && (e.Epoch != l.epoch || e.Position != l.position) {
		c.violate(Monotone, "%s of lease %q changed epoch %d at %d to epoch %d at %d", e.Op, e.Range, l.epoch, l.position, e.Epoch, e.Position)
	}
	if e.Op == Seek || e.Op == Free || e.Op == Take {
		if e.Epoch <= l.epoch && l.host != e.Host {
			c.violate(Monotone, "%s of lease %q has epoch %d, it had %d", e.Op, e.Range, e.Epoch, l.epoch)
		}
		delete(c.orphans, e.lid())
		delete(c.handovers, e.lid())
		delete(c.resumes, e.lid())
		l.epoch, l.position, l.written, l.orderly = e.Epoch, e.Position, e.Time, false
	}
}

// takenAway records a lease that an operator took from its owner, which may deliver
// until its next write.
func (c *checker) takenAway(e Event, l *lease) {
	if t := c.terms[holder{l.host, tenure{e.Range, l.epoch}}]; t != nil {
		t.shared = true
	}
	c.taken = append(c.taken, spanTime{span{e.Min, e.Max}, e.Time})
	l.host, l.requested, l.requester, l.resisted = e.Host, time.Time{}, "", false
}

// takenSoon reports whether an operator took a lease of these keys so recently that its
// owner may not have noticed.
func (c *checker) takenSoon(e Event) bool {
	for _, t := range c.taken {
		if t.overlaps(span{e.Min, e.Max}) && e.Time.Sub(t.at) < 2*c.limits.Expiration {
			return true
		}
	}
	return false
}

// moved judges a new position. No host holds the lease. If it is further ahead, the
// changes between are skipped, and no others; if it is behind, they are due again, except
// those that were postponed since: the store keeps them.
func (c *checker) moved(e Event, l *lease) {
	if l.host != e.Host {
		c.acquiredEarly(e, l)
	}
	l.host = ""
	keys := span{e.Min, e.Max}
	if e.Position > l.position {
		c.movedAhead(keys)
	}
	m := move{span: keys, from: -1}
	if e.Position < l.position {
		m.from = l.position
	}
	if e.Op == Seek {
		m.at = e.Time
	}
	c.moves = append(c.moves, m)
	for id, p := range c.pending {
		if p.LSN > l.position && p.LSN <= e.Position && keys.min <= p.Hash && p.Hash < keys.max {
			c.key(p.Key).changes[p.Seq-1].skipped = true
			c.skips = append(c.skips, p)
			delete(c.pending, id)
		}
	}
	kept := c.skips[:0]
	for _, p := range c.skips {
		if p.LSN <= e.Position || p.Hash < keys.min || p.Hash >= keys.max {
			kept = append(kept, p)
			continue
		}
		change := &c.key(p.Key).changes[p.Seq-1]
		change.skipped, change.resumed = false, true
		isHandled := change.handled && !change.unsaved
		if change.last && !isHandled && !change.inStore && c.pending[p.ID].Seq < p.Seq {
			c.pending[p.ID] = p
		}
	}
	c.skips = kept
}

// skipAgain excuses the changes that a copy of a lease leaves out: a seek had skipped them when
// the copy was made, and one since had gone back.
func (c *checker) skipAgain(e Event) {
	for id, p := range c.pending {
		change := &c.key(p.Key).changes[p.Seq-1]
		if change.resumed && p.LSN <= e.Position && e.Min <= p.Hash && p.Hash < e.Max {
			change.skipped = true
			c.skips = append(c.skips, p)
			delete(c.pending, id)
		}
	}
}

// acquiredPaused judges the acquisition of a lease that may be paused.
func (c *checker) acquiredPaused(e Event, l *lease) {
	if !l.paused.IsZero() {
		c.violate(PausedRange, "%q acquired lease %q, which is paused", e.Host, e.Range)
	}
}

// deliveredPaused judges a delivery of an owner whose lease may be paused. The owner
// writes the lease within a renewal interval, and a lost write is repeated once.
func (c *checker) deliveredPaused(e Event) {
	for _, l := range c.byToken {
		if l.token != e.Range || l.epoch != e.Epoch || l.paused.IsZero() || c.limits.RenewInterval == 0 {
			continue
		}
		limit := c.limits.RenewInterval + promptly + c.limits.Slack
		if late := e.Time.Sub(l.paused); late > limit && c.undisturbed(e.Host, l.paused) && c.works(e.Host) && !c.stepped {
			c.violate(PausedRange, "%q begins a delivery in range %q %s after its pause", e.Host, e.Range, late)
		}
	}
}

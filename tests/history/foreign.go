package history

import "time"

// foreignWrote judges a write of an owner that is not Halley, and that neither reads nor
// changes the properties of Halley in the lease: a .NET change feed processor. It takes the
// lease from any owner, which may deliver until its next write, moves the position and frees
// the lease. The epoch stays.
func (c *checker) foreignWrote(e Event) {
	l := c.byToken[e.lid()]
	if l == nil {
		c.violate(Ownership, "lease %q was written by %q, but does not exist", e.Range, e.Host)
		return
	}
	c.faulted = e.Time
	c.foreign[e.Host] = true
	by := holder{e.Host, tenure{e.Range, e.Epoch}}
	switch e.Op {
	case ForeignTake:
		c.takenAway(e, l)
		c.moves = append(c.moves, move{span: l.span, from: -1, at: e.Time})
		delete(c.orphans, e.lid())
		delete(c.handovers, e.lid())
		delete(c.resumes, e.lid())
		delete(c.vanished, e.lid())
		c.terms[by] = &term{number: 1, began: e.Time, again: map[Ref]bool{}, repeats: map[Ref]bool{}, position: e.Position, sent: e.Time, shared: true}
	case ForeignMove:
		if e.Position < l.position {
			c.moves = append(c.moves, move{span: l.span, from: l.position})
		}
		if t := c.terms[by]; t != nil {
			t.sent = e.Time
		}
	case ForeignRelease:
		l.host = ""
	}
	l.position, l.written, l.orderly = e.Position, e.Time, false
	l.saved, l.savedBefore = time.Time{}, time.Time{} // the next owner begins at the position alone
}

// noteLast keeps how far the owner of the last delivery of a key has come, unless another
// owner may have worked on its keys at the same time.
func (k *key) noteLast(s stream, shared bool) {
	if k.lastShared = shared; !shared {
		k.newest = k.cursors[s]
	}
}

// span is that of the key alone.
func (k *key) span() span {
	if len(k.changes) == 0 {
		return span{}
	}
	hash := k.changes[0].hash
	return span{hash, hash + "0"}
}

// movedAhead forgets the last deliveries of keys whose lease an operator has moved ahead:
// the changes between were handled, and are not delivered again.
func (c *checker) movedAhead(keys span) {
	for _, k := range c.keys {
		if k.span().overlaps(keys) {
			k.newest = k.top
		}
	}
}

// finishNewest judges that the last owner that delivered changes of a key has delivered the
// newest one: if an owner begins again at an earlier change, the later ones follow. Otherwise
// a sink that keeps the last version ends with an old one.
func (c *checker) finishNewest() {
	if !c.leased {
		return
	}
	for _, k := range c.keys {
		if k.newest == 0 || k.newest >= k.top || k.lastShared || c.excuses(k.span()) {
			continue
		}
		c.report.count(NewestLast, 1, 0)
		for i := k.newest; i < int64(len(k.changes)); i++ {
			change := k.changes[i]
			if change.last && change.handled && !change.dead && !change.skipped && change.since.IsZero() && !k.wasPostponed(k.newest) && !k.changes[k.newest-1].dead {
				c.violate(NewestLast, "the last owner that delivered key %q came to %d, and %d was not delivered after it", k.name, k.newest, i+1)
				break
			}
		}
	}
}

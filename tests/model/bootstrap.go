package model

// bootstrap is leaseCreator.bootstrapLeases: lock, leases, marker.
func (v *moves) bootstrap(i int) {
	m, s := v.m, v.from
	h := &s.hosts[i]
	if h.doing != booting && h.doing != locking && h.child == 0 && h.locked == 0 && !m.Rules.LockNotFenced {
		v.step("{h} finds that its lock may have been broken", i, 0, 0).hosts[i] = host{doing: booting}
		return
	}
	switch h.doing {
	case booting:
		if s.marker == 1 {
			v.step("{h} finds the marker", i, 0, 0).hosts[i].stop()
			return
		}
		v.step("{h} finds no marker", i, 0, 0).hosts[i].doing = locking
	case locking:
		v.locks(i)
	case seeking:
		t := &v.step("{h} reads the ranges", i, 0, 0).hosts[i]
		t.doing, t.ranges = finding, s.topology
	case finding:
		t := &v.step("{h} lists the leases", i, 0, 0).hosts[i]
		t.todo = m.gaps(s, h.ranges)
		t.doing = v.afterFilling(t.todo)
	case filling:
		v.fills(i, booting, func(h *host) {
			h.doing = v.afterFilling(h.todo)
		})
	case marking:
		t := v.step("{h} creates the marker", i, 0, 0)
		if t.marker == 0 && m.Now {
			t.scope = t.written
		}
		t.marker = 1
		t.hosts[i].doing = unlocking
		if m.Rules.MarkerFirst {
			t.hosts[i].doing = seeking
		}
	case unlocking:
		t := v.step("{h} removes the lock", i, 0, 0)
		t.lock = 0
		t.hosts[i] = host{doing: booting}
	}
}

// locks is leaseCreator.takeLock.
func (v *moves) locks(i int) {
	switch v.from.lock {
	case 0:
		t := v.step("{h} takes the bootstrap lock", i, 0, 0)
		t.lock = 1
		t.hosts[i].locked = 1
		t.hosts[i].doing = seeking
		if v.m.Rules.MarkerFirst {
			t.hosts[i].doing = marking
		}
	case 1:
		v.step("{h} waits for the bootstrap lock", i, 0, 0).hosts[i].doing = booting
	case 2:
		t := v.step("{h} breaks the bootstrap lock", i, 0, 0)
		t.lock = 0
		t.hosts[i].doing = booting
	}
}

func (v *moves) afterFilling(todo uint8) uint8 {
	switch {
	case todo != 0:
		return filling
	case v.m.Rules.MarkerFirst:
		return unlocking
	}
	return marking
}

// gaps is coverageGaps: it returns the leases for the parts of the ranges that no
// lease covers.
func (m *model) gaps(s *state, ranges uint8) (set uint8) {
	var has uint8
	for i, k := range m.kinds {
		if s.leases[i].there == 1 {
			has |= k.cells
		}
	}
	for _, r := range m.Ranges[ranges] {
		gap := r.Cells &^ has
		if gap != 0 && gap == r.Cells {
			set |= 1 << m.number(kind{token: r.ID, cells: gap})
			continue
		}
		for ; gap != 0; gap &^= run(gap) {
			set |= 1 << m.number(kind{cells: run(gap), byKeys: true})
		}
	}
	return set
}

// run returns the lowest run of neighbouring cells in a set.
func run(cells uint8) uint8 {
	low := cells & -cells
	return cells &^ (cells + low)
}

// fills creates the next missing lease. If it starts at "now", its position is
// first read from the feed.
func (v *moves) fills(i int, onFailure uint8, done func(*host)) {
	m, s := v.m, v.from
	h := &s.hosts[i]
	if h.child == 0 {
		l := lowest(h.todo)
		if m.Now && h.doing == filling && h.ranges != s.topology {
			v.step("{h} learns that a range is gone", i, 0, 0).hosts[i].doing = seeking
			return
		}
		at := m.startAt(s, h.doing)
		text := "{h} sends the creation of {l} at {n}"
		if at == none {
			text = "{h} sends the creation of {l} without a position"
		}
		t := &v.step(text, i, l, at).hosts[i]
		t.child, t.at = l+1, at
		return
	}
	v.created(i, "{h} creates {l}", func(h *host) {
		h.todo &^= 1 << (h.child - 1)
		h.child, h.at = 0, 0
		done(h)
	}, func(h *host) { *h = host{doing: onFailure, gaps: h.gaps} })
}

// startAt returns the position of a new lease.
func (m *model) startAt(s *state, doing uint8) uint8 {
	switch {
	case !m.Now:
		return 0
	case doing == mending || m.Rules.NowNotConcrete:
		return none
	}
	return s.written
}

// audit is auditor.auditOnce: a gap is filled when two passes have seen it.
func (v *moves) audit(i int) {
	m, s := v.m, v.from
	h := &s.hosts[i]
	switch h.doing {
	case idle:
		if m.Audits {
			t := &v.step("{h} reads the ranges to look for gaps", i, 0, 0).hosts[i]
			t.doing, t.ranges = auditing, s.topology
		}
	case auditing:
		t := &v.step("{h} lists the leases to look for gaps", i, 0, 0).hosts[i]
		seen := m.gaps(s, h.ranges)
		t.todo = seen & h.gaps
		t.gaps = seen
		t.doing = mending
		if t.todo == 0 {
			t.stop()
		}
	case mending:
		v.fills(i, idle, func(h *host) {
			if h.todo == 0 {
				h.stop()
			}
		})
	}
}

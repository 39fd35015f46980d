package model

// split is Held.Split and Held.createChildren.
func (v *moves) split(i int) {
	m, s := v.m, v.from
	h := &s.hosts[i]
	switch h.doing {
	case looking:
		if m.readable[s.topology][h.lease] {
			if !m.Rules.WaitForSplit {
				v.step("{h} finds that the range of {l} has merged again", i, h.lease, 0).hosts[i].endWithRelease()
			}
			return
		}
		t := &v.step("{h} reads the ranges", i, h.lease, 0).hosts[i]
		t.doing, t.ranges = listing, s.topology
	case listing:
		t := &v.step("{h} lists the leases other than {l}", i, h.lease, 0).hosts[i]
		t.todo = m.uncovered(s, h.lease, h.ranges)
		t.doing = creating
		if t.todo == 0 || m.Rules.DeleteParentFirst {
			t.doing = retiring
		}
	case creating:
		v.createChild(i)
	}
}

// uncovered returns the children of a lease that its descendants do not cover.
// Only descendants count: if an ancestor of the lease still exists, it is about
// to be split itself.
func (m *model) uncovered(s *state, parent, ranges uint8) (set uint8) {
	others := m.descendants(s, parent)
	if m.Rules.AncestorsCover {
		for i, k := range m.kinds {
			if s.leases[i].there == 1 && uint8(i) != parent {
				others |= k.cells
			}
		}
	}
	if m.Rules.NoCoverageCheck {
		others = 0
	}
	for i, k := range m.kinds {
		if m.successors[ranges][parent]>>i&1 == 1 && k.cells&^others != 0 {
			set |= 1 << i
		}
	}
	return set
}

// descendants returns the cells of the leases that descend from a lease. Spans
// only shrink from parent to child, and schema v1 follows v0, so a lease is a
// descendant if its span lies within the parent's.
func (m *model) descendants(s *state, parent uint8) (cells uint8) {
	own := m.kinds[parent]
	for i, k := range m.kinds {
		if s.leases[i].there == 1 && k.cells&^own.cells == 0 && (k.cells != own.cells || k.byKeys && !own.byKeys) {
			cells |= k.cells
		}
	}
	return cells
}

// resume finishes a split that another owner began before the ranges merged
// again: existing children stay, and the cells that they do not cover get
// further children.
func (v *moves) resume(i int) {
	m, s := v.m, v.from
	h := &s.hosts[i]
	own := m.kinds[h.lease].cells
	t := &v.step("{h} finds children of {l}", i, h.lease, 0).hosts[i]
	for gap := own &^ m.descendants(s, h.lease); gap != 0; gap &^= run(gap) {
		t.todo |= 1 << m.number(kind{cells: run(gap), byKeys: true})
	}
	t.doing = creating
	if t.todo == 0 {
		t.doing = retiring
	}
}

func (v *moves) createChild(i int) {
	m, s := v.m, v.from
	h := &s.hosts[i]
	if h.child == 0 {
		if h.trust == 0 && !m.Rules.NoFence {
			return
		}
		l := lowest(h.todo)
		t := &v.step("{h} sends the creation of {l} at {n}", i, l, h.stored).hosts[i]
		t.child, t.at = l+1, h.stored
		if m.Rules.SplitAtRead {
			t.at = h.read
			v.steps[len(v.steps)-1].N = h.read
		}
		return
	}
	v.created(i, "{h} creates {l} at {n}", func(h *host) {
		h.todo &^= 1 << (h.child - 1)
		h.child, h.at = 0, 0
		if h.todo == 0 {
			h.doing = retiring
		}
		if h.todo == 0 && m.Rules.DeleteParentFirst {
			h.stop()
		}
	}, func(h *host) {
		if m.Rules.LostCreateIsDone {
			h.todo &^= 1 << (h.child - 1)
		}
		h.child, h.at = 0, 0
		switch {
		case h.ending == toRelease && !m.Rules.LostCreateIsDone:
			h.endWithRelease()
		case !m.Rules.LostCreateIsDone:
			h.doing, h.todo = looking, 0
		case h.todo == 0:
			h.doing = retiring
		}
	})
}

// created adds the outcomes of a creation: done is called if it was answered,
// failed if it was not.
func (v *moves) created(i int, text string, done, failed func(*host)) {
	s := v.from
	h := &s.hosts[i]
	d := v.creation(i)
	if s.leases[d.lease].there == 1 {
		text = "{h} learns that {l} already exists"
	}
	t := v.step(text, i, d.lease, h.at)
	v.m.create(t, d)
	done(&t.hosts[i])
	if s.losses > 0 {
		t := v.fault("the answer to {h}'s creation of {l} is lost; it was applied", i, d.lease, h.at)
		t.losses--
		v.m.create(t, d)
		failed(&t.hosts[i])
	}
	if s.delays > 0 {
		t := v.fault("{h} stops waiting for its creation of {l} at {n}, which is still pending", i, d.lease, h.at)
		t.postpone(d)
		failed(&t.hosts[i])
	}
}

func lowest(set uint8) (n uint8) {
	for set>>n&1 == 0 {
		n++
	}
	return n
}

// retire is Held.Retire, when leaseWriter.Run has returned.
func (v *moves) retire(i int) {
	s, m := v.from, v.m
	h := &s.hosts[i]
	switch h.write.verb {
	case nothing, unsure:
		t := &v.step("{h} sends the delete of {l}", i, h.lease, 0).hosts[i]
		t.send(remove, m.Rules.ForceDelete)
	case remove:
		t := v.step("{h} deletes {l}", i, h.lease, 0)
		if !v.land(t, i) {
			v.steps[len(v.steps)-1].Text = "{h} learns that {l} has changed, and leaves it to its next owner"
		}
		if k := &t.hosts[i]; m.Rules.DeleteParentFirst && h.todo != 0 {
			k.doing, k.write = creating, sent{}
		} else {
			k.stop()
		}
		if d, able := v.pending(i); able && s.delays > 0 {
			t := v.fault("{h} stops waiting for its delete of {l}, which is still pending", i, h.lease, 0)
			t.postpone(d)
			t.hosts[i].stop()
		}
	default: // keeping.Wait: the lease writer's last write
		v.writes(i)
	}
}

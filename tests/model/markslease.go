package model

// writes adds the writes of documents. Documents 0 and 1 differ only by their order, so
// document 0 comes first.
func (v *markMoves) writes() {
	s, m := v.from, v.m
	if int(s.written) == m.Versions {
		return
	}
	var live, known [docCount]uint8
	for i := range s.written {
		live[s.versions[i].doc], known[s.versions[i].doc] = s.versions[i].live, 1
	}
	for doc := range uint8(docCount) {
		if doc == 1 && known[0] == 0 {
			continue
		}
		v.step("{v} is made", 0, s.written, 0).add(doc, s.end()+1, 1)
		if m.Deletes && live[doc] == 1 {
			v.step("{v} is made", 0, s.written, 0).add(doc, s.end()+1, 0)
		}
	}
	if s.bulks > 0 && int(s.written)+2 <= m.Versions {
		t := v.step("a bulk request makes {v} and a write of document 2 with the same LSN", 0, s.written, 0)
		t.bulks--
		t.add(0, s.end()+1, 1)
		t.add(2, s.end()+1, 1)
	}
}

func (s *markState) add(doc, lsn, live uint8) {
	s.versions[s.written] = version{doc, lsn, live}
	s.written++
}

// leaseMoves adds the steps of the lease and of former owners.
func (v *markMoves) leaseMoves() {
	s := v.from
	for i := range s.written {
		if s.late>>i&1 == 1 {
			t := v.step("{v} is handled by a former owner", 0, i, 0)
			t.late &^= 1 << i
			t.handled |= 1 << i
		}
	}
	switch {
	case s.write.epoch != 0:
		v.lands()
		v.fault("the write of epoch {e} is lost", s.write.epoch, 0, 0).write = markLease{}
	case s.owner.epoch != 0:
		v.step("epoch {e} sends a write with position {n}", s.owner.epoch, 0, s.owner.acked).write = v.m.snapshot(s)
	}
	if s.acquires > 0 {
		v.acquires()
	}
	if s.late|s.owner.inCalls() == 0 { // no call of before counts after these
		v.seeks()
		v.otherOwners()
	}
	v.raises()
}

// lands applies the pending write, unless a later epoch has the lease.
func (v *markMoves) lands() {
	t := v.step("the write of epoch {e} with position {n} lands", v.from.write.epoch, 0, v.from.write.acked)
	w := t.write
	t.write = markLease{}
	if w.epoch != t.lease.epoch {
		return
	}
	if v.m.Rules.TornWrite && t.owner.epoch == w.epoch && w.value.through != 0 {
		w.value.through = t.owner.read
	}
	if v.m.lost(t, t.within(0, w.acked)) != 0 {
		t.breaks(ackedHandled)
	}
	t.lease = w
}

// acquires gives the lease to another owner. Calls of the owner before continue, and so
// does its pending write. If a sink buffers, its owner has died with the buffer.
func (v *markMoves) acquires() {
	add := v.step
	if v.from.owner.epoch != 0 {
		add = v.fault
	}
	t := add("a host acquires the lease", 0, 0, 0)
	t.acquires--
	t.moved = 0
	if !v.m.Buffers {
		t.late |= t.owner.inCalls()
	}
	l := &t.lease
	l.epoch++
	t.owner = markOwner{epoch: l.epoch, acked: l.acked, read: l.acked}
	switch {
	case l.value.acked == l.acked || v.m.Rules.Unbound:
		t.owner.inherited = l.value
	case !v.m.Rules.VoidKept:
		l.value = markValue{}
	}
}

// seeks adds the seeks of an operator: the changes behind the position are wanted again,
// for example as the sink was restored from a copy.
func (v *markMoves) seeks() {
	s := v.from
	for position := uint8(0); s.seeks > 0 && position <= s.lease.acked; position++ {
		t := v.fault("an operator seeks to {n}", 0, 0, position)
		t.seeks--
		t.lease.epoch++
		keeps := v.m.Rules.SeekKeepsValue
		if position == s.lease.acked {
			keeps = v.m.Rules.SeekKeepsHere
		}
		if !keeps {
			t.lease.value = markValue{}
		}
		t.rewind(position)
	}
}

// rewind makes a position the one of the lease, and the changes behind it unhandled.
func (s *markState) rewind(position uint8) {
	s.lease.acked = position
	s.owner, s.write = markOwner{}, markLease{}
	s.handled &= s.within(0, position)
	for key := range s.called {
		s.called[key] = s.newestOf(s.within(0, position), uint8(key))
	}
}

// otherOwners lets software that knows no value have the lease. A .NET owner delivers and
// moves the position on; a tool sets it back, and wants the changes behind it again. They
// leave the value and the epoch as they are. Several moves between two acquisitions are
// one move: if they end where they began, nothing in the lease tells.
func (v *markMoves) otherOwners() {
	s := v.from
	for position := uint8(0); s.moves > 0 && s.moved == 0 && position <= s.end(); position++ {
		switch {
		case position > s.lease.acked:
			t := v.fault("a .NET owner delivers all changes up to {n}", 0, 0, position)
			t.moves, t.moved = s.moves-1, 1
			t.owner, t.write = markOwner{}, markLease{}
			delivered := v.m.visible(s, s.end()) & s.within(s.lease.acked, position)
			t.handled |= delivered
			for key := range t.called {
				if newest := s.newestOf(delivered, uint8(key)); newest != 0 {
					t.called[key] = newest
				}
			}
			t.lease.acked = position
		case position < s.lease.acked:
			t := v.fault("a tool of .NET sets the position back to {n}", 0, 0, position)
			t.moves, t.moved = s.moves-1, 1
			t.rewind(position)
		}
	}
}

// raises lets a split copy a version with a larger LSN. The order of the versions of each
// key stays. The child inherits the lease whole.
func (v *markMoves) raises() {
	s := v.from
	if s.raises == 0 || s.late != 0 {
		return
	}
	for i := range s.written {
		for lsn := s.versions[i].lsn + 1; lsn <= s.end() && !v.isSuperseded(i) && v.keepsOrder(i, lsn); lsn++ {
			t := v.fault("a split copies {v}, whose LSN was {n}", 0, i, s.versions[i].lsn)
			t.raises--
			t.versions[i].lsn = lsn
			t.owner, t.write = markOwner{}, markLease{}
		}
	}
}

func (v *markMoves) isSuperseded(i uint8) bool {
	for j := i + 1; j < v.from.written; j++ {
		if !v.m.AllVersions && v.from.versions[j].doc == v.from.versions[i].doc {
			return true
		}
	}
	return false
}

// keepsOrder reports whether no other version of the key is between a version and an LSN.
func (v *markMoves) keepsOrder(i, lsn uint8) bool {
	for j := range v.from.written {
		other := v.from.versions[j]
		if j != i && keyOf(other.doc) == keyOf(v.from.versions[i].doc) && v.from.versions[i].lsn <= other.lsn && other.lsn <= lsn {
			return false
		}
	}
	return true
}

package model

// readAhead limits the changes that are read but not handled: one in the
// handler, one waiting. In the model a page has one change.
const readAhead = 2

// work is worker.run: read, deliver, acknowledge; when reading ends, split or
// release.
func (v *moves) work(i int) {
	m, s := v.m, v.from
	h := &s.hosts[i]
	cells := m.kinds[h.lease].cells
	switch h.doing {
	case anchoring:
		if h.stored == h.acked {
			v.step("{h} begins {l} at {n}, which is stored", i, h.lease, h.acked).hosts[i].doing = working
		}
		return
	case looking, listing, creating:
		v.split(i)
		return
	}
	waiting := m.nextChange(s, cells, h.acked)
	if waiting > h.read {
		waiting = 0
	}
	readable := m.readable[s.topology][h.lease]
	if h.childless == 0 && readable && m.kinds[h.lease].byKeys && h.ending == notEnding && !m.Rules.ResumeParent {
		if m.descendants(s, h.lease) != 0 {
			v.resume(i)
		} else {
			v.step("{h} finds no children of {l}", i, h.lease, 0).hosts[i].childless = 1
		}
		return
	}
	switch {
	case h.ending != notEnding:
	case !readable:
		v.step("{h} learns that the range of {l} is gone", i, h.lease, 0).hosts[i].ending = toSplit
	default:
		v.reads(i, cells)
	}
	if h.ending == notEnding && m.Drain && m.nextChange(s, cells, h.read) == 0 && waiting == 0 && h.calls == 0 {
		v.step("{h} has caught up with {l}", i, h.lease, 0).hosts[i].ending = toRelease
	}
	if h.ending == notEnding && s.stops > 0 {
		t := v.fault("{h} begins to stop", i, h.lease, 0)
		t.stops--
		t.hosts[i].ending = toRelease
	}
	if waiting != 0 && h.calls == 0 && h.ending != toRelease && (h.trust != 0 || m.Rules.NoFence) {
		v.delivers(i, waiting)
	}
	v.returns(i)
	confirmed := h.confirmed == 1 || m.Rules.SplitUnconfirmed || m.Rules.SplitAtRead
	keeping := h.write.verb != nothing && h.write.verb != unsure
	switch {
	case h.ending == toSplit && confirmed && (waiting == 0 && h.calls == 0 && h.acked == h.stored || m.Rules.SplitAtRead && h.calls == 0):
		v.step("{h} has delivered all that it read of {l}; stored is {n}", i, h.lease, h.stored).hosts[i].doing = looking
	case h.ending == toRelease && h.calls == 0 && !keeping:
		t := &v.step("{h} sends the release of {l}", i, h.lease, 0).hosts[i]
		t.doing = releasing
		v.sendRelease(t)
	}
}

func (v *moves) reads(i int, cells uint8) {
	m, s := v.m, v.from
	h := &s.hosts[i]
	n := m.nextChange(s, cells, h.read)
	if n == 0 {
		return
	}
	ahead := 0
	for at := h.acked; at < h.read; ahead++ {
		if at = m.nextChange(s, cells, at); at == 0 {
			break
		}
	}
	if ahead < readAhead {
		t := &v.step("{h} reads change {n} of {l}", i, h.lease, n).hosts[i]
		t.read = n
		if m.Rules.CheckpointFirst {
			t.acked = n
		}
	}
}

// delivers starts a handler call. It checks the promises about deliveries.
func (v *moves) delivers(i int, n uint8) {
	m := v.m
	t := v.step("{h} hands change {n} of {l} to the handler", i, v.from.hosts[i].lease, n)
	h := &t.hosts[i]
	h.calls = 1
	l := &t.leases[h.lease]
	cell := m.Changes[n-1]
	current := l.there == 1 && l.by == uint8(i)+1 && l.epoch == h.epoch
	if !current && h.stolen == 0 {
		t.breaks(fenced)
	}
	if current && n <= t.durable[cell] {
		t.breaks(repeats)
	}
	if current && h.childless == 0 && m.descendants(t, h.lease)>>cell&1 == 1 {
		t.breaks(single)
	}
	if m.unhandled(t, 1<<cell, n-1) != 0 {
		t.breaks(ordered)
	}
}

// returns is the handler's success. If the handler fails, the state is one that
// the search has already seen.
func (v *moves) returns(i int) {
	h := &v.from.hosts[i]
	if h.calls == 0 {
		return
	}
	n := v.m.nextChange(v.from, v.m.kinds[h.lease].cells, h.acked)
	t := v.step("the handler of {h} has handled change {n}", i, h.lease, n)
	t.handled |= 1 << n
	k := &t.hosts[i]
	k.calls, k.acked = 0, n
	if h.doing == lost {
		k.stop()
	}
}

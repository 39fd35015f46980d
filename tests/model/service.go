package model

import "slices"

// apply is the lease container: it applies a write whose condition holds, and
// checks the promises that the write could break.
func (m *model) apply(s *state, d delayed) {
	l := &s.leases[d.lease]
	own := l.owner == d.owner && l.by == d.by && l.epoch == d.epoch
	switch d.verb {
	case acquire:
		m.markStolen(s, d.lease)
		if d.epoch < l.epoch {
			s.breaks(monotone)
		}
		l.owner, l.by, l.epoch, l.requested = d.owner, d.by, d.epoch, 0
	case checkpoint, release:
		if !own {
			s.breaks(staleWrite)
		}
		m.store(s, d.lease, d.at)
		if d.verb == release {
			l.owner, l.by, l.requested = 0, 0, 0
		}
	case remove:
		if !own {
			s.breaks(staleWrite)
		}
		*l = lease{epoch: l.epoch}
	case request:
		l.requested = 1
		if d.force == 1 {
			m.store(s, d.lease, d.at)
		}
	}
	if d.verb != request { // store.requestHandover keeps the time of the owner's last write
		l.expired = 0
	}
	s.touch(d.lease)
}

// create is a create-only write; if the document exists it does nothing.
func (m *model) create(s *state, d delayed) {
	l := &s.leases[d.lease]
	if l.there == 1 && !m.Rules.CreateOverwrites {
		return
	}
	exclusive := m.kinds[d.lease].cells
	for i := range m.kinds {
		if s.leases[i].there == 1 {
			exclusive &^= m.kinds[i].cells
		}
	}
	if d.at != none && m.unhandled(s, exclusive, d.at) != 0 {
		s.breaks(coversHandled)
	}
	if l.there == 1 && d.at < l.at {
		s.breaks(monotone)
	}
	*l = lease{there: 1, at: d.at, epoch: d.epoch}
	s.touch(d.lease)
}

// store writes a checkpoint into a lease.
func (m *model) store(s *state, i, at uint8) {
	l := &s.leases[i]
	cells := m.kinds[i].cells
	if l.at != none && (at == none || at < l.at) {
		s.breaks(monotone)
	}
	if at != none && m.unhandled(s, cells, at) != 0 {
		s.breaks(coversHandled)
	}
	l.at = at
	for c := range s.durable {
		if cells>>c&1 == 1 && at != none {
			s.durable[c] = max(s.durable[c], at)
		}
	}
}

// promised returns the written changes that must be handled.
func (m *model) promised(s *state) uint8 {
	if s.marker == 0 && m.Now {
		return 0
	}
	return m.of(m.all, s.written) &^ m.of(m.all, s.scope)
}

// unhandled returns the changes of cells, up to a position, that are promised
// but not handled.
func (m *model) unhandled(s *state, cells, at uint8) uint8 {
	return m.of(cells, at) & m.promised(s) &^ s.handled
}

// markStolen records if a lease is taken from a live owner: that owner may still
// deliver until its next write.
func (m *model) markStolen(s *state, l uint8) {
	if s.leases[l].there == 1 && s.leases[l].expired == 1 {
		return
	}
	for i := range s.hosts {
		if h := &s.hosts[i]; h.holds() && h.lease == l {
			h.stolen = 1
		}
	}
}

// holds reports whether the host believes that it owns its lease.
func (h *host) holds() bool {
	switch h.doing {
	case anchoring, working, looking, listing, creating:
		return true
	}
	return false
}

// environment adds the steps that no host makes.
func (v *moves) environment() {
	m, s := v.m, v.from
	if int(s.written) < len(m.Changes) {
		v.step("change {n} is written", 0, 0, s.written+1).written++
	}
	if int(s.topology)+1 < len(m.Ranges) {
		v.step("the ranges become "+m.rangesText(s.topology+1), 0, 0, 0).topology++
	}
	for i := range m.kinds {
		if l := &s.leases[i]; l.there == 1 && l.owner != 0 && l.expired == 0 && !v.creates(uint8(i)) {
			v.expire(uint8(i))
		}
		if s.leases[i].there == 1 && s.deletions > 0 {
			v.deleteLease(uint8(i))
		}
	}
	if s.lock == 1 {
		t := v.step("the bootstrap lock outlives its TTL", 0, 0, 0)
		t.lock = 2
		for i := range t.hosts {
			t.hosts[i].locked = 0
		}
	}
	for i, d := range s.delayed {
		if d.verb != nothing {
			t := v.step("a delayed request lands: "+d.text()+" {l}", 0, d.lease, d.at)
			t.delayed[i] = delayed{}
			if d.verb == create {
				m.create(t, d)
			} else if t.leases[d.lease].there == 1 {
				m.apply(t, d)
			}
		}
	}
}

// creates reports whether a pending creation has to land before lease l expires.
func (v *moves) creates(l uint8) bool {
	if !v.m.Prompt {
		return false
	}
	return slices.ContainsFunc(v.from.hosts[:], func(h host) bool { return h.lease == l && h.child != 0 })
}

// expire lets the expiration pass. If a host trusts the lease because of a write
// that has landed, it stops to: the write was sent before it landed. A healthy
// owner renews earlier, so its expiration is a fault: progress must not need it.
func (v *moves) expire(l uint8) {
	add := v.step
	for i := range v.m.Hosts {
		if h := &v.from.hosts[i]; h.holds() && h.lease == l && v.m.heldBy(&v.from.leases[l], i, h.epoch) {
			add = v.fault
		}
	}
	t := add("lease {l} is not written for as long as its expiration", 0, l, 0)
	t.leases[l].expired = 1
	for i := range t.hosts {
		if h := &t.hosts[i]; h.lease == l && h.trust == 1 {
			h.trust = 0
		}
	}
}

// deleteLease is an operator's deletion of a lease document.
func (v *moves) deleteLease(l uint8) {
	t := v.fault("an operator deletes lease {l}", 0, l, 0)
	t.deletions--
	t.leases[l].expired = 0
	v.m.markStolen(t, l)
	t.leases[l] = lease{epoch: t.leases[l].epoch}
	t.touch(l)
	for c := range t.durable {
		if v.m.kinds[l].cells>>c&1 == 1 {
			t.durable[c] = 0
		}
	}
}

func (d *delayed) text() string {
	return [...]string{acquire: "acquire of", checkpoint: "checkpoint of", release: "release of", remove: "delete of",
		request: "handover request for", create: "creation of"}[d.verb]
}

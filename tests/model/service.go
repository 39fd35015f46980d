package model

import "slices"

// apply is the lease container: what a write does that passed its condition.
// It also checks what the write must not do.
func (m *model) apply(s *state, d delayed) {
	l := &s.leases[d.lease]
	own := l.owner == d.owner && l.by == d.by && l.epoch == d.epoch
	switch d.verb {
	case acquire:
		m.rob(s, d.lease)
		if d.epoch < l.epoch {
			s.breaks(monotone)
		}
		l.owner, l.by, l.epoch, l.asked = d.owner, d.by, d.epoch, 0
	case checkpoint, release:
		if !own {
			s.breaks(staleWrite)
		}
		m.store(s, d.lease, d.at)
		if d.verb == release {
			l.owner, l.by, l.asked = 0, 0, 0
		}
	case remove:
		if !own {
			s.breaks(staleWrite)
		}
		*l = lease{epoch: l.epoch}
	case ask:
		l.asked = 1
		if d.force == 1 {
			m.store(s, d.lease, d.at)
		}
	}
	if d.verb != ask { // leaseStore.ask keeps the time at which the owner wrote
		l.expired = 0
	}
	s.touch(d.lease)
}

// create is a create-only write; where the document is there it does nothing.
func (m *model) create(s *state, d delayed) {
	l := &s.leases[d.lease]
	if l.there == 1 && !m.Rules.CreateOverwrites {
		return
	}
	alone := m.kinds[d.lease].cells
	for i := range m.kinds {
		if s.leases[i].there == 1 {
			alone &^= m.kinds[i].cells
		}
	}
	if d.at != none && m.unhandled(s, alone, d.at) != 0 {
		s.breaks(coversHandled)
	}
	if l.there == 1 && d.at < l.at {
		s.breaks(monotone)
	}
	*l = lease{there: 1, at: d.at, epoch: d.epoch}
	s.touch(d.lease)
}

// store puts a checkpoint into a lease.
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

// promised is the set of written changes that must be handled.
func (m *model) promised(s *state) uint8 {
	if s.marker == 0 && m.Now {
		return 0
	}
	return m.of(m.all, s.written) &^ m.of(m.all, s.scope)
}

// unhandled is what of cells, up to a position, is promised but not handled.
func (m *model) unhandled(s *state, cells, at uint8) uint8 {
	return m.of(cells, at) & m.promised(s) &^ s.handled
}

// rob notes that a lease is taken from an owner that lives: its deliveries are
// not fenced until its next write.
func (m *model) rob(s *state, l uint8) {
	if s.leases[l].there == 1 && s.leases[l].expired == 1 {
		return
	}
	for i := range s.hosts {
		if h := &s.hosts[i]; h.holds() && h.lease == l {
			h.robbed = 1
		}
	}
}

// holds reports whether the host takes itself for the owner of its lease.
func (h *host) holds() bool {
	switch h.doing {
	case anchoring, working, looking, listing, creating:
		return true
	}
	return false
}

// environment is what happens by itself.
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
			v.vanish(uint8(i))
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

// creates reports whether a prompt creation is to land before lease l expires.
func (v *moves) creates(l uint8) bool {
	if !v.m.Prompt {
		return false
	}
	return slices.ContainsFunc(v.from.hosts[:], func(h host) bool { return h.lease == l && h.child != 0 })
}

// expire lets the expiration pass. Whoever trusts its lease by a write that
// landed has stopped to: that write left no later than it landed. An owner
// that is well renews before, so it is not what progress may depend on.
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

// vanish is somebody who deletes a lease document.
func (v *moves) vanish(l uint8) {
	t := v.fault("somebody deletes lease {l}", 0, l, 0)
	t.deletions--
	t.leases[l].expired = 0
	v.m.rob(t, l)
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
		ask: "request for a handover of", create: "creation of"}[d.verb]
}

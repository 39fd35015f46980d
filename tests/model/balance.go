package model

// balance is Host.balance without the arithmetic of the plan. Any free lease may
// be acquired. If another host owns a lease, it may be requested or stolen.
func (v *moves) balance(i int) {
	m, s := v.m, v.from
	for l := range m.kinds {
		d := &s.leases[l]
		if d.there == 0 || int(d.epoch) >= m.Epochs {
			continue
		}
		foreign := d.owner != 0 && d.owner != m.name(i)+1
		switch {
		case d.owner == 0 || d.expired == 1:
			v.list(v.step("{h} lists {l}: free, epoch {n}", i, uint8(l), d.epoch), i, uint8(l))
		case foreign && s.steals > 0:
			t := v.fault("{h} lists {l}: to be stolen, epoch {n}", i, uint8(l), d.epoch)
			t.steals--
			v.list(t, i, uint8(l))
		}
		if foreign && s.requests > 0 && d.requested == 0 && d.expired == 0 {
			t := v.fault("{h} requests a handover of {l}", i, uint8(l), 0)
			t.requests--
			t.hosts[i] = host{doing: requesting, lease: uint8(l), gaps: s.hosts[i].gaps,
				write: sent{verb: request, fresh: 1, force: bit(m.Rules.ForceRequest), at: d.at}}
		}
	}
}

// list records the lease that balance has chosen, as the listing showed it.
func (v *moves) list(t *state, i int, l uint8) {
	h := &t.hosts[i]
	epoch := t.leases[l].epoch + 1
	if v.m.Rules.EpochNotRaised && t.leases[l].epoch > 0 {
		epoch--
	}
	*h = host{doing: listed, lease: l, fresh: 1, epoch: epoch, gaps: h.gaps}
	if !v.m.Slow {
		h.sendAcquire(v.m.Rules.ForceAcquire)
	}
}

// send sends a write of the host's lease with the etag that the host has.
func (h *host) send(verb uint8, force bool) {
	h.write = sent{verb: verb, fresh: h.fresh, force: bit(force), at: h.acked, confirms: bit(h.ending == toSplit)}
}

// sendAcquire is send for an acquire. Trust begins when the acquire is sent, even
// if only a later read shows that the host owns the lease. If the etag was
// outdated when it was sent, an earlier acquire of the host has landed instead,
// at an unknown time.
func (h *host) sendAcquire(force bool) {
	h.trust = 2 - h.fresh
	h.write = sent{verb: acquire, fresh: h.fresh, force: bit(force)}
	h.doing = acquiring
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// acquire is store.acquire.
func (v *moves) acquire(i int) {
	s := v.from
	h := &s.hosts[i]
	switch h.doing {
	case listed:
		v.step("{h} sends its acquire of {l}", i, h.lease, 0).hosts[i].sendAcquire(v.m.Rules.ForceAcquire)
	case acquiring:
		t := v.step("{h} acquires {l} with epoch {n}", i, h.lease, h.epoch)
		switch {
		case v.land(t, i):
			v.begin(t, i, 1)
		case t.leases[h.lease].there == 0:
			t.hosts[i].stop()
		default:
			v.steps[len(v.steps)-1].Text = "{h} learns that {l} has changed"
			t.hosts[i].doing = acquireUnsure
		}
		v.unanswered(i, acquireUnsure)
	case acquireUnsure:
		l := &s.leases[h.lease]
		if !v.m.heldBy(l, i, h.epoch) {
			v.step("{h} reads {l}: not its own", i, h.lease, 0).hosts[i].stop()
			return
		}
		t := v.step("{h} reads {l}: its own, with epoch {n}", i, h.lease, l.epoch)
		trust := h.trust
		if trust == 2 && !v.m.Rules.TrustLateAcquire {
			trust = 0 // until one of its next writes is answered
		}
		v.begin(t, i, trust)
	}
}

// unanswered adds the steps of a pending write without an answer: it is applied
// and the answer is lost, or it is still pending when its sender stops waiting.
func (v *moves) unanswered(i int, then uint8) {
	d, able := v.pending(i)
	if !able {
		return
	}
	if v.from.losses > 0 && v.from.leases[d.lease].there == 1 {
		t := v.fault("the answer to {h}'s "+d.text()+" {l} is lost; it was applied", i, d.lease, 0)
		t.losses--
		v.land(t, i)
		t.hosts[i].doing = then
	}
	if v.from.delays > 0 {
		t := v.fault("{h} stops waiting for its "+d.text()+" {l}, which is still pending", i, d.lease, 0)
		t.postpone(d)
		t.hosts[i].doing = then
	}
}

// begin starts the worker of an acquired lease: worker.run of package trigger.
func (v *moves) begin(t *state, i int, trust uint8) {
	h, l := &t.hosts[i], &t.leases[t.hosts[i].lease]
	*h = host{doing: working, lease: h.lease, fresh: 1, epoch: h.epoch, trust: trust, gaps: h.gaps,
		read: l.at, acked: l.at, stored: l.at}
	switch {
	case l.at != none:
	case !v.m.Now:
		h.read, h.acked, h.stored = 0, 0, 0
	case v.m.Rules.AuditFromNow || v.m.Rules.NowNotConcrete:
		h.doing, h.read, h.acked = anchoring, t.written, t.written
	default: // from the moment of the bootstrap
		h.read, h.acked, h.stored = t.scope, t.scope, t.scope
	}
}

// requests is the handover request of a host to the owner of a lease.
func (v *moves) requests(i int) {
	h := &v.from.hosts[i]
	t := v.step("the handover request for {l} lands", i, h.lease, 0)
	v.land(t, i)
	t.hosts[i].stop()
	if d, able := v.pending(i); able && v.from.delays > 0 {
		t := v.fault("{h} stops waiting for its "+d.text()+" {l}, which is still pending", i, d.lease, 0)
		t.postpone(d)
		t.hosts[i].stop()
	}
}

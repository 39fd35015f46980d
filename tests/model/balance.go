package model

// balance is Host.balance: what the plan may say, without its arithmetic. Any
// free lease may be acquired, and any lease of a host with another name asked
// for or stolen.
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
		if foreign && s.asks > 0 && d.asked == 0 && d.expired == 0 {
			t := v.fault("{h} asks for a handover of {l}", i, uint8(l), 0)
			t.asks--
			t.hosts[i] = host{doing: asking, lease: uint8(l), holes: s.hosts[i].holes,
				write: sent{verb: ask, fresh: 1, force: bit(m.Rules.ForceAsk), at: d.at}}
		}
	}
}

// list is a lease as balance saw it, chosen to be acquired.
func (v *moves) list(t *state, i int, l uint8) {
	h := &t.hosts[i]
	epoch := t.leases[l].epoch + 1
	if v.m.Rules.EpochNotRaised && t.leases[l].epoch > 0 {
		epoch--
	}
	*h = host{doing: listed, lease: l, fresh: 1, epoch: epoch, holes: h.holes}
	if !v.m.Slow {
		h.sendAcquire(v.m.Rules.ForceAcquire)
	}
}

// send puts a write of the host's lease on its way, under the etag that it has.
func (h *host) send(verb uint8, force bool) {
	h.write = sent{verb: verb, fresh: h.fresh, force: bit(force), at: h.acked, proof: bit(h.ending == toSplit)}
}

// sendAcquire is send for an acquire. It is trusted from when it left, even if
// only a read tells that the lease is ours. Where the etag was outdated then,
// the write that made it ours was an earlier one, and nothing bounds by how much.
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

// acquire is leaseStore.acquire.
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
			v.steps[len(v.steps)-1].Text = "{h} is told that {l} has changed"
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
			trust = 0 // until a write of its own is answered
		}
		v.begin(t, i, trust)
	}
}

// unanswered adds what can become of a pending write besides its answer: it is
// applied and the answer is lost, or it is still on its way when its sender
// gives up waiting.
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
		t := v.fault("{h} gives up waiting for its "+d.text()+" {l}, which is on its way", i, d.lease, 0)
		t.postpone(d)
		t.hosts[i].doing = then
	}
}

// begin starts the worker of a lease that is now the host's: worker.run and
// startPosition.
func (v *moves) begin(t *state, i int, trust uint8) {
	h, l := &t.hosts[i], &t.leases[t.hosts[i].lease]
	*h = host{doing: working, lease: h.lease, fresh: 1, epoch: h.epoch, trust: trust, holes: h.holes,
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

// asks is the request of a host that wants a lease from its owner.
func (v *moves) asks(i int) {
	h := &v.from.hosts[i]
	t := v.step("the request for {l} lands", i, h.lease, 0)
	v.land(t, i)
	t.hosts[i].stop()
	if d, able := v.pending(i); able && v.from.delays > 0 {
		t := v.fault("{h} gives up waiting for its "+d.text()+" {l}, which is on its way", i, d.lease, 0)
		t.postpone(d)
		t.hosts[i].stop()
	}
}

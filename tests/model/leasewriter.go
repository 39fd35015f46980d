package model

// writes is leaseWriter.Run: one write at a time, which is checkpoint and renewal.
func (v *moves) writes(i int) {
	s := v.from
	h := &s.hosts[i]
	switch h.write.verb {
	case nothing:
		// If the lease is trusted and unchanged, a renewal would not change the
		// state.
		switch {
		case h.fresh == 0 && !v.m.Rules.ForceAfterLoss:
			v.step("{h} writes {l} and learns that it has changed", i, h.lease, 0).hosts[i].write = sent{verb: unsure}
		case h.acked != h.stored || h.trust == 0 || h.ending == toSplit && h.confirmed == 0 && !v.m.Rules.SplitUnconfirmed:
			t := &v.step("{h} sends a checkpoint of {l} at {n}", i, h.lease, h.acked).hosts[i]
			t.send(checkpoint, t.write.force == 1)
		}
	case checkpoint:
		v.writeLands(i)
	case unsure:
		v.writeReads(i)
	}
}

func (v *moves) writeLands(i int) {
	s := v.from
	h := &s.hosts[i]
	t := v.step("{h}'s checkpoint of {l} at {n} is stored", i, h.lease, h.write.at)
	switch {
	case v.land(t, i):
		k := &t.hosts[i]
		k.fresh, k.stored, k.trust, k.write = 1, h.write.at, 1, sent{}
		k.confirmed |= h.write.confirms
	case t.leases[h.lease].there == 0:
		v.steps[len(v.steps)-1].Text = "{h} learns that {l} is gone"
		t.hosts[i].lose()
	default:
		v.steps[len(v.steps)-1].Text = "{h} learns that {l} has changed"
		t.hosts[i].write = sent{verb: unsure}
	}
	d := v.request(i)
	able := h.write.fresh|h.write.force == 1 && s.leases[h.lease].there == 1
	after := sent{verb: unsure}
	if v.m.Rules.ForceAfterLoss {
		after = sent{verb: checkpoint, force: 1, at: h.acked}
	}
	if able && s.losses > 0 {
		t := v.fault("the answer to {h}'s checkpoint of {l} at {n} is lost; it was applied", i, h.lease, h.write.at)
		t.losses--
		v.land(t, i)
		t.hosts[i].write = after
	}
	if able && s.delays > 0 {
		t := v.fault("{h} stops waiting for its checkpoint of {l} at {n}, which is still pending", i, h.lease, h.write.at)
		t.postpone(d)
		t.hosts[i].write = after
	}
}

// writeReads is leaseWriter.afterConflict: the document decides.
func (v *moves) writeReads(i int) {
	s, r := v.from, &v.m.Rules
	h := &s.hosts[i]
	l := &s.leases[h.lease]
	if !v.m.heldBy(l, i, h.epoch) && !(r.BlindAdoption && l.there == 1) {
		t := v.step("{h} reads {l}: lost", i, h.lease, 0)
		t.hosts[i].lose()
		if h.child != 0 && s.delays > 0 {
			t := v.fault("{h} reads {l}: lost, while its creation of a child is still pending", i, h.lease, 0)
			t.postpone(v.creation(i))
			t.hosts[i].lose()
		}
		return
	}
	t := &v.step("{h} reads {l}: its own; adopts the etag", i, h.lease, 0).hosts[i]
	t.write, t.fresh = sent{}, 1
	if r.TrustByReading {
		t.trust = 2
	}
	switch {
	case l.requested == 0:
	case t.doing == looking, t.doing == listing:
		t.endWithRelease()
	default:
		t.ending = toRelease
	}
}

// release is leaseWriter.Release, when leaseWriter.Run has returned.
func (v *moves) release(i int) {
	s := v.from
	h := &s.hosts[i]
	if h.doing == releasing {
		t := v.step("{h} releases {l} at {n}", i, h.lease, h.write.at)
		if v.land(t, i) || t.leases[h.lease].there == 0 {
			t.hosts[i].stop()
		} else {
			v.steps[len(v.steps)-1].Text = "{h} learns that {l} has changed"
			t.hosts[i].doing = releaseUnsure
		}
		v.unanswered(i, releaseUnsure)
		return
	}
	l := &s.leases[h.lease]
	if !v.m.heldBy(l, i, h.epoch) && !(v.m.Rules.ReleaseUnchecked && l.there == 1) {
		v.step("{h} reads {l}: not its own any more", i, h.lease, 0).hosts[i].stop()
		return
	}
	t := &v.step("{h} reads {l}: its own; sends the release again", i, h.lease, 0).hosts[i]
	t.doing, t.fresh = releasing, 1
	v.sendRelease(t)
	v.fault("{h} leaves {l} to expire", i, h.lease, 0).hosts[i].stop()
}

func (v *moves) sendRelease(h *host) {
	h.send(release, false)
	if v.m.Rules.ReleaseAtRead {
		h.write.at = h.read
	}
}

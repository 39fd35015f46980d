package model

// moves collects the steps out of a state.
type moves struct {
	m     *model
	from  *state
	steps []Step[state]
}

// step adds a step; the caller makes the change in the state that it returns,
// before the next step is added.
func (v *moves) step(text string, who int, l, n uint8) *state {
	v.steps = append(v.steps, Step[state]{To: *v.from, Text: text, Who: uint8(who), Lease: l, N: n})
	return &v.steps[len(v.steps)-1].To
}

// fault adds a step that nothing but bad luck or a person calls for.
func (v *moves) fault(text string, who int, l, n uint8) *state {
	t := v.step(text, who, l, n)
	v.steps[len(v.steps)-1].Fault = true
	return t
}

// host is everything that one host can do, or that can happen to it.
func (v *moves) host(i int) {
	h := &v.from.hosts[i]
	if v.from.crashes > 0 && h.doing != idle && h.doing != booting {
		v.crash(i)
	}
	switch h.doing {
	case idle:
		v.balance(i)
		v.audit(i)
	case listed, acquiring, acquireUnsure:
		v.acquire(i)
	case lost:
		v.returns(i)
	case releasing, releaseUnsure:
		v.release(i)
	case retiring:
		v.retire(i)
	case asking:
		v.asks(i)
	case booting, locking, seeking, finding, filling, marking, unlocking:
		v.bootstrap(i)
	case auditing, mending:
		v.audit(i)
	default:
		v.keep(i)
		v.work(i)
	}
}

// crash ends a process and starts another under the same name. What it had
// sent may land later.
func (v *moves) crash(i int) {
	h := v.from.hosts[i]
	for _, late := range [...]bool{false, true} {
		d, sent := v.pending(i)
		if late && (!sent || v.from.delays == 0) {
			return
		}
		text := "{h} crashes and starts again"
		if late {
			text = "{h} crashes while its " + d.text() + " {l} is on its way, and starts again"
		}
		t := v.fault(text, i, d.lease, 0)
		t.crashes--
		if late {
			t.postpone(d)
		}
		t.hosts[i] = host{}
		if v.m.Boot && h.doing >= booting && h.doing < auditing {
			t.hosts[i].doing = booting
		}
		for l := range t.leases {
			if t.leases[l].by == uint8(i)+1 {
				t.leases[l].by = 0
			}
		}
		for j := range t.delayed {
			if t.delayed[j].by == uint8(i)+1 {
				t.delayed[j].by = 0
			}
		}
	}
}

// pending is the request that a host has on its way and that may still have an
// effect. Where there are two, it is the creation.
func (v *moves) pending(i int) (delayed, bool) {
	h := &v.from.hosts[i]
	if h.child != 0 {
		return v.creation(i), true
	}
	d := v.request(i)
	return d, h.write.verb != nothing && h.write.verb != unsure && h.write.fresh|h.write.force == 1
}

// request is the request of the keeper, as the service sees it.
func (v *moves) request(i int) delayed {
	h := &v.from.hosts[i]
	d := delayed{verb: h.write.verb, lease: h.lease, force: h.write.force, at: h.write.at}
	if d.verb != ask {
		d.owner, d.by, d.epoch = v.m.name(i)+1, uint8(i)+1, h.epoch
	}
	return d
}

func (v *moves) creation(i int) delayed {
	h := &v.from.hosts[i]
	return delayed{verb: create, lease: h.child - 1, at: h.at, epoch: v.childEpoch(h)}
}

// childEpoch is where the epochs of a new lease begin: above its parent's, and
// where audit replaces a lost lease, above all that were.
func (v *moves) childEpoch(h *host) uint8 {
	switch {
	case h.doing == creating:
		return h.epoch + 1
	case h.doing == mending && !v.m.Rules.AuditEpochReset:
		return v.from.leases[h.child-1].epoch
	}
	return 0
}

func (s *state) postpone(d delayed) {
	s.delays--
	s.delay(d)
}

// land lets the pending write of host i pass or fail its condition. It reports
// whether it was applied.
func (v *moves) land(t *state, i int) bool {
	h := &t.hosts[i]
	d := v.request(i)
	if t.leases[h.lease].there == 0 || h.write.fresh|h.write.force == 0 {
		return false
	}
	v.m.apply(t, d)
	return true
}

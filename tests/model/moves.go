package model

// moves collects the steps out of a state.
type moves struct {
	m     *model
	from  *state
	steps []Step[state]
}

// step adds a step. The caller changes the returned state before it adds the
// next step.
func (v *moves) step(text string, host int, l, n uint8) *state {
	v.steps = append(v.steps, Step[state]{To: *v.from, Text: text, Host: uint8(host), Lease: l, N: n})
	return &v.steps[len(v.steps)-1].To
}

// fault adds a step that only bad luck or an operator causes.
func (v *moves) fault(text string, host int, l, n uint8) *state {
	t := v.step(text, host, l, n)
	v.steps[len(v.steps)-1].Fault = true
	return t
}

// host adds the steps of one host.
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
	case requesting:
		v.requests(i)
	case booting, locking, seeking, finding, filling, marking, unlocking:
		v.bootstrap(i)
	case auditing, mending:
		v.audit(i)
	default:
		v.writes(i)
		v.work(i)
	}
}

// crash ends a process and starts another under the same name. If a request was
// pending, it may land later.
func (v *moves) crash(i int) {
	h := v.from.hosts[i]
	for _, late := range [...]bool{false, true} {
		d, sent := v.pending(i)
		if late && (!sent || v.from.delays == 0) {
			return
		}
		text := "{h} crashes and starts again"
		if late {
			text = "{h} crashes while its " + d.text() + " {l} is still pending, and starts again"
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

// pending returns a host's pending request, if it can still have an effect. If
// there are two, it is the creation.
func (v *moves) pending(i int) (delayed, bool) {
	h := &v.from.hosts[i]
	if h.child != 0 {
		return v.creation(i), true
	}
	d := v.request(i)
	return d, h.write.verb != nothing && h.write.verb != unsure && h.write.fresh|h.write.force == 1
}

// request returns the request of the lease writer, as the service receives it.
func (v *moves) request(i int) delayed {
	h := &v.from.hosts[i]
	d := delayed{verb: h.write.verb, lease: h.lease, force: h.write.force, at: h.write.at}
	if d.verb != request {
		d.owner, d.by, d.epoch = v.m.name(i)+1, uint8(i)+1, h.epoch
	}
	return d
}

func (v *moves) creation(i int) delayed {
	h := &v.from.hosts[i]
	return delayed{verb: create, lease: h.child - 1, at: h.at, epoch: v.childEpoch(h)}
}

// childEpoch returns the first epoch of a new lease: above its parent's, or, if
// audit replaces a lost lease, not below that lease's last epoch.
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

// land applies the pending write of host i if its condition holds, and reports
// whether it did.
func (v *moves) land(t *state, i int) bool {
	h := &t.hosts[i]
	d := v.request(i)
	if t.leases[h.lease].there == 0 || h.write.fresh|h.write.force == 0 {
		return false
	}
	v.m.apply(t, d)
	return true
}

package model

import "math/bits"

// markMoves collects the steps out of a state.
type markMoves struct {
	m     *markModel
	from  *markState
	steps []Step[markState]
}

// step adds a step. "{e}", "{v}" and "{n}" in the text stand for an epoch, a version and
// a number. The caller changes the returned state before it adds the next step.
func (v *markMoves) step(text string, epoch, version, n uint8) *markState {
	v.steps = append(v.steps, Step[markState]{To: *v.from, Text: text, Host: epoch, Lease: version, N: n})
	return &v.steps[len(v.steps)-1].To
}

// fault adds a step that only bad luck or an operator causes.
func (v *markMoves) fault(text string, epoch, version, n uint8) *markState {
	t := v.step(text, epoch, version, n)
	v.steps[len(v.steps)-1].Fault = true
	return t
}

// pages adds the reads of the owner: the next page, of any length, from a replica with
// all writes, or from one that lags.
func (v *markMoves) pages() {
	s, m := v.from, v.m
	end := s.end()
	for replica := s.owner.read + 1; replica <= end; replica++ {
		if replica < end && !m.Lagging {
			continue
		}
		shown := m.visible(s, replica)
		for last := s.owner.read + 1; last <= replica; last++ {
			v.reads(shown&s.within(s.owner.read, last), last)
		}
	}
}

// reads admits the changes of a page, except for those that the inherited value says are
// finished.
func (v *markMoves) reads(page, last uint8) {
	t := v.step("the owner of epoch {e} reads up to LSN {n}", v.from.owner.epoch, 0, last)
	o := &t.owner
	o.read = last
	for ; page != 0; page &= page - 1 {
		i := uint8(bits.TrailingZeros8(page))
		if !o.inherited.finishes(t.versions[i], v.m.Rules.ListsLSNs) {
			o.items[i] = waiting
		} else if v.m.lost(t, 1<<i) != 0 {
			t.breaks(passedHandled)
		}
	}
	v.m.settle(t)
}

// calls adds the calls of the handler: the first unfinished change of each key may be in
// one.
func (v *markMoves) calls() {
	s := v.from
	for i := range s.written {
		switch s.owner.item(i) {
		case waiting:
			if v.isFirst(i) {
				v.begins(i)
			}
		case inCall:
			if t := v.step("{v} is handled by epoch {e}", s.owner.epoch, i, 0); v.m.Buffers {
				v.steps[len(v.steps)-1].Text = "the sink of epoch {e} buffers {v}"
				t.owner.items[i] += buffered - inCall
			} else {
				t.owner.items[i] = 0
				t.handled |= 1 << i
				v.m.settle(t)
			}
		}
	}
	v.flushes()
}

// isFirst reports whether no earlier change of the key waits or is in a call.
func (v *markMoves) isFirst(i uint8) bool {
	s := v.from
	for j := range s.written {
		item := s.owner.item(j)
		if (item == waiting || item == inCall) && j != i && keyOf(s.versions[j].doc) == keyOf(s.versions[i].doc) && s.isBehind(i, j+1) {
			return false
		}
	}
	return true
}

// begins begins a call. It checks the order of the key: a delivery may begin earlier than
// the last one, but leaves nothing out.
func (v *markMoves) begins(i uint8) {
	t := v.step("epoch {e} calls the handler with {v}", v.from.owner.epoch, i, 0)
	key := keyOf(t.versions[i].doc)
	for j := range t.written {
		if j != i && v.m.visible(t, t.end())>>j&1 == 1 && keyOf(t.versions[j].doc) == key && t.isBehind(j, t.called[key]) && t.isBehind(i, j+1) {
			t.breaks(keyOrdered)
		}
	}
	t.owner.items[i] += inCall - waiting
	t.called[key] = i + 1
}

// flushes has the sink flush its buffer and request a checkpoint.
func (v *markMoves) flushes() {
	s, last := v.from, uint8(0) // the last buffered version, + 1
	for i := range s.written {
		if s.owner.item(i) == buffered && s.isBehind(i, last) {
			last = i + 1
		}
	}
	if last == 0 {
		return
	}
	t := v.step("the sink of epoch {e} flushes and requests a checkpoint", s.owner.epoch, 0, 0)
	for i := range t.written {
		switch {
		case s.owner.item(i) == buffered:
			t.owner.items[i] = 0
			t.handled |= 1 << i
		case s.owner.items[i] != 0 && s.isBehind(last-1, i+1):
			t.owner.items[i] |= requested
		}
	}
	v.m.settle(t)
}

// isFinished reports whether the owner counts a version as finished.
func (m *markModel) isFinished(item uint8) bool {
	return item == 0 || m.Rules.CoveredByNumber && item == buffered|requested
}

// settle moves A behind the finished changes, and ends the inherited value when the owner
// has read up to its Q.
func (m *markModel) settle(s *markState) {
	o := &s.owner
	first := o.read + 1
	for i := range s.written {
		if !m.isFinished(o.items[i]) {
			first = min(first, s.versions[i].lsn)
		}
	}
	o.acked = max(o.acked, first-1)
	if o.read >= o.inherited.through {
		o.inherited = markValue{}
	}
	for i := range s.written {
		if s.versions[i].lsn <= o.acked {
			o.items[i] = 0
		}
	}
}

// snapshot returns the position and the value that the owner writes into the lease now.
func (m *markModel) snapshot(s *markState) markLease {
	o, r := &s.owner, &m.Rules
	value := markValue{acked: o.acked, through: o.read}
	if r.ThroughUnread {
		value.through = s.end()
	}
	for i := range s.written {
		if item := o.items[i]; !m.isFinished(item) && (!r.WaitingUnmarked || o.item(i) == inCall) {
			value.mark(s.versions[i], r.ListsLSNs)
		}
	}
	if o.read < o.inherited.through {
		value.through = max(value.through, o.inherited.through)
		if !r.UnreadDropped {
			m.inheritMarks(&value, o)
		}
	}
	if value.through <= value.acked {
		value = markValue{}
	}
	return markLease{o.epoch, o.acked, value}
}

// inheritMarks adds the part of the inherited marks that the owner has not read.
func (m *markModel) inheritMarks(value *markValue, o *markOwner) {
	if m.Rules.ListsLSNs {
		value.marks[0] |= o.inherited.marks[0] &^ (2<<o.read - 1)
		return
	}
	for key, mark := range o.inherited.marks {
		if mark != 0 {
			value.markKey(uint8(key), max(mark, o.read+1))
		}
	}
}

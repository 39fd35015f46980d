package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Explore searches a world. If progress is set, the work must be possible from
// every state.
func (w World) Explore(workers int, progress bool) Result[state] {
	m := w.model()
	q := &Search[state]{Start: m.start(), Next: m.next, Canon: m.canon, Bad: m.bad, Workers: workers}
	if progress {
		q.Goal = m.done
	}
	return q.Run()
}

// next appends the steps out of a state.
func (m *model) next(s *state, steps []Step[state]) []Step[state] {
	v := &moves{m: m, from: s, steps: steps}
	v.environment()
	for i := range m.Hosts {
		v.host(i)
	}
	return v.steps
}

// bad returns the promise that a state breaks, "" if it breaks none.
func (m *model) bad(s *state) string {
	if s.broken != kept {
		return promises[s.broken]
	}
	var has uint8
	for i, k := range m.kinds {
		if s.leases[i].there == 1 {
			has |= k.cells
		}
	}
	if s.marker == 1 && m.Deletions == 0 && has != m.all {
		return promises[covered]
	}
	for i := range m.Hosts {
		for j := range i {
			a, b := &s.hosts[i], &s.hosts[j]
			if a.holds() && b.holds() && a.lease == b.lease && a.epoch == b.epoch && m.readable[s.topology][a.lease] {
				return promises[oneOwner]
			}
		}
	}
	return ""
}

// done reports whether the work is done: every promised change is written and
// handled. If a lease reaches the bound on acquisitions, no host can continue;
// that is not a fault of the protocol, so it also counts as done.
func (m *model) done(s *state) bool {
	for i := range m.kinds {
		if s.leases[i].there == 1 && int(s.leases[i].epoch) >= m.Epochs {
			return true
		}
	}
	return s.marker == 1 && int(s.written) == len(m.Changes) && m.promised(s)&^s.handled == 0
}

// canon removes differences without consequences: the order of equal hosts, and
// values that are not read again.
func (m *model) canon(s *state) {
	for i := range m.Hosts {
		h := &s.hosts[i]
		if h.write.fresh|h.write.force == 0 {
			h.write.at = 0
		}
		if !h.holds() && h.doing != lost {
			h.stolen = 0
		}
	}
	if !m.Audits {
		for i := range s.leases {
			if s.leases[i].there == 0 {
				s.leases[i].epoch = 0
			}
		}
	}
	alike := m.Hosts
	if m.Twins {
		alike = 2
	}
	for n := alike; n > 1; n-- {
		for i := 1; i < n; i++ {
			if m.less(s, i, i-1) {
				m.swap(s, uint8(i-1), uint8(i))
			}
		}
	}
	slices.SortFunc(s.delayed[:], func(a, b delayed) int { return cmp.Compare(a.key(), b.key()) })
}

// less orders hosts by their own state, then by their marks in leases and
// requests.
func (m *model) less(s *state, i, j int) bool {
	a, b := s.hosts[i].key(), s.hosts[j].key()
	if c := slices.Compare(a[:], b[:]); c != 0 {
		return c < 0
	}
	return m.marks(s, uint8(i)) < m.marks(s, uint8(j))
}

// marks sums up the owner fields of a host in leases and delayed requests.
func (m *model) marks(s *state, i uint8) (n uint64) {
	for l := range s.leases {
		n = n<<2 | uint64(bit(s.leases[l].by == i+1))<<1 | uint64(bit(s.leases[l].owner == i+1 && !m.Twins))
	}
	for d := range s.delayed {
		d := s.delayed[d] // a sum, because they are sorted later
		if d.by == i+1 || d.owner == i+1 && !m.Twins {
			d.by, d.owner = bit(d.by == i+1), 0
			n += d.key() * 0x9E3779B97F4A7C15
		}
	}
	return n
}

// swap exchanges two hosts, and their names if these differ.
func (m *model) swap(s *state, a, b uint8) {
	s.hosts[a], s.hosts[b] = s.hosts[b], s.hosts[a]
	exchange := func(n *uint8) {
		switch *n {
		case a + 1:
			*n = b + 1
		case b + 1:
			*n = a + 1
		}
	}
	for i := range s.leases {
		exchange(&s.leases[i].by)
		if !m.Twins {
			exchange(&s.leases[i].owner)
		}
	}
	for i := range s.delayed {
		exchange(&s.delayed[i].by)
		if !m.Twins {
			exchange(&s.delayed[i].owner)
		}
	}
}

func pack(fields ...uint8) (n uint64) {
	for _, f := range fields {
		n = n<<8 | uint64(f)
	}
	return n
}

// key packs all fields of a host, so that hosts can be ordered.
func (h *host) key() [3]uint64 {
	return [3]uint64{
		pack(h.doing, h.lease, h.epoch, h.acked, h.stored, h.read, h.trust, h.calls),
		pack(h.fresh|h.confirmed<<1, h.stolen, h.ending, h.childless, h.child, h.at, h.todo, h.ranges),
		pack(h.gaps, h.locked, h.write.verb, h.write.fresh, h.write.force, h.write.confirms, h.write.at),
	}
}

func (d *delayed) key() uint64 {
	return pack(d.verb, d.lease, d.force, d.owner, d.by, d.epoch, d.at)
}

// Tell writes a trace as numbered lines, with the promise that its end breaks.
func (w World) Tell(r Result[state]) string {
	m := w.model()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", m.setting())
	for i, s := range r.Trace {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, m.tell(s))
	}
	fmt.Fprintf(&b, "     → %s\n", r.Broken)
	return b.String()
}

func (m *model) setting() string {
	names := "hosts A and B"
	switch {
	case m.Hosts == 3 && m.Twins:
		names = "hosts A and A' (twins) and C"
	case m.Hosts == 3:
		names = "hosts A, B and C"
	case m.Twins:
		names = "hosts A and A' (twins)"
	case m.Hosts == 1:
		names = "host A"
	}
	text := names + "; ranges " + m.rangesText(0)
	for i, cell := range m.Changes {
		text += fmt.Sprintf("; change %d in cell %d", i+1, cell)
	}
	return text
}

func (m *model) tell(s Step[state]) string {
	host := string(rune('A' + s.Host))
	if m.Twins && s.Host == 1 {
		host = "A'"
	}
	lease := "?"
	if int(s.Lease) < len(m.kinds) {
		lease = m.kinds[s.Lease].token
	}
	n := fmt.Sprint(s.N)
	if s.N == none {
		n = "no position"
	}
	return strings.NewReplacer("{h}", host, "{l}", lease, "{n}", n).Replace(s.Text)
}

func (m *model) rangesText(topology uint8) string {
	var parts []string
	for _, r := range m.Ranges[topology] {
		parts = append(parts, r.ID+" ["+spanToken(r.Cells)+")")
	}
	return strings.Join(parts, ", ")
}

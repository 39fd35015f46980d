package model

import (
	"math/bits"
	"slices"
)

// World is the setting of an exploration: hosts, ranges with their splits and
// merges, the feed, and the number of faults.
type World struct {
	Name  string
	Hosts int
	// Twins gives the first two hosts the same owner name.
	Twins bool
	// Ranges are the physical ranges at first and after each split or merge. A
	// range is a set of cells, the smallest parts of the key space.
	Ranges [][]Range
	// Changes are the cells of the changes 1, 2, … in the order of the feed.
	Changes []uint8
	// Written is how many of them are there from the beginning.
	Written int
	// Epochs bounds how often a lease is acquired.
	Epochs int
	// Boot begins without leases: the hosts create them. Otherwise each first
	// range has a free lease.
	Boot bool
	// Now starts at the end of the feed instead of at its beginning.
	Now bool
	// Spans gives the first ranges leases over spans of keys (schema v1).
	Spans bool
	// Audits lets hosts look for coverage gaps.
	Audits bool
	// Drain lets a host release a lease when it has caught up with the feed.
	Drain bool
	// Prompt has the creation of a child land within the expiration of its
	// parent, or not at all.
	Prompt bool
	// Slow lets a host pause between choosing a lease and acquiring it.
	Slow bool

	// How often each may happen.
	Crashes   int // a process dies and starts again
	Losses    int // a write's answer is lost
	Delays    int // a request lands when its sender has stopped waiting, or never
	Steals    int // balancing takes a lease from a live owner
	Requests  int // balancing requests a handover from an owner
	Stops     int // a host stops gracefully
	Deletions int // an operator deletes a lease document

	Rules Rules
}

// Range is a physical range: its cells, as a set. Its number is its place in
// World.Ranges, so that a range that stays keeps its id.
type Range struct {
	ID    string
	Cells uint8
}

// kind is one lease that can exist in a world.
type kind struct {
	token  string
	cells  uint8
	byKeys bool // v1
}

// model is a world made ready for exploration.
type model struct {
	World
	kinds      []kind
	readable   [][]bool  // by topology and lease: a physical range answers for it
	successors [][]uint8 // by topology and lease: the leases that replace it if it is gone, as a set
	all        uint8     // all cells
	first      uint8     // leases that exist at the beginning
}

func (w World) model() *model {
	m := &model{World: w}
	if w.Hosts > maxHosts || w.Delays > maxDelayed || len(w.Changes) > 7 {
		panic("world " + w.Name + " is larger than a state")
	}
	for _, r := range w.Ranges[0] {
		m.first |= 1 << m.kind(kind{token: r.ID, cells: r.Cells, byKeys: w.Spans})
		m.all |= r.Cells
	}
	for _, ranges := range w.Ranges {
		for _, r := range ranges {
			if w.Boot || w.Audits {
				m.kind(kind{token: r.ID, cells: r.Cells})
			}
			if w.Boot || w.Audits {
				m.addParts(r.Cells)
			}
		}
	}
	for done := 0; done != len(m.kinds); { // children may need further leases
		done = len(m.kinds)
		m.readable, m.successors = nil, nil
		for t, ranges := range w.Ranges {
			readable, successors := make([]bool, done), make([]uint8, done)
			for i := range done {
				if t >= m.born(m.kinds[i]) {
					readable[i], successors[i] = m.locate(m.kinds[i], ranges)
				}
			}
			m.readable, m.successors = append(m.readable, readable), append(m.successors, successors)
		}
	}
	if len(m.kinds) > maxLeases {
		panic("world " + w.Name + " has more leases than a state")
	}
	return m
}

// addParts adds a lease for each part of a range that an audit can find missing.
func (m *model) addParts(cells uint8) {
	for part := uint8(1); part < cells; part++ {
		if part&^cells == 0 && run(part) == part {
			m.kind(kind{cells: part, byKeys: true})
		}
	}
}

// kind returns the number of a lease, and adds the lease if it is new.
func (m *model) kind(k kind) uint8 {
	if k.byKeys {
		k.token = spanToken(k.cells)
	}
	for i, o := range m.kinds {
		if o == k {
			return uint8(i)
		}
	}
	m.kinds = append(m.kinds, k)
	return uint8(len(m.kinds) - 1)
}

func spanToken(cells uint8) string {
	lo, hi := bits.TrailingZeros8(cells), 8-bits.LeadingZeros8(cells)
	return string([]byte{'0' + byte(lo), '-', '0' + byte(hi)})
}

// born returns the first topology in which a lease can exist.
func (m *model) born(k kind) int {
	if k.byKeys {
		return 0
	}
	return slices.IndexFunc(m.Ranges, func(ranges []Range) bool {
		return slices.ContainsFunc(ranges, func(r Range) bool { return r.ID == k.token })
	})
}

// number returns the number of a lease that must be known.
func (m *model) number(k kind) uint8 {
	known := len(m.kinds)
	n := m.kind(k)
	if len(m.kinds) > known {
		panic("world " + m.Name + " has no lease " + m.kinds[n].token)
	}
	return n
}

// locate is locate in children.go: it reports whether a range answers for the lease, and
// returns the successors of the lease if none does.
func (m *model) locate(l kind, ranges []Range) (bool, uint8) {
	var successors []Range
	for _, r := range ranges {
		if !l.byKeys && r.ID == l.token {
			return true, 0
		}
		if r.Cells&l.cells != 0 {
			successors = append(successors, r)
		}
	}
	if len(successors) == 1 && l.byKeys {
		return true, 0
	}
	var set uint8
	for _, r := range successors {
		own := l.cells & r.Cells
		set |= 1 << m.kind(kind{token: r.ID, cells: own, byKeys: l.byKeys || own != r.Cells})
	}
	return false, set
}

// name returns a host's owner name.
func (m *model) name(h int) uint8 {
	if m.Twins && h == 1 {
		return 0
	}
	return uint8(h)
}

// of returns the set of changes in cells, up to and including change n.
func (m *model) of(cells, n uint8) (set uint8) {
	for i := range m.Changes {
		if uint8(i) < n && cells>>m.Changes[i]&1 == 1 {
			set |= 2 << i
		}
	}
	return set
}

// nextChange returns the first written change of cells after position at, 0 if
// there is none.
func (m *model) nextChange(s *state, cells, at uint8) uint8 {
	for n := at + 1; n <= s.written; n++ {
		if cells>>m.Changes[n-1]&1 == 1 {
			return n
		}
	}
	return 0
}

func (m *model) start() state {
	s := state{
		written: uint8(m.Written),
		crashes: uint8(m.Crashes), losses: uint8(m.Losses), delays: uint8(m.Delays), steals: uint8(m.Steals),
		stops: uint8(m.Stops), requests: uint8(m.Requests), deletions: uint8(m.Deletions),
	}
	if m.Boot {
		for i := range m.Hosts {
			s.hosts[i].doing = booting
		}
		return s
	}
	s.marker = 1
	at := uint8(0)
	if m.Now {
		at = s.written
		s.scope = at
	}
	for i := range m.kinds {
		if m.first>>i&1 == 1 {
			s.leases[i] = lease{there: 1, at: at}
		}
	}
	return s
}

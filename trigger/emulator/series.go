package emulator

import (
	"slices"
	"sort"
)

// member is an element of a [series].
type member interface {
	position() int64 // its place in the order; never changes
	gone() bool      // reports whether to skip it; once true, it stays true
}

// series is a list in order of position, which grows at its end. Members that are
// gone are removed only when they outnumber the others, so that both removing one
// and reading from a position are cheap. The lock of the container guards it.
type series[M member] struct {
	members []M
	dead    int
}

// push adds m, whose position is not below that of any other.
func (s *series[M]) push(m M) { s.members = append(s.members, m) }

// insert adds m at its position. Regions that all write number their members together, but do
// not get them in this order.
func (s *series[M]) insert(m M) {
	n := len(s.members)
	if n == 0 || s.members[n-1].position() <= m.position() {
		s.push(m)
		return
	}
	index := sort.Search(n, func(i int) bool { return s.members[i].position() > m.position() })
	s.members = slices.Insert(s.members, index, m)
}

// discard counts one more member that is gone.
func (s *series[M]) discard() {
	if s.dead++; s.dead > 32 && s.dead > len(s.members)/2 {
		s.sweep()
	}
}

func (s *series[M]) sweep() {
	kept := make([]M, 0, len(s.members)-s.dead)
	for _, m := range s.members {
		if !m.gone() {
			kept = append(kept, m)
		}
	}
	s.members, s.dead = kept, 0
}

func (s *series[M]) len() int { return len(s.members) - s.dead }

// after yields the members beyond position.
func (s *series[M]) after(position int64) func(yield func(M) bool) {
	first := sort.Search(len(s.members), func(i int) bool { return s.members[i].position() > position })
	return func(yield func(M) bool) {
		for _, m := range s.members[first:] {
			if !m.gone() && !yield(m) {
				return
			}
		}
	}
}

func (s *series[M]) all() func(yield func(M) bool) { return s.after(-1) }

// merge makes one series of several that may interleave.
func merge[M member](parts ...*series[M]) series[M] {
	var merged series[M]
	for _, part := range parts {
		for m := range part.all() {
			merged.push(m)
		}
	}
	sort.SliceStable(merged.members, func(i, j int) bool {
		return merged.members[i].position() < merged.members[j].position()
	})
	return merged
}

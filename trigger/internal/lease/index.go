package lease

import (
	"slices"
	"sort"

	"halley/trigger/cosmos"
)

// Index finds the leases that share keys with a lease. One pass over all leases of
// a function lists them once and looks each of them up here: it costs n log n, and
// not n² comparisons. An index is immutable.
type Index struct {
	sorted []*Lease // with known spans and no tombstones, by the beginning of their spans
	maxEnd []string // for each lease, the largest end of a span up to it
}

// NewIndex returns the index of all leases of a function.
func NewIndex(all []*Lease) *Index {
	i := &Index{}
	for _, l := range all {
		if !l.Tombstone() && l.span.isKnown() {
			i.sorted = append(i.sorted, l)
		}
	}
	slices.SortStableFunc(i.sorted, func(a, b *Lease) int { return cosmos.CompareKeys(a.span.Min, b.span.Min) })
	for n, l := range i.sorted {
		end := l.span.Max
		if n > 0 && cosmos.CompareKeys(i.maxEnd[n-1], end) > 0 {
			end = i.maxEnd[n-1]
		}
		i.maxEnd = append(i.maxEnd, end)
	}
	return i
}

// overlapping returns the leases that share keys with a span, in no order.
func (i *Index) overlapping(s Span) (found []*Lease) {
	n := sort.Search(len(i.sorted), func(n int) bool { return cosmos.CompareKeys(i.sorted[n].span.Min, s.Max) >= 0 })
	for n--; n >= 0 && cosmos.CompareKeys(i.maxEnd[n], s.Min) > 0; n-- {
		if o := i.sorted[n]; o.span.overlapsWith(s) {
			found = append(found, o)
		}
	}
	return found
}

// Superseded reports whether other leases have replaced l: leases of higher epochs
// cover all of its span. That is so for a parent whose children all exist, and for a
// retired lease that a late request of a dead host has created again. The other leases
// have delivered, or will deliver, each change that l has not. Two kinds of them do not count:
// their epochs are high because they were acquired again since. One that is being split may be
// the parent of l, and its owner counts on l. A parent has more keys than l, or, after a merge,
// the same keys while only l is by keys. One that was acquired to be retired may give way to l.
// See [Held.StillSuperseded].
func (i *Index) Superseded(l *Lease) bool {
	if !l.span.isKnown() {
		return false
	}
	var spans []Span
	for _, o := range i.overlapping(l.span) {
		mayBeParent := !l.span.containsSpan(o.span) || l.byKeys && !o.byKeys && o.span.equalTo(l.span)
		if o.id != l.id && o.Epoch() > l.Epoch() && !(mayBeParent && o.Splitting()) && !o.Retiring() {
			spans = append(spans, o.span)
		}
	}
	sortSpans(spans)
	return len(spans) > 0 && len(spanGaps(l.span, spans)) == 0
}

// retiringInside returns a lease inside the span of l that its owner may retire, or nil.
func (i *Index) retiringInside(l *Lease) *Lease {
	for _, o := range i.overlapping(l.span) {
		if o.id != l.id && l.span.containsSpan(o.span) && o.Retiring() {
			return o
		}
	}
	return nil
}

// leasesInside returns the sorted spans of the leases that lie inside the span of
// l: children that an earlier owner of l has created. A lease over the whole span
// counts only if it is by keys and l is not, which is how a merge leaves them.
// Any other lease that covers all of l may be an ancestor that is still splitting.
// highest is the highest epoch of all leases that share keys with l, l included.
func (i *Index) leasesInside(l *Lease) (inside []Span, highest int64) {
	highest = l.Epoch()
	for _, o := range i.overlapping(l.span) {
		highest = max(highest, o.Epoch())
		if o.id == l.id || !l.span.containsSpan(o.span) || o.span.equalTo(l.span) && (!o.byKeys || l.byKeys) {
			continue
		}
		inside = append(inside, o.span)
	}
	sortSpans(inside)
	return inside, highest
}

// Overlaps returns the pairs of leases that share keys, in the order of their keys.
// Leases that others have superseded do not count: their owner, or the next one, removes them.
func (i *Index) Overlaps() (pairs [][2]*Lease) {
	isRead := func(l *Lease) bool { return !l.Retiring() && !i.Superseded(l) }
	for n, l := range i.sorted {
		if !isRead(l) {
			continue
		}
		for _, o := range i.sorted[n+1:] {
			if cosmos.CompareKeys(o.span.Min, l.span.Max) >= 0 {
				break
			}
			if l.span.overlapsWith(o.span) && isRead(o) {
				pairs = append(pairs, [2]*Lease{l, o})
			}
		}
	}
	return pairs
}

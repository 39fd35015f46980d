package lease

import (
	"sort"

	"halley/trigger/cosmos"
)

// Span is [Min, Max) of hashed partition keys, upper-case hex, "" to "FF". Two
// bounds that differ only in trailing zeros are the same key, so compare bounds
// with [cosmos.CompareKeys], never as strings.
type Span struct{ Min, Max string }

func spanOf(r cosmos.Range) Span { return Span{r.Min, r.Max} }

func (s Span) isKnown() bool { return s.Max != "" }
func (s Span) token() string { return s.Min + "-" + s.Max }

func (s Span) equalTo(o Span) bool {
	return cosmos.CompareKeys(s.Min, o.Min) == 0 && cosmos.CompareKeys(s.Max, o.Max) == 0
}

func (s Span) overlapsWith(o Span) bool {
	return cosmos.CompareKeys(s.Min, o.Max) < 0 && cosmos.CompareKeys(o.Min, s.Max) < 0
}

func (s Span) containsSpan(o Span) bool {
	return cosmos.CompareKeys(s.Min, o.Min) <= 0 && cosmos.CompareKeys(o.Max, s.Max) <= 0
}

func (s Span) intersectWith(o Span) Span {
	if cosmos.CompareKeys(o.Min, s.Min) > 0 {
		s.Min = o.Min
	}
	if cosmos.CompareKeys(o.Max, s.Max) < 0 {
		s.Max = o.Max
	}
	return s
}

// Covers reports whether s has all keys of o; unknown keys are not covered.
func (s Span) Covers(o Span) bool { return s.isKnown() && o.isKnown() && s.containsSpan(o) }

// Shares reports whether two spans have common keys.
func (s Span) Shares(o Span) bool { return s.isKnown() && o.isKnown() && s.overlapsWith(o) }

// Part is a physical range, or the keys of it that lie in Span.
type Part struct {
	Physical cosmos.Range
	Span     Span
}

// Token returns the token of a lease for the part: the id of the physical range
// if the part is all of it, else "min-max".
func (p Part) Token() string {
	if p.whole() {
		return p.Physical.ID
	}
	return p.Span.token()
}

func (p Part) whole() bool { return p.Span.equalTo(spanOf(p.Physical)) }

func sortSpans(spans []Span) {
	// slices.SortFunc would be compiled for this type: 15 kB of every app.
	sort.Slice(spans, func(i, j int) bool { return cosmos.CompareKeys(spans[i].Min, spans[j].Min) < 0 })
}

// joinSpans joins sorted spans that overlap or touch.
func joinSpans(sorted []Span) (joined []Span) {
	for _, s := range sorted {
		last := len(joined) - 1
		switch {
		case last < 0 || cosmos.CompareKeys(s.Min, joined[last].Max) > 0:
			joined = append(joined, s)
		case cosmos.CompareKeys(s.Max, joined[last].Max) > 0:
			joined[last].Max = s.Max
		}
	}
	return joined
}

// spanGaps returns the parts of s that none of the sorted spans covers.
func spanGaps(s Span, sorted []Span) []Span {
	var found []Span
	reached := s.Min
	for _, o := range sorted {
		if cosmos.CompareKeys(o.Min, s.Max) >= 0 {
			break
		}
		if cosmos.CompareKeys(o.Max, reached) <= 0 {
			continue
		}
		if cosmos.CompareKeys(o.Min, reached) > 0 {
			found = append(found, Span{reached, o.Min})
		}
		reached = o.Max
	}
	if cosmos.CompareKeys(reached, s.Max) < 0 {
		found = append(found, Span{reached, s.Max})
	}
	return found
}

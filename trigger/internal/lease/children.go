package lease

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"

	"halley/trigger/cosmos"
)

// rangeCache holds the physical ranges of a container as they were last read.
// All goroutines of a function share one.
type rangeCache struct {
	container *cosmos.Container

	mu      sync.Mutex // guards the fields below; never held during I/O
	ranges  []cosmos.Range
	version int64 // counts the refreshes
}

// refresh reads the ranges. If nothing changed, that is one small answer.
func (c *rangeCache) refresh(ctx context.Context) ([]cosmos.Range, error) {
	ranges, err := c.container.Ranges(ctx)
	if err != nil {
		return nil, fmt.Errorf("read partition key ranges: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ranges = ranges
	c.version++
	return ranges, nil
}

// current returns the ranges of the last refresh.
func (c *rangeCache) current() []cosmos.Range {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ranges
}

func (c *rangeCache) currentVersion() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// locate finds the physical range that holds the changes of a lease now. If there
// is none, it returns the children that the lease has to give way to: its range
// was split, or was merged into one that holds more keys than the lease covers.
// The rules are those of azure-cosmos-dotnet-v3 (PartitionSynchronizerCore),
// completed for a split that is followed by a merge. The ranges are in the order of
// their keys and do not overlap.
func locate(l *Lease, ranges []cosmos.Range, prefix string) (physical cosmos.Range, children []*Lease, err error) {
	heirs := heirsOf(l, ranges)
	if !l.byKeys {
		for _, named := range [][]cosmos.Range{heirs, ranges} { // all ranges only if its own has not the lease's keys
			if i := slices.IndexFunc(named, func(r cosmos.Range) bool { return r.ID == l.token }); i >= 0 {
				return named[i], nil, nil
			}
		}
	}
	switch {
	case len(heirs) == 0:
		return cosmos.Range{}, nil, fmt.Errorf("lease %q: %w", l.token, ErrRangesChanging)
	case len(heirs) == 1 && l.byKeys:
		return heirs[0], nil, nil
	case len(heirs) == 1 && !l.span.isKnown():
		return cosmos.Range{}, nil, fmt.Errorf("lease %q: %w", l.token, ErrMergedUnknown)
	}
	for _, r := range heirs {
		children = append(children, newChild(l, r, prefix))
	}
	return cosmos.Range{}, children, nil
}

// heirsOf returns the ranges that share keys with the lease. If its span is not
// known, they are the ranges that name it as a parent.
func heirsOf(l *Lease, ranges []cosmos.Range) []cosmos.Range {
	if l.span.isKnown() {
		first := sort.Search(len(ranges), func(i int) bool { return cosmos.CompareKeys(ranges[i].Max, l.span.Min) > 0 })
		end := first
		for end < len(ranges) && l.span.overlapsWith(spanOf(ranges[end])) {
			end++
		}
		return ranges[first:end:end]
	}
	var heirs []cosmos.Range
	for _, r := range ranges {
		if slices.Contains(r.Parents, l.token) {
			heirs = append(heirs, r)
		}
	}
	return heirs
}

// spanWithin returns the keys of r that belong to the lease.
func spanWithin(l *Lease, r cosmos.Range) Span {
	if l.byKeys {
		return l.span.intersectWith(spanOf(r))
	}
	return spanOf(r)
}

// newChild makes the lease that takes over the keys of parent that lie in r. It
// begins at the parent's continuation, which the service accepts for every
// descendant of a range.
func newChild(parent *Lease, r cosmos.Range, prefix string) *Lease {
	rangeSpan := spanOf(r)
	if parent.span.isKnown() {
		rangeSpan = parent.span.intersectWith(rangeSpan)
	}
	if parent.byKeys {
		return newChildOver(parent, rangeSpan, prefix)
	}
	return inherit(newLease(Part{r, rangeSpan}, prefix), parent)
}

// newChildOver makes the lease that takes over a span of parent.
func newChildOver(parent *Lease, s Span, prefix string) *Lease {
	return inherit(newKeysLease(s, prefix), parent)
}

// inherit gives a child the mode, the position and the properties of its parent,
// and the next epoch. It returns the child.
func inherit(child, parent *Lease) *Lease {
	child.setMode(parent.mode)
	child.continuation = parent.continuation
	maps.Copy(child.properties, parent.properties)
	delete(child.properties, incarnationProperty)
	delete(child.properties, RetriesProperty)
	delete(child.properties, uncleanExitsProperty)
	delete(child.properties, splittingProperty)
	delete(child.properties, retiringProperty)
	child.raiseEpoch(parent, parent.Epoch()+1)
	return child
}

// missingChildren returns the leases that a split has yet to create: each child,
// or, if leases inside the parent cover a part of it, leases over the rest. A
// child that was created before may have ended since and must not begin again.
func missingChildren(parent *Lease, children []*Lease, inside []Span, prefix string) []*Lease {
	var missing []*Lease
	for _, c := range children {
		for _, gap := range spanGaps(c.span, inside) {
			if gap.equalTo(c.span) {
				missing = append(missing, c)
			} else {
				missing = append(missing, newChildOver(parent, gap, prefix))
			}
		}
	}
	return missing
}

// setEpoch raises leases above every epoch that a sink has seen for their keys.
func setEpoch(leases []*Lease, epoch int64) {
	for _, l := range leases {
		l.raiseEpoch(l, epoch)
	}
}

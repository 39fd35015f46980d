package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"halley/trigger/cosmos"
)

// topology is the newest known set of physical ranges of a container.
type topology struct {
	container *cosmos.Container

	mu     sync.Mutex
	ranges []cosmos.Range
}

// refresh reads the ranges; where nothing changed that is one small answer.
func (t *topology) refresh(ctx context.Context) ([]cosmos.Range, error) {
	ranges, err := t.container.Ranges(ctx)
	if err != nil {
		return nil, fmt.Errorf("read partition key ranges: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ranges = ranges
	return ranges, nil
}

// current is what the last refresh found.
func (t *topology) current() []cosmos.Range {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ranges
}

// errRangesChanging means that the ranges do not yet show what a lease became.
var errRangesChanging = errors.New("no partition key range answers for the lease yet")

// errMergedUnknown is the one merge that cannot be followed without a guess
// that might lose changes.
var errMergedUnknown = errors.New("the lease's partition key range has merged with others, and the lease holds no FeedRange " +
	"that says which part of them is its own; add FeedRange to the document, or delete it to read the range again from the start")

// locate finds where the changes of a lease are read now. Either it is one
// physical range, or the lease has to give way to children: what it covers was
// split, or was merged into a range that is more than it covers. The rules are
// those of azure-cosmos-dotnet-v3 (PartitionSynchronizerCore), made whole for
// a split that was followed by a merge.
func locate(l *lease, ranges []cosmos.Range, prefix string) (physical cosmos.Range, children []*lease, err error) {
	if !l.byKeys {
		if i := slices.IndexFunc(ranges, func(r cosmos.Range) bool { return r.ID == l.token }); i >= 0 {
			return ranges[i], nil, nil
		}
	}
	var heirs []cosmos.Range
	for _, r := range ranges {
		if l.span.known() && l.span.overlaps(spanOf(r)) || !l.span.known() && slices.Contains(r.Parents, l.token) {
			heirs = append(heirs, r)
		}
	}
	switch {
	case len(heirs) == 0:
		return cosmos.Range{}, nil, fmt.Errorf("lease %q: %w", l.token, errRangesChanging)
	case len(heirs) == 1 && l.byKeys:
		return heirs[0], nil, nil
	case len(heirs) == 1 && !l.span.known():
		return cosmos.Range{}, nil, fmt.Errorf("lease %q: %w", l.token, errMergedUnknown)
	}
	for _, r := range heirs {
		children = append(children, l.child(r, prefix))
	}
	return cosmos.Range{}, children, nil
}

// outlived reports whether other leases have taken l's place: leases of higher
// epochs cover all of its span. So it is with a parent whose children are all
// there, and with a lease that a dead host's late request brought back after it
// had been retired. What such a lease has not seen, the others have or will.
func outlived(l *lease, all []*lease) bool {
	if !l.span.known() {
		return false
	}
	var spans []span
	for _, o := range all {
		if o.id != l.id && !o.tombstone() && o.span.known() && o.epoch() > l.epoch() && o.span.overlaps(l.span) {
			spans = append(spans, o.span)
		}
	}
	sortSpans(spans)
	return len(spans) > 0 && len(gaps(l.span, spans)) == 0
}

// child is the lease that takes over the part of l that lies in r. It begins
// at l's continuation, which the service accepts for every descendant.
func (l *lease) child(r cosmos.Range, prefix string) *lease {
	own := spanOf(r)
	if l.span.known() {
		own = l.span.intersect(own)
	}
	if l.byKeys {
		return l.over(own, prefix)
	}
	return l.bequeath(part{r, own}.newLease(prefix))
}

// over is the lease that takes over a span of l.
func (l *lease) over(s span, prefix string) *lease {
	return l.bequeath(newLease(prefix, s.token(), s, true))
}

// bequeath gives a child what it has of its parent: mode, position, properties
// and the next epoch.
func (l *lease) bequeath(c *lease) *lease {
	c.inMode(l.mode).continuation = l.continuation
	for name, value := range l.properties {
		c.properties[name] = value
	}
	delete(c.properties, incarnationProperty)
	delete(c.properties, troubleProperty) // LSNs of another range
	delete(c.properties, deathsProperty)
	c.properties[epochProperty] = fmt.Sprint(l.epoch() + 1)
	return c
}

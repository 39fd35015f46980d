package lease

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"halley/trigger/cosmos"
)

func TestLocateFindsRangeOrChildren(t *testing.T) {
	r := func(id, min, max string, parents ...string) cosmos.Range {
		return cosmos.Range{ID: id, Min: min, Max: max, Parents: parents}
	}
	v0 := func(token string, s Span) *Lease { return newDocument("p", token, s, false) }
	v1 := func(s Span) *Lease { return newKeysLease(s, "p") }
	tests := []struct {
		name     string
		lease    *Lease
		ranges   []cosmos.Range
		physical string
		children string
		err      error
	}{
		{"v0 as it was", v0("0", Span{"", "20"}), []cosmos.Range{r("0", "", "20"), r("1", "20", "FF")}, "0", "", nil},
		{"v0 with the span of another range", v0("1", Span{"", "20"}), []cosmos.Range{r("0", "", "20"), r("1", "20", "FF")}, "1", "", nil},
		{"v0 split", v0("0", Span{"", "20"}), []cosmos.Range{r("2", "", "10", "0"), r("3", "10", "20", "0"), r("1", "20", "FF")}, "", "2 3", nil},
		{"v0 split, span unknown", v0("0", Span{}), []cosmos.Range{r("2", "", "10", "0"), r("3", "10", "20", "0"), r("1", "20", "FF")}, "", "2 3", nil},
		{"v0 merged", v0("0", Span{"", "20"}), []cosmos.Range{r("2", "", "FF", "0", "1")}, "", "-20", nil},
		{"v0 merged, span unknown", v0("0", Span{}), []cosmos.Range{r("2", "", "FF", "0", "1")}, "", "", ErrMergedUnknown},
		{"v0 split, then one child merged with the neighbour", v0("0", Span{"", "20"}), []cosmos.Range{r("2", "", "10", "0"), r("4", "10", "FF", "0", "3", "1")}, "", "2 10-20", nil},
		{"v0 split, children not listed yet", v0("0", Span{}), []cosmos.Range{r("7", "", "FF")}, "", "", ErrRangesChanging},
		{"v1 part of a range", v1(Span{"", "20"}), []cosmos.Range{r("2", "", "FF", "0", "1")}, "2", "", nil},
		{"v1 split on its bound", v1(Span{"", "20"}), []cosmos.Range{r("5", "", "20", "2"), r("6", "20", "FF", "2")}, "5", "", nil},
		{"v1 split inside", v1(Span{"", "20"}), []cosmos.Range{r("5", "", "18", "2"), r("6", "18", "FF", "2")}, "", "-18 18-20", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.lease.continuation = `"41"`
			test.lease.properties[epochProperty] = "6"
			test.lease.properties[incarnationProperty] = "me"
			test.lease.properties[RetriesProperty] = "[]"
			physical, children, err := locate(test.lease, test.ranges, "p")
			if !errors.Is(err, test.err) || physical.ID != test.physical {
				t.Errorf("physical %q, error %v", physical.ID, err)
			}
			var tokens []string
			for _, c := range children {
				tokens = append(tokens, c.token)
				if c.continuation != `"41"` || c.Epoch() != 7 || c.owner != "" || c.properties[incarnationProperty]+c.properties[RetriesProperty] != "" {
					t.Errorf("child %+v", c)
				}
				if c.byKeys != strings.Contains(c.token, "-") {
					t.Errorf("child %q has the wrong schema", c.token)
				}
			}
			if got := strings.Join(tokens, " "); got != test.children {
				t.Errorf("children %q, want %q", got, test.children)
			}
		})
	}
}

// The children of a lease have its properties, except for those that are about one document,
// one owner or the changes of one range.
func TestChildrenInheritProperties(t *testing.T) {
	for name, parent := range map[string]*Lease{"range": newDocument("p", "0", Span{"", "20"}, false), "keys": newKeysLease(Span{"", "20"}, "p")} {
		ownProperties := []string{incarnationProperty, RetriesProperty, uncleanExitsProperty, splittingProperty, retiringProperty}
		passed := []string{pausedProperty, "halley.postponed", "halley.readAhead", "halley.status", "of another library"}
		for _, p := range slices.Concat(ownProperties, passed) {
			parent.properties[p] = "value of " + p
		}
		parent.properties[epochProperty] = "6"
		child := newChildOver(parent, Span{"", "10"}, "p")
		if child.Epoch() != 7 {
			t.Errorf("%s: epoch %d", name, child.Epoch())
		}
		for _, p := range ownProperties {
			if child.properties[p] != "" {
				t.Errorf("%s: the child has %s", name, p)
			}
		}
		for _, p := range passed {
			if child.properties[p] != parent.properties[p] {
				t.Errorf("%s: the child has not %s", name, p)
			}
		}
	}
}

func TestMissingChildrenFillUncoveredKeys(t *testing.T) {
	parent := newKeysLease(Span{"", "20"}, "p")
	halves := []*Lease{newChildOver(parent, Span{"", "10"}, "p"), newChildOver(parent, Span{"10", "20"}, "p")}
	children := []*Lease{newChildOver(parent, Span{"", "20"}, "p")}
	tests := []struct {
		name     string
		children []*Lease
		inside   []Span
		want     string
	}{
		{"none exist", halves, nil, "-10 10-20"},
		{"one exists", halves, []Span{{"", "10"}}, "10-20"},
		{"all exist", halves, []Span{{"", "10"}, {"10", "20"}}, ""},
		{"a part of one exists", halves, []Span{{"", "08"}}, "08-10 10-20"},
		{"whole again", children, []Span{{"08", "10"}}, "-08 10-20"},
	}
	for _, test := range tests {
		var tokens []string
		for _, c := range missingChildren(parent, test.children, test.inside, "p") {
			tokens = append(tokens, c.token)
		}
		if got := strings.Join(tokens, " "); got != test.want {
			t.Errorf("%s: missing %q, want %q", test.name, got, test.want)
		}
	}
}

func TestSupersededNeedsHigherEpochsOverAllKeys(t *testing.T) {
	leaseOf := func(epoch int64, s Span) *Lease {
		l := newKeysLease(s, "p")
		setEpoch([]*Lease{l}, epoch)
		return l
	}
	dead := leaseOf(6, Span{"10", "20"})
	dead.properties[tombstoneProperty] = "1"
	parent := leaseOf(5, Span{"", "20"})
	parting := leaseOf(6, Span{"", "FF"})
	parting.properties[splittingProperty] = "1"
	leaving := leaseOf(6, Span{"", "FF"})
	leaving.properties[retiringProperty] = "1"
	whole := leaseOf(6, parent.span)
	whole.id, whole.byKeys = "whole", false
	replaced := whole.clone()
	replaced.properties = map[string]string{splittingProperty: "1"}
	setEpoch([]*Lease{replaced}, 6)
	tests := []struct {
		name   string
		others []*Lease
		want   bool
	}{
		{"alone", nil, false},
		{"both children", []*Lease{leaseOf(6, Span{"", "10"}), leaseOf(6, Span{"10", "20"})}, true},
		{"one child", []*Lease{leaseOf(6, Span{"", "10"})}, false},
		{"an older lease", []*Lease{leaseOf(6, Span{"", "10"}), leaseOf(5, Span{"10", "20"})}, false},
		{"a tombstone", []*Lease{leaseOf(6, Span{"", "10"}), dead}, false},
		{"one lease over more keys", []*Lease{leaseOf(6, Span{"", "FF"})}, true},
		{"a lease over more keys that is being split", []*Lease{parting}, false},
		{"a lease over more keys that is to be retired", []*Lease{leaving}, false},
		{"a lease of the whole range", []*Lease{whole}, true},
		{"a lease of the whole range that one by keys replaces", []*Lease{replaced}, false},
	}
	for _, test := range tests {
		if got := NewIndex(append(test.others, parent)).Superseded(parent); got != test.want {
			t.Errorf("%s: superseded %v", test.name, got)
		}
	}
}

func TestOverlapsAreOfLeasesThatAreRead(t *testing.T) {
	parent, child := newKeysLease(Span{"", "20"}, "p"), newKeysLease(Span{"10", "20"}, "p")
	setEpoch([]*Lease{parent, child}, 5)
	if pairs := NewIndex([]*Lease{parent, child}).Overlaps(); len(pairs) != 1 {
		t.Errorf("two leases of one epoch: %d pairs", len(pairs))
	}
	setEpoch([]*Lease{parent}, 6)
	parent.properties[retiringProperty] = "1"
	if pairs := NewIndex([]*Lease{parent, child}).Overlaps(); len(pairs) != 0 {
		t.Errorf("a parent that is to be retired: %d pairs", len(pairs))
	}
}

func TestLeasesInsideIgnoresAncestors(t *testing.T) {
	parent := newDocument("p", "2", Span{"10", "20"}, false)
	setEpoch([]*Lease{parent}, 4)
	ancestor := newKeysLease(Span{"", "FF"}, "p")
	setEpoch([]*Lease{ancestor}, 9)
	same := newKeysLease(Span{"10", "20"}, "p")
	child := newKeysLease(Span{"10", "18"}, "p")
	inside, highest := NewIndex([]*Lease{parent, ancestor, child}).leasesInside(parent)
	if len(inside) != 1 || inside[0] != child.span || highest != 9 {
		t.Errorf("inside %v, highest epoch %d", inside, highest)
	}
	if inside, _ := NewIndex([]*Lease{same}).leasesInside(parent); len(inside) != 1 {
		t.Errorf("a lease by keys that a merge left: inside %v", inside)
	}
	if inside, _ := NewIndex([]*Lease{parent}).leasesInside(same); len(inside) != 0 {
		t.Errorf("a lease by range over all keys: inside %v", inside)
	}
}

func TestLeaseByKeysReadsOnlyItsOwnKeys(t *testing.T) {
	merged := cosmos.Range{ID: "2", Min: "", Max: "FF"}
	if got := spanWithin(newKeysLease(Span{"", "20"}, "p"), merged); got != (Span{"", "20"}) {
		t.Errorf("reads %v", got)
	}
	if got := spanWithin(newDocument("p", "2", Span{}, false), merged); got != (Span{"", "FF"}) {
		t.Errorf("reads %v", got)
	}
}

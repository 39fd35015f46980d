package history

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// splitLease is lease "0", which x has replaced by "1" and "2".
func splitLease() *story {
	return begun().part("1", "", "80", Create, "x", 2, 0).part("2", "80", "FF", Create, "x", 2, 0).lease(Tombstone, "x", 1, 0)
}

// restore has an operator restore lease "0" from a backup that was made before or after
// its owner had retired it.
func (s *story) restore(retired bool) *story {
	return s.add(Event{Kind: Tamper, Op: Restored, Range: "0", Max: "FF", Epoch: 1, Retired: retired})
}

func TestCheckOfCoverage(t *testing.T) {
	// x sends the creation of "0", and its range splits.
	halves := func() *story {
		return newStory().part("1", "", "80", Create, "y", 3, 0).part("2", "80", "FF", Create, "y", 3, 0)
	}
	for _, test := range []struct {
		name string
		s    *story
		want []Rule
	}{
		{"a tombstone is restored", splitLease().restore(true).add(Event{Kind: Calm}), nil},
		{"a parent is restored for good", splitLease().restore(false).add(Event{Kind: Calm}), []Rule{Coverage, Coverage}},
		{"a tombstone covers nothing", begun().restore(true).add(Event{Kind: Calm}), []Rule{Coverage}},

		{"a bootstrap's request arrives after its marker", halves().marker().lease(Create, "x", 1, 0).sent(3*time.Second).
			lease(Acquire, "y", 2, 0).lease(Retire, "y", 2, 0).add(Event{Kind: Calm}), nil},
		{"a bootstrap's request arrives and its lease stays", halves().marker().lease(Create, "x", 1, 0).sent(3 * time.Second).
			add(Event{Kind: Calm}), []Rule{Coverage, Coverage}},
		{"a creation that left after the marker", halves().marker().lease(Create, "x", 1, 0).sent(0).lease(Retire, "x", 1, 0), []Rule{Coverage}},
		{"a retired lease arrives again", splitLease().lease(Retire, "x", 1, 0).lease(Create, "x", 0, 0).sent(4*time.Second).
			lease(Acquire, "y", 2, 0).lease(Retire, "y", 2, 0).add(Event{Kind: Calm}), nil},
		{"a retired lease is created again", splitLease().lease(Retire, "x", 1, 0).lease(Create, "x", 0, 0).sent(0).
			lease(Retire, "x", 0, 0), []Rule{Coverage}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := minute.Check(test.s.events)
			got := rulesOf(r)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s%v", diff, r.Violations)
			}
		})
	}
}

package delivery

import (
	"slices"
	"testing"
	"time"
)

func TestListedChangeIsPassedOnlyBehindEarlierOnes(t *testing.T) {
	put := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	listedChange := func(name string, lsn, written int64, put time.Time) (c StoredChange) {
		c.name, c.LSN, c.Timestamp, c.Time = name, lsn, written, put
		return c
	}
	listed := []StoredChange{listedChange("40/a", 40, 100, put), listedChange("60/b", 60, 120, put.Add(time.Minute))}
	seen := slices.Clone(listed)
	seen[1].isSeen = true
	known := ReadAhead{IsKnown: true, Changes: 7, Until: put.Add(time.Second)}
	for name, test := range map[string]struct {
		merged bool
		former ReadAhead
		listed []StoredChange
		taken  feedPlace
		shown  int64
		want   int
	}{
		"nothing was taken":                    {listed: listed},
		"the first one's LSN":                  {listed: listed, taken: feedPlace{lsn: 40}, want: 1},
		"just before it":                       {listed: listed, taken: feedPlace{lsn: 39}},
		"the last one's LSN":                   {listed: listed, taken: feedPlace{lsn: 60}, want: 2},
		"the end":                              {listed: listed, taken: feedPlace{ended: true}, want: 2},
		"LSNs of a merged range":               {merged: true, listed: listed, taken: feedPlace{lsn: 90}},
		"a change of the key in its second":    {merged: true, listed: listed, shown: 100},
		"a later change of the key":            {merged: true, listed: listed, shown: 101, want: 1},
		"the feed shows the second":            {merged: true, listed: seen, taken: feedPlace{}, want: 2},
		"read by the former owner":             {merged: true, former: known, listed: listed, taken: feedPlace{changes: 7}, want: 1}, // the second was put later
		"not all that the former owner read":   {merged: true, former: known, listed: listed, taken: feedPlace{changes: 6}},
		"it is not known what that owner read": {merged: true, listed: listed, taken: feedPlace{changes: 7000}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &letters{listed: test.listed, shown: test.shown}
			k := &laneKeys{laneShared: &laneShared{config: Config{MergedRange: test.merged, ReadAhead: test.former}}, states: map[uint64]*laneKey{0: {letters: s}}, postponed: 1}
			k.passListed(test.taken, nil)
			if got := s.passed; s.listed != nil && got != test.want || s.listed == nil && test.want != len(test.listed) {
				t.Errorf("passed %d of %d, want %d", got, len(s.listed), test.want)
			}
		})
	}
}

// Changes that the feed shows again, between others in the store, get numbers between theirs,
// in their order, however many there are and even if a further owner sees them once more.
func TestShownAgainChangesGetNumbersBetween(t *testing.T) {
	first, last := StoredChange{DeadLetter: DeadLetter{Order: 5 * orderGap}}, StoredChange{DeadLetter: DeadLetter{Order: 6 * orderGap}}
	first.LSN, first.Timestamp, last.LSN, last.Timestamp = 1, 1, 100_000, 100_000
	s := &letters{listed: []StoredChange{first, last}, lastOrder: 6 * orderGap, known: map[int64]bool{}}
	k := &laneKeys{laneShared: &laneShared{blockedKeys: &blockedKeys{listed: &BlockedKeys{}}}}
	k.stateOf(k.keyOf(&Item{})).letters = s
	insert := func(lsn int64) {
		c := &Item{}
		c.LSN, c.Timestamp = lsn, lsn
		s.added(c, DeadLetter{Order: k.orderOf(c, true)})
	}
	for lsn := int64(1000); lsn < 2000; lsn++ {
		insert(lsn)
	}
	for _, lsn := range []int64{-5, -4, -3, 150_000} { // before all, and behind
		insert(lsn)
	}
	for i, later := range s.listed[1:] {
		if earlier := s.listed[i]; later.Order <= earlier.Order {
			t.Fatalf("the change %d has the number %d, and %d has %d", earlier.LSN, earlier.Order, later.LSN, later.Order)
		}
	}
	if len(s.listed) != 1005 {
		t.Errorf("%d changes are listed between the first and the last", len(s.listed))
	}
}

// A postponed change is handled and stays in the store until a request covers it. Its key is
// forgotten meanwhile, and still the next letter of the key leaves room for changes between.
func TestLetterLeavesRoomBehindOneThatWaitsForARequest(t *testing.T) {
	k := &laneKeys{laneShared: &laneShared{config: Config{FirstOrder: 5}, blockedKeys: &blockedKeys{listed: &BlockedKeys{}}}}
	c := &Item{stored: &StoredChange{DeadLetter: DeadLetter{Order: 5}}}
	c.orderKey = k.keyOf(&Item{})
	k.uncovered.add([]*Item{c})
	if next := k.orderOf(&Item{}, true); next < 5+orderGap {
		t.Errorf("the letter has the number %d behind 5", next)
	}
}

package delivery

import (
	"slices"
	"testing"
	"time"
)

func TestListedChangeIsPassedOnlyBehindEarlierOnes(t *testing.T) {
	put := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	listed := []listedChange{{name: "40/a", lsn: 40, written: 100, time: put}, {name: "60/b", lsn: 60, written: 120, time: put.Add(time.Minute)}}
	seen := append([]listedChange{}, listed...)
	seen[1].isSeen = true
	known := ReadAhead{IsKnown: true, Changes: 7, Until: put.Add(time.Second)}
	for name, test := range map[string]struct {
		merged bool
		former ReadAhead
		listed []listedChange
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
			k := &postponedKey{listed: test.listed, shown: test.shown}
			l := &lane{laneShared: &laneShared{config: Config{MergedRange: test.merged, ReadAhead: test.former}}, postponed: map[uint64]*postponedKey{0: k}}
			l.passListed(test.taken)
			if got := k.passed; k.listed != nil && got != test.want || k.listed == nil && test.want != len(test.listed) {
				t.Errorf("passed %d of %d, want %d", got, len(k.listed), test.want)
			}
		})
	}
}

// Changes that the feed shows again, between others in the store, get numbers between theirs,
// in their order, however many there are and even if a further owner sees them once more.
func TestShownAgainChangesGetNumbersBetween(t *testing.T) {
	k := &postponedKey{listed: []listedChange{{lsn: 1, written: 1, order: 5 * orderGap}, {lsn: 100_000, written: 100_000, order: 6 * orderGap}}, lastOrder: 6 * orderGap}
	l := &lane{laneShared: &laneShared{blockedKeys: &blockedKeys{listed: &BlockedKeys{}}}}
	l.postponed = map[uint64]*postponedKey{l.keyOf(&Item{}): k}
	insert := func(lsn int64) int64 {
		c := &Item{}
		c.LSN, c.Timestamp = lsn, lsn
		order := l.placeOrder(k, c)
		i := k.listedBefore(lsn)
		k.listed = slices.Insert(k.listed, i, listedChange{name: c.Name(nil), lsn: lsn, written: lsn, order: order})
		return order
	}
	for lsn := int64(1000); lsn < 2000; lsn++ {
		insert(lsn)
	}
	for _, lsn := range []int64{-5, -4, -3, 150_000} { // before all, and behind
		insert(lsn)
	}
	for i, later := range k.listed[1:] {
		if earlier := k.listed[i]; later.order <= earlier.order {
			t.Fatalf("the change %d has the number %d, and %d has %d", earlier.lsn, earlier.order, later.lsn, later.order)
		}
	}
}

// A postponed change is handled and stays in the store until a request covers it. Its key is
// forgotten meanwhile, and still the next letter of the key leaves room for changes between.
func TestLetterLeavesRoomBehindOneThatWaitsForARequest(t *testing.T) {
	l := &lane{laneShared: &laneShared{config: Config{FirstOrder: 5}, blockedKeys: &blockedKeys{listed: &BlockedKeys{}}}}
	c := &Item{stored: &StoredChange{Order: 5}}
	c.orderKey = l.keyOf(&Item{})
	l.uncovered.add([]*Item{c}, 1)
	if next := l.nextOrder(&Item{}, orderGap); next < 5+orderGap {
		t.Errorf("the letter has the number %d behind 5", next)
	}
}

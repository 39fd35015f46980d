package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

// numbered returns changes with these sequence numbers.
func numbered(numbers ...int64) (items []*Item) {
	for _, n := range numbers {
		items = append(items, &Item{Seq: n})
	}
	return items
}

// Changes that waited for a key, and fresh ones that came in meanwhile, are in feed order.
func TestReleasedChangesTakeTheirPlaces(t *testing.T) {
	q := freshQueue{laneShared: &laneShared{}, items: numbered(2, 3, 6)}
	q.putBack(numbered(7, 1, 4))
	var order []int64
	for _, c := range q.items {
		order = append(order, c.Seq)
	}
	if got := fmt.Sprint(order); got != "[1 2 3 4 6 7]" {
		t.Errorf("changes %s", got)
	}
}

// A batch with changes that waited for their key leaves others of the feed. They came in
// before the last change did, so they wait for no window of their own.
func TestRestOfReleasedChangesIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var config Config
		config.BatchWindow, config.MaxItemsPerInvocation, config.BatchBytes, config.Lanes = 30*time.Second, 3, 1<<20, 8
		q := freshQueue{laneShared: &laneShared{config: config}}
		q.add(numbered(3))
		time.Sleep(time.Second)
		q.add(numbered(4))
		q.putBack(numbered(1, 2))
		if batch := q.cut(); len(batch) != 3 {
			t.Fatalf("batch of %d changes", len(batch))
		}
		if now := time.Now(); q.readyAt(now).After(now) {
			t.Errorf("the rest waits %v", q.readyAt(now).Sub(now))
		}
		q.cut()
		q.add(numbered(5))
		if now := time.Now(); q.readyAt(now).Sub(now) != config.BatchWindow {
			t.Errorf("a later change waits %v", q.readyAt(now).Sub(now))
		}
	})
}

// A call with postponed changes ends before the first one that the feed has not passed.
func TestCallEndsBeforeUnpassedChange(t *testing.T) {
	k := &laneKeys{laneShared: &laneShared{}}
	var items []*Item
	for lsn := range int64(3) {
		c := &Item{stored: &StoredChange{}}
		c.LSN = lsn + 1
		c.Document = fmt.Appendf(nil, `{"id":"doc%d"}`, lsn)
		items = append(items, c)
	}
	s := &laneKey{letters: &letters{passed: 1}}
	for _, c := range items[:2] {
		s.letters.listed = append(s.letters.listed, StoredChange{name: k.nameOf(c)})
	}
	if n := k.historyLength(s, items); n != 1 {
		t.Errorf("%d changes, 1 is passed", n)
	}
	s.letters.passed = 2
	if n := k.historyLength(s, items); n != 3 {
		t.Errorf("%d changes, 3 are passed or not listed", n)
	}
}

// The end of what this owner has read passes listed changes only if it is the end of the feed.
func TestListedChangesWaitForTheEndOfTheFeed(t *testing.T) {
	for _, readToEnd := range []bool{false, true} {
		shared := &laneShared{}
		shared.readToEnd.Store(readToEnd)
		s := &letters{listed: []StoredChange{{}}}
		s.listed[0].LSN = 40
		l := &lane{laneShared: shared, keys: laneKeys{laneShared: shared, states: map[uint64]*laneKey{1: {order: 1, letters: s}}, postponed: 1, hasListed: true}}
		l.fresh.isClosed = true
		if err := l.takeArrived(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if passed := s.listed == nil; passed != readToEnd {
			t.Errorf("read to the end %v: passed %v", readToEnd, passed)
		}
	}
}

// Progress behind a change that waits moves Q, and the lease is told.
func TestProgressBehindWaitingChangeIsPassedOn(t *testing.T) {
	var saved savedPositions
	p := newProgress(Config{Continuation: feed.QuotedLSN(1)}, saved.advance)
	page := &feed.Page{Continuation: feed.QuotedLSN(4)}
	for lsn := int64(2); lsn <= 4; lsn++ {
		page.Items = append(page.Items, cosmos.Item{LSN: lsn, Document: fmt.Appendf(nil, `{"id":"doc%d"}`, lsn)})
	}
	items := p.addWhole(page, []int{0, 1, 2})
	p.setAside([]*Item{&items[0]})
	advances := len(saved)
	p.finishItems([]*Item{&items[1]})
	if got := fmt.Sprint(saved[advances:]); got != "[1!]" {
		t.Errorf("positions %s, want that before the waiting change, to be saved", got)
	}
	if position, marks := p.snapshot(0); position != feed.QuotedLSN(1) || marks == "" {
		t.Errorf("position %s with %q finished behind it", position, marks)
	}
}

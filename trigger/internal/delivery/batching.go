package delivery

import (
	"cmp"
	"slices"
	"time"
)

// freshQueue holds the changes of a lane that are to be delivered in batches, in feed order.
// The lane owns it.
type freshQueue struct {
	*laneShared
	items         []*Item
	oldestArrival time.Time // of the changes
	lastArrival   time.Time // of any changes of the lane
	hasWaited     bool      // changes were put back since the queue was last empty
	isClosed      bool      // no more changes come in
	isStalled     bool      // the dispatcher has said so since the last ones came in, see dispatch.go
}

// add appends those of the changes that come in at this moment that do not wait. It takes over
// the slice.
func (q *freshQueue) add(items []*Item) {
	q.lastArrival = time.Now()
	if len(q.items) == 0 {
		q.items, q.oldestArrival, q.hasWaited = items, q.lastArrival, false
	} else {
		q.items = append(q.items, items...)
	}
}

// putBack puts changes that have waited in front of later ones of the feed.
func (q *freshQueue) putBack(queued []*Item) {
	if len(queued) == 0 {
		return
	}
	q.oldestArrival, q.hasWaited = time.Now().Add(-q.config.BatchWindow), true // they have waited long enough
	slices.SortFunc(queued, func(a, b *Item) int { return cmp.Compare(a.Seq, b.Seq) })
	q.items = mergeItems(queued, q.items, func(c *Item) int64 { return c.Seq })
}

// readyAt returns when a batch can be cut, or the zero time if there are no changes. It waits
// for no further changes if none can join it.
func (q *freshQueue) readyAt(now time.Time) time.Time {
	switch {
	case len(q.items) == 0:
		return time.Time{}
	case q.isClosed, q.isFull(), q.isStalled, q.config.Lanes == 1 && !q.mayRead():
		return now
	}
	return q.oldestArrival.Add(q.config.BatchWindow)
}

// hasEnded reports whether all changes that came in are cut, and no more come.
func (q *freshQueue) hasEnded() bool { return q.isClosed && len(q.items) == 0 }

// isFull reports whether no further change can join the next batch.
func (q *freshQueue) isFull() bool {
	if len(q.items) == 0 {
		return false
	}
	resumed := q.items[0].resumedRecord
	return q.batchSize() < len(q.items) || len(q.items) >= q.config.MaxItemsPerInvocation || resumed != nil && len(q.items) >= resumed.Size
}

// batchSize is the number of changes that the next batch takes. A group with a history of an
// earlier owner is a batch of its own.
func (q *freshQueue) batchSize() int {
	limit := q.config.MaxItemsPerInvocation
	if resumed := q.items[0].resumedRecord; resumed != nil {
		limit = min(limit, q.retries.groupLength(resumed, q.items))
	}
	return q.config.batchLength(q.items, limit)
}

// batchLength returns how many of the first changes make a batch of limit changes at most, which is
// one at least.
func (p *BatchPolicy) batchLength(items []*Item, limit int) int {
	bytes := 0
	for i, c := range items {
		if bytes += c.Size(); i > 0 && (i == limit || bytes > p.BatchBytes || c.resumedRecord != nil) {
			return i
		}
	}
	return len(items)
}

// cut takes the next batch. Changes are received until a batch is full, so the others came
// last, unless some were put back: then the others may have waited as long, and wait no more.
func (q *freshQueue) cut() []*Item {
	n := q.batchSize()
	batch := q.items[:n:n]
	if q.items = q.items[n:]; !q.hasWaited {
		q.oldestArrival = q.lastArrival
	}
	return batch
}

// mergeItems merges two lists of changes by their positions. Each list keeps its order.
func mergeItems(a, b []*Item, position func(*Item) int64) []*Item {
	merged := make([]*Item, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if position(b[0]) < position(a[0]) {
			merged, b = append(merged, b[0]), b[1:]
		} else {
			merged, a = append(merged, a[0]), a[1:]
		}
	}
	return append(append(merged, a...), b...)
}

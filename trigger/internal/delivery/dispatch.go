package delivery

import (
	"context"
	"sync"
	"time"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/feed"
)

// Run delivers page after page until pages is closed and everything read is
// finished: then it returns nil. Otherwise it returns why no further delivery may
// begin, and the next owner delivers the rest again. ctx ends when no delivery may
// begin; held ends when a running call must end.
func (d *Delivery) Run(ctx, held context.Context, pages <-chan *feed.Page) error {
	defer d.abandon()
	// What the reader has at this moment comes before what the lanes have stored, so that a
	// simulated run repeats.
	if err := backoff.Sleep(ctx, time.Nanosecond); err != nil {
		return err
	}
	if len(d.lanes) == 1 { // it takes no page during a call
		return d.lanes[0].deliverAll(ctx, held, func(ctx context.Context, over <-chan time.Time) (items []*Item, open bool, err error) {
			open, err = d.dispatchNext(ctx, pages, over)
			return d.inboxes[0].takeAll(), open, err
		})
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if len(pages) > 0 {
		d.dispatchNext(ctx, pages, nil)
	}
	var working sync.WaitGroup
	for i, l := range d.lanes {
		working.Go(func() {
			if err := l.deliverAll(ctx, held, d.inboxes[i].receive); err != nil {
				stop(err)
			}
		})
	}
	for open := true; open; {
		open, _ = d.dispatchNext(ctx, pages, nil)
	}
	for _, inbox := range d.inboxes {
		close(inbox)
	}
	working.Wait()
	return context.Cause(ctx)
}

// dispatchNext passes the changes of the next page to the inboxes of their lanes. Its
// results are those of an itemSource.
func (d *Delivery) dispatchNext(ctx context.Context, pages <-chan *feed.Page, over <-chan time.Time) (open bool, err error) {
	page, open, err := d.nextPage(ctx, pages, over)
	if page == nil {
		return open, err
	}
	if items := d.takePage(page); len(items) > 0 {
		begin, pointers := 0, items[0].inPage.pointers
		for lane, end := range d.sortByLane(items, pointers) {
			if end > begin {
				d.inboxes[lane].put(pointers[begin:end:end])
			}
			begin = end
		}
	}
	d.pagePassed()
	return true, nil
}

// nextPage receives a page as soon as the limits of reading allow.
func (d *Delivery) nextPage(ctx context.Context, pages <-chan *feed.Page, over <-chan time.Time) (page *feed.Page, open bool, err error) {
	for open = true; page == nil && open && err == nil; {
		allowed := pages
		if !d.mayRead() {
			allowed = nil
		}
		page, open, err = receiveNext(ctx, allowed, d.changed, over)
	}
	return page, open, err
}

// sortByLane points at the changes of a page, those of each lane together and in order.
// It returns where the lanes end, until the next call.
func (d *Delivery) sortByLane(items []Item, pointers []*Item) (ends []int) {
	ends = d.laneEnds
	clear(ends)
	for i := range items {
		ends[d.laneOf(&items[i])]++
	}
	begin := 0
	for lane, count := range ends { // it ends where it begins so far
		ends[lane], begin = begin, begin+count
	}
	for i := range items {
		lane := d.laneOf(&items[i])
		pointers[ends[lane]] = &items[i]
		ends[lane]++
	}
	return ends
}

// laneOf returns the lane of a change: equal order keys, equal lane.
func (d *Delivery) laneOf(c *Item) int {
	if len(d.lanes) == 1 {
		return 0
	}
	return int(d.keyOf(c) % uint64(len(d.lanes)))
}

// itemSource receives changes for a lane. It returns open = false when no more come,
// errTimeOver when over fires, and the cause when ctx ends.
type itemSource func(ctx context.Context, over <-chan time.Time) (items []*Item, open bool, err error)

// inbox holds the changes that have come in for a lane, as one value. It has no bound of
// its own: the dispatcher stops reading at the limits of the range, and a lane that is busy
// must not hold up the others.
type inbox chan []*Item

// put adds changes. Only the dispatcher calls it, so there is room for what it has taken
// out. The slice must have no room behind the changes.
func (b inbox) put(items []*Item) {
	if waiting := b.takeAll(); len(waiting) > 0 {
		items = append(waiting, items...)
	}
	b <- items
}

// takeAll takes the changes that have come in.
func (b inbox) takeAll() (items []*Item) {
	select {
	case items = <-b:
	default:
	}
	return items
}

// receive is the itemSource of a lane with a goroutine of its own.
func (b inbox) receive(ctx context.Context, over <-chan time.Time) (items []*Item, open bool, err error) {
	return receiveNext(ctx, b, nil, over)
}

// receiveNext does what an itemSource does with a channel, and returns a zero value when
// changed fires. A value that is there already comes before the end of the time.
func receiveNext[T any](ctx context.Context, values <-chan T, changed <-chan struct{}, over <-chan time.Time) (next T, open bool, err error) {
	select {
	case next, open = <-values:
		return next, open, nil
	default:
	}
	select {
	case next, open = <-values:
		return next, open, nil
	case <-changed:
		return next, true, nil
	case <-over:
		return next, false, errTimeOver
	case <-ctx.Done():
		return next, false, context.Cause(ctx)
	}
}

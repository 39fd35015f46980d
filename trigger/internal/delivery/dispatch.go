package delivery

import (
	"context"
	"errors"
	"slices"
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
	if err := d.begin(ctx); err != nil {
		return err
	}
	return d.deliverPages(ctx, held, pages, false)
}

// ErrAtRest is the result of [Delivery.RunToRest] while there is nothing to do.
var ErrAtRest = errors.New("nothing to deliver")

// RunToRest is Run, except that it returns ErrAtRest as soon as everything read is finished and
// only a further page, the end of pages or that of ctx can change that. Then its caller calls it
// again. With several lanes it does not rest.
func (d *Delivery) RunToRest(ctx, held context.Context, pages <-chan *feed.Page) error {
	err := d.begin(ctx)
	if err == nil {
		err = d.deliverPages(ctx, held, pages, true)
	}
	if !errors.Is(err, ErrAtRest) {
		d.abandon()
	}
	return err
}

// begin waits for a nanosecond before the first run: what the reader has at this moment comes before
// what the lanes have stored, so that a simulated run repeats.
func (d *Delivery) begin(ctx context.Context) error {
	if d.hasBegun {
		return context.Cause(ctx)
	}
	d.hasBegun = true
	return backoff.Sleep(ctx, time.Nanosecond)
}

func (d *Delivery) deliverPages(ctx, held context.Context, pages <-chan *feed.Page, mayRest bool) error {
	if len(d.lanes) == 1 { // it takes no page during a call
		return d.lanes[0].deliverAll(ctx, held, func(ctx context.Context, timeout <-chan time.Time) (items []*Item, open bool, err error) {
			if mayRest && timeout == nil && d.isAtRest(pages) {
				return nil, true, ErrAtRest
			}
			open, err = d.dispatchNext(ctx, pages, timeout)
			return d.lanes[0].inbox.takeAll(), open, err
		})
	}
	owned := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if len(pages) > 0 {
		d.dispatchNext(ctx, pages, nil)
	}
	var working sync.WaitGroup
	for _, l := range d.lanes {
		working.Go(func() {
			if err := l.deliverAll(ctx, held, l.inbox.receive); err != nil {
				stop(err)
			}
		})
	}
	for open := true; open; {
		open, _ = d.dispatchNext(ctx, pages, nil)
	}
	for _, l := range d.lanes {
		close(l.inbox)
	}
	working.Wait()
	if err := context.Cause(ctx); !errors.Is(err, ErrLeftAside) {
		return err
	}
	return d.leaveAsideChanges(owned)
}

// isAtRest reports whether there is nothing to do before a further page comes.
func (d *Delivery) isAtRest(pages <-chan *feed.Page) bool {
	return len(pages) == 0 && d.untaken.page == nil && d.mayRead() && d.progress.allFinished()
}

// leaveAsideChanges makes room in the store for the oldest waiting keys of several lanes, which
// have ended, if the next owner would otherwise read too much again.
func (d *Delivery) leaveAsideChanges(ctx context.Context) error {
	for isMade := true; isMade; {
		isMade = false
		for _, l := range d.lanes {
			hasRoom, err := l.makeRoom(ctx, time.Now(), true)
			if err != nil {
				return err
			}
			l.noteRetryDue()
			isMade = isMade || hasRoom
		}
	}
	if d.progress.allFinished() {
		return nil
	}
	return ErrLeftAside
}

// dispatchNext takes the next part of the page that it has received, or receives one, as soon as
// the limits of reading allow, and passes its changes to the inboxes of their lanes. Its results
// are those of an itemSource.
func (d *Delivery) dispatchNext(ctx context.Context, pages <-chan *feed.Page, timeout <-chan time.Time) (open bool, err error) {
	room := 0
	for room == 0 || d.untaken.page == nil {
		allowed, end := pages, timeout
		room = d.readRoom()
		mayRead := room > 0
		d.pauseReading(ctx, !mayRead)
		if mayRead {
			d.stalled.Store(false)
		} else if allowed = nil; len(d.lanes) > 1 && d.allAtRest() {
			end = d.settled()
		}
		if mayRead && d.untaken.page != nil {
			break
		}
		page, open, err := receiveNext(ctx, allowed, d.changed, end)
		switch {
		case page != nil:
			d.receivePage(page)
		case err != nil && timeout == nil && errors.Is(err, errTimeOver):
			d.stallLanes(ctx)
		case !open:
			return false, err
		}
	}
	d.fillInboxes(d.takePart(room))
	d.partPassed()
	return true, nil
}

// pauseReading notes whether the limits of reading hold.
func (d *Delivery) pauseReading(ctx context.Context, isPaused bool) {
	if !isPaused && d.paused.Load() && len(d.lanes) > 1 {
		_ = backoff.Sleep(ctx, time.Microsecond) // lanes first use what they have, so that a simulated run repeats
	}
	d.paused.Store(isPaused)
}

// fillInboxes passes changes of a page to the inboxes of their lanes.
func (d *Delivery) fillInboxes(items []Item) {
	if len(items) == 0 {
		return
	}
	begin, pointers := 0, items[0].inPage.pointers
	for lane, end := range d.sortByLane(items, pointers) {
		if end > begin {
			d.lanes[lane].inbox.put(pointers[begin:end:end])
		}
		begin = end
	}
}

// sortByLane points at the changes of a page, those of each lane together and in order.
// It returns where the lanes end, until the next call.
func (d *Delivery) sortByLane(items []Item, pointers []*Item) (ends []int) {
	ends = d.laneEnds
	clear(ends)
	for i := range items {
		if next := d.laneOf(&items[i]) + 1; next < len(ends) {
			ends[next]++
		}
	}
	for lane := 1; lane < len(ends); lane++ {
		ends[lane] += ends[lane-1]
	}
	for i := range items { // a lane's end is its beginning so far
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

// settleTime is how long all lanes must have rested: they have then taken in the changes that
// were dispatched to them.
const settleTime = time.Millisecond

// settled returns a channel that receives after settleTime, until the next call. Pages that are
// larger than the limits pause reading often, so the timer is used again.
func (d *Delivery) settled() <-chan time.Time {
	if d.settling == nil {
		d.settling = time.NewTimer(settleTime)
	} else {
		d.settling.Reset(settleTime)
	}
	return d.settling.C
}

// stallLanes tells several lanes that a limit has stopped reading while none of them is at
// work that could clear it. Their batches wait for no further changes then:
//
//  1. MaxAhead is 5. Two lanes have got five changes, which fill no batch.
//  2. No call runs. The five changes would wait for their whole window, and with them all
//     changes that have not been read.
//
// While a call runs its end may clear the limit, and the batches of other lanes wait as usual.
func (d *Delivery) stallLanes(ctx context.Context) {
	if !d.allAtRest() || slices.ContainsFunc(d.lanes, func(l *lane) bool { return len(l.inbox) > 0 }) {
		return // the lane that takes them in rests again afterwards
	}
	d.stalled.Store(true)
	for _, l := range d.lanes {
		l.inbox.put(nil)
		_ = backoff.Sleep(ctx, time.Microsecond) // lanes get an order, so that a simulated run repeats
	}
}

// allAtRest reports whether all lanes wait for work and do not know that reading has stalled.
func (s *laneShared) allAtRest() bool {
	return !s.stalled.Load() && s.lanesAtRest.Load() == int64(s.config.Lanes)
}

// rest is called when a lane begins to wait for work.
func (s *laneShared) rest() {
	if s.lanesAtRest.Add(1) == int64(s.config.Lanes) && s.paused.Load() && s.config.Lanes > 1 {
		s.notifyChange()
	}
}

// itemSource receives changes for a lane, or none if reading has stalled. It returns
// open = false when no more come, errTimeOver when timeout fires, and the cause when ctx ends.
type itemSource func(ctx context.Context, timeout <-chan time.Time) (items []*Item, open bool, err error)

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
func (b inbox) receive(ctx context.Context, timeout <-chan time.Time) (items []*Item, open bool, err error) {
	items, open, err = receiveNext(ctx, b, nil, timeout)
	if err != nil && ctx.Err() == nil { // changes that come in at this moment are before its end
		if items = b.takeAll(); len(items) > 0 {
			return items, true, nil
		}
	}
	return items, open, err
}

// receiveNext does what an itemSource does with a channel, and returns a zero value when
// changed fires. A value that is there already comes before the end of the time.
func receiveNext[T any](ctx context.Context, values <-chan T, changed <-chan struct{}, timeout <-chan time.Time) (value T, open bool, err error) {
	select {
	case value, open = <-values:
		return value, open, nil
	default:
	}
	select {
	case value, open = <-values:
		return value, open, nil
	case <-changed:
		return value, true, nil
	case <-timeout:
		return value, false, errTimeOver
	case <-ctx.Done():
		return value, false, context.Cause(ctx)
	}
}

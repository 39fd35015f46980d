// Package delivery delivers the changes of one leased range: it spreads them over
// lanes, calls the handler with batches, retries, isolates and dead-letters what
// fails, and finds the acknowledged prefix that a checkpoint may hold.
//
// It knows no lease, no client and no logger: its worker fills in [Calls] and
// [Store]. The way of a change through the package:
//
//	page → dispatch → lane → batch → Calls.Handle → Verdict → Decide → finish → acknowledged prefix → Calls.Advance
//
// The retry policy is one pure function, [Decide]. Crash isolation is a protocol
// of its own, in isolation.go.
//
// # Goroutines and locks
//
// The goroutine that calls [Delivery.Run] dispatches. With one lane it runs the
// lane itself; with more it starts one goroutine for each and waits for them. Lanes
// share the progress, the retry records, the blocked keys and the breaker; each of
// these has a lock of its own. Calls.Advance is called under the lock of the
// progress, so that positions reach the lease's writer in order; the writer's lock
// is the only one that may be taken under it.
package delivery

import (
	"context"
	"sync"
	"time"

	"halley/trigger/internal/feed"
)

// Config is the part of a function's settings that delivery follows, with the
// defaults filled in, and the state of the lease as acquired.
type Config struct {
	Policy
	Lanes       int  // ordered queues of the range
	LanesByID   bool // keep the order per document only
	BatchItems  int  // changes in a batch at most
	BatchBytes  int  // bytes in a batch at most; a single change may be larger
	BatchWindow time.Duration
	BlockKeys   bool // later changes of a dead-lettered change's key follow it
	Checkpoint  Checkpoint

	MergedRange   bool   // the lease covers a part of a physical range: LSNs do not name positions in it
	Continuation  string // of the lease as acquired
	SavedRetries  string // saved by the previous owner, see [Delivery.RetryProperty]
	StartIsolated bool   // two owners in a row ended without releasing the lease, see isolation.go
	SuspectSlot   chan struct{}
	KeyPaths      []string // partition key paths of the container
}

// Calls are what delivery asks of its worker. All are required, and all but Handle
// return quickly.
type Calls struct {
	// CallHandler calls the handler once and returns its verdict. ctx ends when the
	// lease is lost or the grace of a stop is over.
	CallHandler func(ctx context.Context, lane int, items []*Item, attempt int) Verdict
	// WaitTrusted returns once a delivery may begin, or the reason why none may.
	WaitTrusted func(ctx context.Context) error
	// ConfirmOwnership returns after a lease write that started after the call has succeeded.
	ConfirmOwnership func(ctx context.Context) error
	// StoredPosition is the continuation that the stored lease holds.
	StoredPosition func() string
	// AdvancePosition says that everything up to the position is handled. urgent asks for
	// a write soon; otherwise it goes with the next renewal.
	AdvancePosition func(position string, urgent bool)
	// MadeProgress says that a page with changes is finished.
	MadeProgress func()
	// ReleasePage takes back a page whose bytes are not needed any more.
	ReleasePage func(page *feed.Page)
	// DeadLettered is told of each change that is durable in the store.
	DeadLettered func(lane int, item *Item, l DeadLetter)
	// ReportProblem says why a lane, or the range as a whole (AllLanes), makes no progress.
	ReportProblem func(lane int, err error)
	// ServiceNow is the service's clock.
	ServiceNow func() time.Time
}

// AllLanes stands for the range as a whole in [Calls].
const AllLanes = -1

// Item is a change on its way through the delivery of its range. Its bytes are
// those of the page, which is kept until the change is finished.
type Item struct {
	feed.Change
	Seq int64 // counts the changes that this owner has read, from 1

	inPage        *openPage
	pageIndex     int          // in its page
	resumedRecord *retryRecord // history of a group of an earlier owner that begins here, or nil
}

// Delivery delivers the changes of one leased range, from its acquisition to its
// release. One worker owns it.
type Delivery struct {
	*laneShared
	isolation isolation
	lanes     []*lane
}

// New returns a delivery. A nil store means that the function has none.
func New(c Config, calls Calls, store *Store) *Delivery {
	if store == nil {
		c.DeadLetters, c.BlockKeys = false, false
	} else {
		c.DeadLetters = true
	}
	shared := &laneShared{
		config: c, calls: calls, deadLetters: store,
		progress:    newProgress(c.Checkpoint, calls.AdvancePosition, c.MergedRange),
		retries:     &retryRecords{serviceNow: calls.ServiceNow},
		blockedKeys: &blockedKeys{},
		breaker:     &breaker{},
	}
	shared.retries.loadProperty(c.SavedRetries)
	d := &Delivery{laneShared: shared, isolation: isolation{
		isActive: c.StartIsolated, suspectSlot: c.SuspectSlot, confirmOwnership: calls.ConfirmOwnership, retries: shared.retries, jitterKey: c.JitterKey,
	}}
	for i := range c.Lanes {
		d.lanes = append(d.lanes, &lane{laneShared: shared, laneIndex: i})
	}
	return d
}

// Run delivers page after page until pages is closed and everything read is
// finished: then it returns nil. Otherwise it returns why no further delivery may
// begin, and the next owner delivers the rest again. ctx ends when no delivery may
// begin; held ends when a running call must end.
func (d *Delivery) Run(ctx, held context.Context, pages <-chan *feed.Page) error {
	defer d.abandonPages()
	if err := d.runIsolated(ctx, held, pages); err != nil {
		return err
	}
	if len(d.lanes) == 1 {
		return d.lanes[0].deliverAll(ctx, held, d.fromPages(pages))
	}
	return d.runLanes(ctx, held, pages)
}

// runIsolated delivers one change per call while the range is suspected to hold
// one that ends the process.
func (d *Delivery) runIsolated(ctx, held context.Context, pages <-chan *feed.Page) error {
	for d.isolation.isActive {
		select {
		case page, open := <-pages:
			if !open {
				return context.Cause(ctx)
			}
			items := d.takePage(page)
			for i := range items {
				l := d.lanes[d.laneOf(&items[i])]
				if err := l.finishSuspect(ctx, held, &items[i], &d.isolation); err != nil {
					return err
				}
			}
			if err := d.afterIsolatedPage(ctx, len(items)); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// afterIsolatedPage ends the isolation when the lease holds a newer position.
// The lease must say that the page is finished before the next page is delivered
// otherwise: its last change would be taken for the crasher if this owner ends,
// and the real one would never be found.
func (d *Delivery) afterIsolatedPage(ctx context.Context, changes int) error {
	if changes == 0 {
		return nil
	}
	if err := d.calls.ConfirmOwnership(ctx); err != nil {
		return err
	}
	d.isolation.isActive = d.calls.StoredPosition() == d.config.Continuation
	return nil
}

// runLanes runs each lane in a goroutine of its own and dispatches to them.
func (d *Delivery) runLanes(ctx, held context.Context, pages <-chan *feed.Page) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	incoming := make([]chan []*Item, len(d.lanes))
	var working sync.WaitGroup
	for i, l := range d.lanes {
		incoming[i] = make(chan []*Item, 1)
		working.Go(func() {
			if err := l.deliverAll(ctx, held, fromLane(incoming[i])); err != nil {
				stop(err)
			}
		})
	}
	for d.dispatchNext(ctx, incoming, pages) {
	}
	for _, lane := range incoming {
		close(lane)
	}
	working.Wait()
	return context.Cause(ctx)
}

// dispatchNext hands the changes of one page to their lanes. It returns false if
// there are no more pages or ctx ended.
func (d *Delivery) dispatchNext(ctx context.Context, incoming []chan []*Item, pages <-chan *feed.Page) bool {
	var items []Item
	select {
	case page, open := <-pages:
		if !open {
			return false
		}
		items = d.takePage(page)
	case <-ctx.Done():
		return false
	}
	shares := make([][]*Item, len(incoming))
	for i := range items {
		at := d.laneOf(&items[i])
		shares[at] = append(shares[at], &items[i])
	}
	for i, share := range shares {
		if len(share) == 0 {
			continue
		}
		select {
		case incoming[i] <- share:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// laneOf returns the lane of a change: equal order keys, equal lane.
func (d *Delivery) laneOf(c *Item) int {
	if len(d.lanes) == 1 {
		return 0
	}
	return int(c.OrderKey(d.config.LanesByID) % uint32(len(d.lanes)))
}

// itemSource receives changes for a lane. It returns open = false when no more come,
// errWindowOver when over fires, and the cause when ctx ends.
type itemSource func(ctx context.Context, over <-chan time.Time) (items []*Item, open bool, err error)

// fromPages feeds a single lane with whole pages.
func (d *Delivery) fromPages(pages <-chan *feed.Page) itemSource {
	return func(ctx context.Context, over <-chan time.Time) ([]*Item, bool, error) {
		page, open, err := receiveNext(ctx, pages, over)
		if err != nil || !open {
			return nil, open, err
		}
		items := d.takePage(page)
		all := make([]*Item, len(items))
		for i := range items {
			all[i] = &items[i]
		}
		return all, true, nil
	}
}

// fromLane feeds one of several lanes with its share of each page.
func fromLane(incoming <-chan []*Item) itemSource {
	return func(ctx context.Context, over <-chan time.Time) ([]*Item, bool, error) {
		return receiveNext(ctx, incoming, over)
	}
}

// receiveNext takes the next value. A value that is there already comes before the
// end of the window.
func receiveNext[T any](ctx context.Context, from <-chan T, over <-chan time.Time) (v T, open bool, err error) {
	select {
	case v, open = <-from:
		return v, open, nil
	default:
	}
	select {
	case v, open = <-from:
		return v, open, nil
	case <-over:
		return v, true, errWindowOver
	case <-ctx.Done():
		return v, true, context.Cause(ctx)
	}
}

// LoadBlockedKeys reads which keys earlier owners have blocked. It returns once the
// store has answered, or the cause when ctx ends.
func (d *Delivery) LoadBlockedKeys(ctx context.Context) error {
	if !d.config.BlockKeys {
		return nil
	}
	return d.untilStored(ctx, AllLanes, func() error { return d.blockedKeys.loadKeys(ctx, d.deadLetters, d.calls) })
}

// RetryProperty is the failure history of the range for the next owner, or "" if
// there is none. The lease's writer calls it at each write.
func (d *Delivery) RetryProperty() string { return d.retries.encodeProperty() }

// ClearSuspect removes this owner's crash mark from the change that it last
// delivered in isolation: the owner is releasing the lease in good order. It is
// called after Run has returned.
func (d *Delivery) ClearSuspect() { d.retries.clearCrash(d.isolation.suspectName) }

// OldestUnfinished returns LSN and time (Unix seconds) of the first change that is read and
// not finished.
func (d *Delivery) OldestUnfinished() (lsn, timestamp int64, ok bool) {
	return d.progress.oldestUnfinished()
}

package trigger

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// retriesProperty is the lease property with the failure history of a range, see
// delivery.RetryState.
const retriesProperty = "halley.retries"

// worker works on one leased range: it joins the lease, the feed and the delivery.
// It lives from the acquisition of the lease to its release. The goroutine that
// calls run delivers; run starts one that reads, one that writes the lease and one
// that watches for reasons to stop, and waits for them.
type worker struct {
	process  *process
	function Function
	leases   *lease.Set
	source   *feed.Source
	held     *lease.Held
	delivery *delivery.Delivery
	stats    *rangeStats
	reserved feed.Reserved
	log      *zap.Logger
	emit     func(Event)

	superseded bool          // other leases have taken the lease's place: retire it unread
	drain      bool          // end when caught up, instead of polling
	first      *cosmos.Page  // read before the lease was acquired, or nil
	timeout    time.Duration // of a handler call

	end context.CancelCauseFunc // ends everything; set by run
}

// newWorker puts the parts of a worker together.
func newWorker(p *process, f Function, leases *lease.Set, source *feed.Source, held *lease.Held, log *zap.Logger, emit func(Event)) *worker {
	l := held.Lease()
	w := &worker{
		process: p, function: f, leases: leases, source: source, held: held, timeout: f.HandlerTimeout,
		log: log.With(zap.String("range", l.Token()), zap.Int64("epoch", held.Epoch())), emit: emit,
	}
	w.stats = newRangeStats(l, w.unfinished)
	w.delivery = delivery.New(w.deliveryConfig(), delivery.Calls{
		Handle: w.handle, WaitTrusted: held.WaitTrusted, Confirm: held.ConfirmOwnership,
		Position: held.Position, Advance: held.Advance, MadeProgress: held.MadeProgress,
		Released: w.released, DeadLettered: w.deadLettered, Problem: w.problem, Now: leases.Now,
	}, w.deadLetterStore())
	held.SetProperty(retriesProperty, w.delivery.RetryProperty)
	held.OnCheckpoint = func(continuation string) {
		w.emit(Event{Kind: Checkpointed, Range: l.Token(), Epoch: held.Epoch(), Continuation: continuation})
	}
	return w
}

func (w *worker) deliveryConfig() delivery.Config {
	f, l := &w.function, w.held.Lease()
	return delivery.Config{
		Policy: delivery.Policy{
			MaxAttempts: f.MaxAttempts, RetryMaxAge: f.RetryMaxAge, RetryMin: f.RetryMin, RetryMax: f.RetryMax, NoBisection: f.NoBisection,
			BreakerLimit: f.BreakerLimit, BreakerPause: f.BreakerPause, HungAfter: w.process.opts.StuckGrace, JitterKey: w.jitterKey(),
		},
		Lanes: f.Lanes, LanesByID: f.LanesByID, BatchItems: f.BatchItems, BatchBytes: f.BatchBytes, BatchWindow: f.BatchWindow,
		BlockKeys: f.BlockKeys, Checkpoint: delivery.Checkpoint(f.Checkpoint),
		Merged: l.ByKeys(), Continuation: l.Continuation(), Retries: l.Property(retriesProperty),
		Isolated: l.UncleanExits() > 1, SuspectSlot: w.process.suspectSlot, KeyPaths: w.leases.Monitored().PartitionKey.Paths,
	}
}

// jitterKey spreads the waits of hosts and ranges.
func (w *worker) jitterKey() []any { return []any{w.process.opts.Owner, w.held.Lease().Token()} }

// run works until the range is lost, gone or caught up, or ctx ends. When it
// returns, everything that it started has stopped and the lease is given back. It
// returns the reason why it ended.
//
// Two contexts are at work. reading ends with ctx or a handover request: after it
// no page is read and no delivery begins. held outlives it by the grace that a
// running handler has to finish, and ends at once when the lease is lost.
func (w *worker) run(ctx context.Context) error {
	held, end := context.WithCancelCause(context.WithoutCancel(ctx))
	reading, stopReading := context.WithCancelCause(held)
	w.end = end
	if ctx.Err() != nil { // before the watcher sees it
		stopReading(errStopping)
	}
	w.opened()

	var watcher, writer, reader sync.WaitGroup
	watcher.Go(func() { w.watch(ctx, held, stopReading) })
	stopWriting := make(chan struct{})
	writer.Go(func() { w.held.Run(held, stopWriting) })
	pages := make(chan *feed.Page, 1)
	var readErr error
	reader.Go(func() {
		defer close(pages)
		if readErr = w.delivery.LoadBlockedKeys(reading); readErr == nil {
			readErr = w.reader().Run(reading, pages)
		}
	})

	err := w.delivery.Run(reading, held, pages)
	if err != nil {
		stopReading(err)
	}
	for page := range pages { // read, but not delivered
		w.released(page)
	}
	reader.Wait()
	if err == nil {
		err = readErr
	}
	var children []*lease.Lease
	if errors.Is(err, lease.ErrSplit) {
		children, err = w.held.Split(reading, held, func(err error) { w.problem(delivery.AllLanes, err) })
	}
	close(stopWriting)
	writer.Wait()
	if loss := w.held.Err(); loss != nil {
		err = loss
	}
	end(errStopping)
	watcher.Wait()
	return w.conclude(ctx, err, children)
}

// watch ends reading when ctx ends or another host requests the lease, and
// everything when the lease is lost or the grace after ctx is over.
func (w *worker) watch(ctx, held context.Context, stopReading context.CancelCauseFunc) {
	stop, requested := ctx.Done(), w.held.HandoverRequested()
	var grace <-chan time.Time
	for {
		select {
		case <-stop:
			stopReading(errStopping)
			timer := time.NewTimer(w.process.opts.StopGrace)
			defer timer.Stop()
			stop, grace = nil, timer.C
		case <-requested:
			stopReading(errHandedOver)
			requested = nil
		case <-grace:
			w.end(errStopping)
			return
		case <-w.held.Lost():
			w.end(w.held.Err())
			return
		case <-held.Done():
			return
		}
	}
}

// opened tells the function that this host works on the range.
func (w *worker) opened() {
	if w.function.Opened != nil {
		guard(w.log, "Opened", func() { w.function.Opened(w.info()) })
	}
}

func (w *worker) info() RangeInfo {
	return RangeInfo{Function: w.function.Name, Range: w.rangeOf(), Epoch: w.held.Epoch(), Continuation: w.held.Position()}
}

// rangeOf is the leased span as handlers see it.
func (w *worker) rangeOf() cosmos.Range {
	l := w.held.Lease()
	return cosmos.Range{ID: l.Token(), Min: l.Span().Min, Max: l.Span().Max}
}

// conclude decides about the lease: it is retired in favour of its children, it is
// released, or it is another owner's already. It returns why the worker ended.
func (w *worker) conclude(ctx context.Context, err error, children []*lease.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.process.opts.StopGrace)
	defer cancel()
	switch {
	case errors.Is(err, lease.ErrLost):
	case children != nil, errors.Is(err, errSuperseded):
		w.retire(ctx, children)
		err = lease.ErrSplit
	default:
		w.delivery.ClearSuspect()
		if err := w.held.Release(ctx); err != nil {
			w.log.Warn("could not release lease; it will expire", zap.Error(err))
		}
	}
	reason, cause := reasonOf(err), err
	if reason.good() {
		cause = nil
	}
	w.emit(Event{
		Kind: Released, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Continuation: w.held.Position(), Reason: reason, Err: cause,
	})
	if w.function.Closed != nil {
		guard(w.log, "Closed", func() { w.function.Closed(w.info(), reason, cause) })
	}
	return err
}

func (w *worker) retire(ctx context.Context, children []*lease.Lease) {
	event := Event{Kind: Split, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Continuation: w.held.Retire(ctx)}
	for _, c := range children {
		event.Children = append(event.Children, c.Token())
	}
	w.emit(event)
}

// released takes back a page whose changes are finished, or will not be delivered.
func (w *worker) released(page *feed.Page) {
	if w.function.ReuseBuffers && w.stats.hasHungCall() {
		w.process.budget.Forget(page, &w.reserved) // the call that was left behind may still read the bytes
		return
	}
	w.process.budget.Release(page, &w.reserved)
}

package trigger

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
	"halley/trigger/internal/lease"
	"halley/trigger/internal/schedule"
	"halley/trigger/stall"
)

// rangeWorker works on one leased range: it joins the lease, the feed and the delivery.
// It lives from the acquisition of the lease to its release. The goroutine that
// calls workRange, or the task that startWork begins, delivers; it starts a task that reads and one
// that writes the lease, and waits for them.
type rangeWorker struct {
	host          *hostState
	function      *Function
	passes        filterTest
	leases        *lease.Set
	feedSource    *feed.Source
	feedOrigin    atomic.Pointer[changeOrigin] // of changes without metadata
	held          *lease.Held
	rangeDelivery *delivery.Delivery
	rangeStats    *rangeStats
	reservedBytes *feed.ReservedBytes // set by beginWork if it is nil
	sharesFrom    time.Time           // see lastOwned
	log           *slog.Logger
	emitEvent     func(Event)
	noteAnswer    func(use accountUse, err error) // of an account

	rateLimit, readLimit *limiter // of the function

	deadLetterLists *deadLetterLists // of the function
	listsBefore     int64            // a later list has the dead letters of earlier owners; for the reader

	toldNoPostponing *atomic.Bool // of the function: the log has told that it has no store
	toldUnknownForm  *atomic.Bool // of the function: the log has told of changes whose form is not known
	softDeletes      *softDeletes // of the function
	readUpTo         atomic.Int64 // when the newest change that was read was written, Unix seconds; 0 if nothing follows it

	seenPause     *lease.Pause           // why an operator ended the work; valid once held.Stop has returned
	readsSnapshot bool                   // see snapshot.go
	snapshotText  atomic.Pointer[string] // lease.SnapshotProperty of the next write

	superseded  bool          // other leases have taken the lease's place: retire it unread
	drain       bool          // end when caught up, instead of polling
	firstPage   *cosmos.Page  // read before the lease was acquired, or nil
	callTimeout time.Duration // of a handler call
	stop        *stopBudget

	runningCalls  runningCalls
	callsAnswered atomic.Int64 // calls that have returned, see Batch.Checkpoint
	callbackRuns  bool         // Function.Opened, Flush or SnapshotRead was left behind
	storePut      atomic.Int64 // when a change was last put into the dead letter store, Unix nanoseconds on the local clock; 0 if this owner has put none
	removeErr     error        // why Function.SnapshotRead has failed, or nil; likewise
	flushErr      error        // why Function.Flush has failed, or nil; valid once workRange has returned

	located        feed.Target // by the ranges of locatedVersion; see locateRange
	locatedVersion int64       // 0 is none

	kept         atomic.Pointer[keptFeed] // see feedregion.go; nil if nothing is known
	refusedReads int                      // in a row, by the service; for the reader
	resume       *resumption              // valid once the work has ended with errFeedFailedOver or errPositionLost

	confirmedFailovers atomic.Int64 // of the lease container when the lease was last confirmed, see WaitTrusted

	endWork context.CancelCauseFunc // ends everything; set by beginWork
	caller  context.Context         // of the work
}

// newWorker puts the parts of a worker together.
func (r *functionRunner) newWorker(held *lease.Held, stop *stopBudget) *rangeWorker {
	l := held.Lease()
	w := &rangeWorker{
		host: r.host, function: &r.function, passes: r.passes, leases: r.leases, feedSource: r.sourceOf(l), held: held,
		callTimeout: r.function.HandlerTimeout, stop: stop, rateLimit: r.rateLimit, readLimit: r.readLimit,
		log: r.log.With(slog.String("range", l.Token()), slog.Int64("epoch", held.Epoch())), emitEvent: r.emitEvent,
		toldNoPostponing: &r.toldNoPostponing, toldUnknownForm: &r.toldUnknownForm, softDeletes: r.softDeletes,
	}
	if w.readsSnapshot = readsSnapshot(l, r.feedSource.Start); w.readsSnapshot {
		w.feedSource = r.feedSource.ForSnapshot()
	}
	w.setSnapshot(l.Property(lease.SnapshotProperty))
	w.setGeneration(savedGeneration(l))
	w.rangeStats = newRangeStats(l, w.function, w.leases.Now)
	w.rangeStats.writeProblem, w.rangeStats.expiryError, w.rangeStats.report = held.WriteProblem, w.expiryError, w.reportStall
	w.rangeDelivery = delivery.New(w.deliveryConfig(), w, newDeliveryStore(w))
	w.rangeStats.pending = w.rangeDelivery.Pending
	w.rangeStats.unfinished, w.rangeStats.keyCounts, w.rangeStats.postponedKeys = w.rangeDelivery.OldestUnfinished, w.rangeDelivery.KeyCounts, w.rangeDelivery.PostponedKeys
	held.Snapshot = w.rangeDelivery.Snapshot
	held.OnWrite = func(err error) {
		w.rangeStats.leaseWritten(err)
		r.noteAnswer(useLeases, err)
	}
	w.noteAnswer = r.noteAnswer
	held.Properties = func(set func(name, value string)) {
		set(statusProperty, w.rangeStats.property())
		set(lease.RetriesProperty, w.rangeDelivery.RetryProperty())
		set(postponedProperty, w.postponedProperty())
		set(readAheadProperty, w.readAheadProperty())
		set(pageItemsProperty, w.pageItemsProperty())
		set(unitsProperty, r.measuredUnits().String())
		set(lease.SnapshotProperty, w.snapshotProperty())
		set(lease.GenerationProperty, w.generationProperty())
		set(lease.KeptProperty, w.keptProperty())
	}
	w.kept.Store(parseKept(l.Property(lease.KeptProperty)))
	held.RunningUntil, held.OnReleased = w.runningCalls.latestEnd, r.balanceSoon
	held.OnCheckpoint = func(continuation string) {
		w.emitEvent(Event{Kind: EventCheckpointed, Range: l.Token(), Epoch: held.Epoch(), Continuation: continuation})
	}
	return w
}

func (w *rangeWorker) deliveryConfig() delivery.Config {
	f, l := w.function, w.held.Lease()
	return delivery.Config{
		Policy: delivery.Policy{
			RetryPolicy: delivery.RetryPolicy(f.RetryPolicy), GiveUpPolicy: delivery.GiveUpPolicy(f.GiveUpPolicy),
			HungAfter: w.host.options.StuckGrace, JitterKey: w.jitterKey(),
		},
		BatchPolicy: delivery.BatchPolicy(f.BatchPolicy), Checkpoint: delivery.Checkpoint(f.Checkpoint), Passes: w.passes, FirstOrder: l.Epoch() << ordersOfEpoch,
		MergedRange: l.ByKeys(), Continuation: l.Continuation(), FirstItems: savedPageItems(l), ReadAhead: parseReadAhead(l.Property(readAheadProperty), l.Token(), l.Epoch(), l.Continuation()), SavedRetries: l.Property(lease.RetriesProperty),
		Finished: f.finishedBinding(l, l.Epoch()), SavedFinished: l.Property(finished.Property),
		LeavesRetention: w.leavesRetention, Announce: l.UncleanExits() > 0, SuspectSlot: w.host.suspectSlot, KeyPaths: w.leases.Monitored().PartitionKey.Paths,
	}
}

// expiryError returns why changes may be lost soon, because the range is late.
func (w *rangeWorker) expiryError() error {
	return errors.Join(w.oldestUnfinished(), w.softDeleteError())
}

// jitterKey spreads the waits of hosts and ranges.
func (w *rangeWorker) jitterKey() []any { return []any{w.host.options.Owner, w.held.Lease().Token()} }

// workRange works until the range is lost, gone or caught up, or ctx ends. When it
// returns, everything that it started has stopped and the lease is given back. It
// returns the reason why it ended.
func (w *rangeWorker) workRange(ctx context.Context) error {
	work := w.beginWork(ctx, nil)
	return work.end(w.rangeDelivery.Run(work.reading, work.owned, work.pages))
}

// startWork is workRange as a task: a range that has nothing to do has no goroutine. When the work
// has ended, the task calls ended with the reason.
func (w *rangeWorker) startWork(ctx context.Context, ended func(error)) {
	var task *schedule.Task
	var work *rangeWork
	task = w.host.tasks.NewTask(func() (wait time.Duration, continues bool) {
		if work == nil {
			work = w.beginWork(ctx, task)
		}
		err := w.rangeDelivery.RunToRest(work.reading, work.owned, work.pages)
		if errors.Is(err, delivery.ErrAtRest) {
			return schedule.Never, true
		}
		ended(work.end(err))
		return 0, false
	})
	task.Start()
}

// rangeWork is the work of a worker from its beginning to its end.
//
// Two contexts are at work. reading ends with that of the caller or a handover request: after it
// no page is read and no delivery begins. It is also the context of Function.Opened,
// before whose end no delivery begins. owned outlives it by the time that a
// stop leaves to running handlers, and ends at once when the lease is lost.
type rangeWork struct {
	*rangeWorker
	reading, owned context.Context
	stopReading    context.CancelCauseFunc
	forgetCaller   func()
	delivering     *schedule.Task // nil if a goroutine waits for pages
	reader         *schedule.Task
	pages          chan *feed.Page
	readErr        error // why reading has ended or could not begin; valid once pages is closed
	joinsBudget    bool  // and leaves it at the end
}

// beginWork starts to read the range and to write its lease, and returns when delivery may begin.
// delivering is the task that calls it, or nil.
func (w *rangeWorker) beginWork(ctx context.Context, delivering *schedule.Task) *rangeWork {
	work := &rangeWork{rangeWorker: w, delivering: delivering, pages: make(chan *feed.Page, 1)}
	if work.joinsBudget = w.reservedBytes == nil; work.joinsBudget {
		w.reservedBytes = w.host.pageBudget.Join(append(w.jitterKey(), w.function.Name)...)
		w.host.pageBudget.ShareFrom(w.reservedBytes, w.sharesFrom)
	}
	work.reader = work.newReadTask()
	var endOwned, endReading context.CancelCauseFunc
	work.owned, endOwned = context.WithCancelCause(w.stop.calls)
	work.reading, endReading = context.WithCancelCause(context.WithoutCancel(ctx))
	work.stopReading = func(cause error) {
		endReading(cause)
		work.reader.Hurry()
		if delivering != nil {
			delivering.Hurry()
		}
	}
	w.caller, w.endWork = ctx, func(cause error) {
		endOwned(cause)
		work.stopReading(cause)
	}
	work.forgetCaller = onEnd(ctx, func() { work.stopReading(errStopping) })
	w.held.OnLoss, w.held.RenewalMoment = w.endWork, w.host.renewalMoment
	w.held.OnReleaseRequest = func(pause *lease.Pause) {
		if w.seenPause = pause; pause != nil {
			work.stopReading(errPaused)
		} else {
			work.stopReading(errHandedOver)
		}
	}
	w.held.Start(w.stop.calls, w.host.writes)
	opened := w.beginOpened(work.reading)
	work.readErr = w.rangeDelivery.LoadStored(work.reading)
	work.reader.Start()
	w.awaitOpened(work.reading, opened)
	return work
}

// newReadTask returns the task that reads the feed, unless earlier work has failed.
func (w *rangeWork) newReadTask() *schedule.Task {
	reader := w.newReader(w.wakeDelivery)
	return w.host.reads.NewTask(func() (wait time.Duration, continues bool) {
		if w.readErr != nil {
			reader.Discard()
		} else if wait, w.readErr = reader.Step(w.reading, w.pages); w.readErr == nil {
			return wait, true
		}
		w.noteAnswer(useFeed, w.readErr)
		if isReadToEnd(w.readErr) {
			w.rangeDelivery.AllRead()
		} else { // the next owner reads on: a failing key must not delay the others
			w.rangeDelivery.LeaveAsideAt(time.Now())
		}
		close(w.pages)
		w.wakeDelivery()
		return 0, false
	})
}

// wakeDelivery has a delivery that rests take what has been read.
func (w *rangeWork) wakeDelivery() {
	if w.delivering != nil {
		w.delivering.DueBy(time.Now())
	}
}

// end ends the work after its delivery, for the reason err or for an earlier one, and returns the
// reason.
func (w *rangeWork) end(err error) error {
	if err != nil && !errors.Is(err, delivery.ErrLeftAside) { // then the reader has ended, and a split needs its context
		w.stopReading(err)
	}
	for page := range w.pages { // read, but not delivered
		w.ReleasePage(page, false)
	}
	w.reader.Wait()
	if err == nil || errors.Is(err, delivery.ErrLeftAside) && !isReadToEnd(w.readErr) {
		err = w.readErr
	}
	err = w.flush(w.owned, err)
	if errors.Is(err, feed.ErrSnapshotRead) {
		err = w.finishSnapshot(w.reading, w.owned, err)
	}
	var children []*lease.Lease
	if errors.Is(err, lease.ErrSplit) {
		children, err = w.held.Split(w.reading, w.owned, func(err error) { w.ReportProblem(delivery.AllLanes, err) })
	}
	w.held.Stop()
	if loss := w.held.Err(); loss != nil {
		err = loss
	}
	w.endWork(errStopping)
	err = w.concludeLease(err, children)
	w.forgetCaller()
	if w.joinsBudget {
		w.host.pageBudget.Leave(w.reservedBytes)
	}
	return err
}

// isReadToEnd reports whether a reader ended because nothing followed: then delivery waits for
// the keys that wait aside, too.
func isReadToEnd(err error) bool {
	return errors.Is(err, feed.ErrCaughtUp) || errors.Is(err, feed.ErrSnapshotRead)
}

// onEnd calls do when ctx ends, at once if it has ended. The function that it returns takes
// that back, or waits until do has returned.
func onEnd(ctx context.Context, do func()) (cancel func()) {
	if ctx.Err() != nil {
		do()
		return func() {}
	}
	done := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		defer close(done)
		do()
	})
	return func() {
		if !unregister() {
			<-done
		}
	}
}

func (w *rangeWorker) rangeInfo() RangeInfo {
	return RangeInfo{Function: w.function.Name, Range: w.rangeOf(), Epoch: w.held.Epoch(), Continuation: w.held.Position()}
}

// rangeOf is the leased span as handlers see it.
func (w *rangeWorker) rangeOf() cosmos.Range {
	l := w.held.Lease()
	return cosmos.Range{ID: l.Token(), Min: l.Span().Min, Max: l.Span().Max}
}

// concludeLease decides about the lease: it is retired in favour of its children, it is
// released, or it is another owner's already. It returns why the worker ended.
func (w *rangeWorker) concludeLease(err error, children []*lease.Lease) error {
	ctx, cancel := context.WithTimeout(w.stop.requests, w.host.options.StopGrace)
	defer cancel()
	switch {
	case errors.Is(err, lease.ErrLost):
	case children != nil, errors.Is(err, errSuperseded):
		w.retireLease(ctx, children)
		err = lease.ErrSplit
	default:
		if w.held.KeepsExits = errors.Is(err, delivery.ErrNewerForm); !w.held.KeepsExits {
			w.rangeDelivery.EndAnnouncements()
		}
		w.endSnapshot(err)
		w.endFailover(err)
		if err := w.held.Release(ctx); err != nil {
			w.log.Warn("could not release lease; it will expire", slog.Any("error", err))
		}
	}
	w.rangeStats.close()
	reason, cause := reasonOf(err), err
	if reason.isOrderly() {
		cause = nil
	}
	released := Event{
		Kind: EventReleased, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Continuation: w.held.Position(), Reason: reason, Err: cause,
	}
	if reason == ClosedPaused {
		pause := w.seenPause
		released.Stall = &stall.Stall{Kind: stall.Paused, Since: pause.Since.UTC(), Text: lease.CleanText(pause.Reason)}
	}
	w.emitEvent(released)
	if w.function.Closed != nil && !w.callbackRuns {
		guardCallback(w.log, "Closed", func() { w.function.Closed(w.rangeInfo(), reason, cause) })
	}
	return err
}

func (w *rangeWorker) retireLease(ctx context.Context, children []*lease.Lease) {
	event := Event{Kind: EventSplit, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Continuation: w.held.Retire(ctx)}
	for _, c := range children {
		event.Children = append(event.Children, c.Token())
	}
	w.emitEvent(event)
}

// ReleasePage takes back a page whose changes are finished, or will not be delivered.
// If it was handed over, the handler may keep its bytes, unless they were only lent. A
// call that was left behind may still read what was lent to it.
func (w *rangeWorker) ReleasePage(page *feed.Page, handedOver bool) {
	if handedOver && (!w.function.ReuseBuffers || w.rangeStats.hasHungCall()) {
		w.host.pageBudget.ForgetPage(page, w.reservedBytes)
		return
	}
	w.host.pageBudget.ReleasePage(page, w.reservedBytes)
}

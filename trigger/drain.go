package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// Drain works on every range that is free until it has caught up with the feed,
// gives the leases back and returns. A range with nothing new costs one read and no
// write. Ranges that other hosts hold are left to them.
//
// When ctx ends, no further delivery begins, running handlers may finish within
// StopGrace, and everything handled is checkpointed. That is not an error; Behind
// counts the ranges that are not caught up. Failures of the handler are stored in
// the leases, so that the next drain continues with them. If ctx has a deadline, a
// handler call gets at most three quarters of the remaining time: a call that takes
// forever then fails like any other.
//
// An error means that some function could not be worked on at all, also if ctx ended
// meanwhile: its leases could not be read, or it had ranges and none of their feeds
// could be read. If a container was created again since the last drain of this host, the
// drain continues with the new one as [Host.Run] does. The others were worked on. Problem in the summary is the first of
// all other errors.
func (h *Host) Drain(ctx context.Context) (Summary, error) {
	var mu sync.Mutex
	var total Summary
	err := h.eachFunction(true, func(r *functionRunner) error {
		d, end := newDrain(ctx, r, h.host.options.Parallel)
		defer end()
		err := d.drainFunction(ctx)
		mu.Lock()
		defer mu.Unlock()
		total.Add(d.summary)
		if err == nil {
			err = d.feedsUnread()
		}
		return err
	})
	return total, err
}

// newDrain makes the drain of a function. The caller calls end when it has ended.
func newDrain(ctx context.Context, r *functionRunner, parallel int) (d *drain, end func()) {
	d = &drain{runner: r, rangeSlots: make(chan struct{}, parallel)}
	if deadline, ok := ctx.Deadline(); ok {
		d.callLimit = time.Until(deadline) * 3 / 4
		d.leaveAsideAt = time.Now().Add(d.callLimit)
	}
	d.stop, end = newStopBudget(ctx, r.host.options.StopGrace)
	return d, end
}

// feedsUnread returns an error if the function had ranges to drain and could read
// none of their feeds.
func (d *drain) feedsUnread() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.feedsRead || d.readErr == nil {
		return nil
	}
	return fmt.Errorf("no feed of %d ranges could be read: %w", d.summary.Behind, d.readErr)
}

// noteRead records the outcome of the first feed read of a range.
func (d *drain) noteRead(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.feedsRead = true
	} else if d.readErr == nil {
		d.readErr = err
	}
}

// drain is one drain of one function. mu guards its last fields.
type drain struct {
	runner     *functionRunner
	stop       *stopBudget
	rangeSlots chan struct{} // bounds the ranges that are worked on at a time
	callLimit  time.Duration // of a handler call; 0 is none

	leaveAsideAt time.Time // a range that has caught up leaves its failing keys to the next drain then; zero is never

	mu        sync.Mutex
	summary   Summary
	splitSeen bool     // children are waiting to be drained
	phaseEnds []string // lease tokens of ranges whose snapshot has ended: they are drained again
	fatalErr  error    // the function cannot be worked on any more
	feedsRead bool     // of some range
	readErr   error    // the first of a range whose feed could not be read, or nil
}

// drainFunction drains the leases of a function. If a container was created again, it finds
// the leases again and begins once more.
func (d *drain) drainFunction(ctx context.Context) error {
	err := d.drainLeases(ctx)
	if !isContainerGone(err) {
		return err
	}
	d.runner.reopenLeases()
	if context.Cause(ctx) != nil || d.runner.prepareLeases(ctx) != nil {
		return err
	}
	s := d.summary
	d.summary = Summary{Batches: s.Batches, Changes: s.Changes, Retries: s.Retries, DeadLetters: s.DeadLetters, Filtered: s.Filtered}
	d.splitSeen, d.fatalErr, d.feedsRead, d.readErr = false, nil, false, nil
	if err = d.drainLeases(ctx); isContainerGone(err) {
		d.runner.reopenLeases()
	}
	return err
}

// drainLeases drains the leases of a function, and then the children of those that split.
func (d *drain) drainLeases(ctx context.Context) error {
	r := d.runner
	if err := r.prepareLeases(ctx); err != nil {
		return err
	}
	if err := r.leases.AuditIfDue(ctx); isContainerGone(err) {
		return err
	} else if err != nil {
		r.log.Warn("audit failed", slog.Any("error", err))
	}
	seen := map[string]bool{}
	for {
		leases, err := r.listCandidates(ctx)
		if err != nil {
			return err
		}
		for _, u := range r.leases.Unreadable() {
			if !seen[u.Token] {
				seen[u.Token] = true
				d.addCounts(Summary{Ranges: 1, Behind: 1, Problem: unreadableStall(u).Describe(r.leases.Now())})
			}
		}
		listed := r.listOf(leases)
		// The lease written last comes last: a range that holds its slot for all of
		// this drain leaves it to the others in the next one, in any process.
		slices.SortStableFunc(leases, func(a, b *lease.Lease) int { return a.Written().Compare(b.Written()) })
		d.drainAll(ctx, leases, listed, func(l *lease.Lease) bool {
			if seen[l.Token()] {
				return false
			}
			seen[l.Token()] = true
			return true
		})
		if d.fatalErr != nil {
			return d.fatalErr
		}
		if !d.splitSeen || context.Cause(ctx) != nil {
			return nil
		}
		d.splitSeen = false
		for _, token := range d.phaseEnds {
			delete(seen, token)
		}
		d.phaseEnds = nil
	}
}

// drainAll drains the wanted leases, as many at a time as there are slots.
func (d *drain) drainAll(ctx context.Context, leases []*lease.Lease, listed *leaseList, wanted func(*lease.Lease) bool) {
	var working sync.WaitGroup
	defer working.Wait()
	for _, l := range leases {
		if !wanted(l) {
			continue
		}
		if d.runner.coolsDown(l) {
			d.addCounts(Summary{Ranges: 1, Skipped: 1})
			continue
		}
		select {
		case d.rangeSlots <- struct{}{}:
		case <-ctx.Done():
			d.noteRead(context.Cause(ctx))
			d.addCounts(Summary{Ranges: 1, Behind: 1})
			continue
		}
		working.Go(func() {
			defer func() { <-d.rangeSlots }()
			d.drainRange(ctx, l, listed)
		})
	}
}

// drainRange drains one range, if it is free and has changes. It reports whether this host
// has acquired the lease.
func (d *drain) drainRange(ctx context.Context, l *lease.Lease, listed *leaseList) (acquired bool) {
	r := d.runner
	_, paused := l.Paused()
	if paused || !l.Free(r.leases.Now(), r.host.options.LeaseExpirationInterval) || r.worksOn(l.Token()) {
		d.addCounts(Summary{Ranges: 1, Skipped: 1})
		return false
	}
	reserved := r.host.pageBudget.Join(r.host.options.Owner, l.Token(), r.function.Name)
	defer r.host.pageBudget.Leave(reserved)
	r.host.pageBudget.ShareFrom(reserved, r.lastOwned(l))
	w, err := d.acquireRange(ctx, l, listed, reserved)
	switch {
	case err == nil:
		d.workRange(ctx, w, l)
		if w.held.Err() != nil {
			d.endRestoredMark(w)
		}
	case errors.Is(err, errIdle):
		r.endCooldown(l.Token())
		d.addCounts(Summary{Ranges: 1, Idle: 1, Lag: r.waitingLag(l)})
	case errors.Is(err, lease.ErrLost), errors.Is(err, errOwnRange):
		d.addCounts(Summary{Ranges: 1, Skipped: 1})
	case errors.Is(err, errHeldBack), r.noteFailover(err): // its feed can be read
		d.addCounts(Summary{Ranges: 1, Behind: 1, Problem: fmt.Sprintf("range %q: %v", l.Token(), err)})
	default:
		d.noteRead(err)
		d.rangeEnded(l, Summary{Ranges: 1}, err)
	}
	return err == nil
}

// endRestoredMark ends the mark of a message if an operator has put it in place of a lease that the
// drain had. If it cannot, the mark ends by itself, later: the drain has done its work.
func (d *drain) endRestoredMark(w *rangeWorker) {
	ctx, cancel := context.WithTimeout(d.stop.requests, d.runner.host.options.StopGrace)
	defer cancel()
	if err := d.runner.leases.EndRestoredMark(ctx, w.held.Lease(), w.held.Epoch()); err != nil {
		w.log.Warn("could not end the mark of a message; it ends by itself", slog.Any("error", err))
	}
}

// errIdle says that a range has no work, so that its lease is not acquired.
var errIdle = errors.New("nothing to do")

// acquireRange reads a free range and acquires its lease. The worker delivers the page that
// was read; its bytes are reserved. The error is errIdle if the range has no work.
func (d *drain) acquireRange(ctx context.Context, l *lease.Lease, listed *leaseList, reserved *feed.ReservedBytes) (*rangeWorker, error) {
	r, superseded := d.runner, listed.index.Superseded(l)
	var first *cosmos.Page
	if !superseded && !l.Retiring() && !l.Splitting() { // an idle range is left alone, but its marks keep other leases waiting
		page, idle, err := r.peekFeed(ctx, l, reserved)
		if err != nil {
			return nil, err
		}
		if idle || page != nil {
			d.noteRead(nil)
		}
		if idle && !r.hasPostponed(l) {
			return nil, errIdle
		}
		first = page
	}
	w, err := r.acquireListed(ctx, d.stop, l, listed, superseded)
	if err != nil {
		if first != nil {
			r.host.pageBudget.ReleasePage(first, reserved)
		}
		return nil, err
	}
	w.drain, w.firstPage, w.reservedBytes = true, first, reserved
	if first != nil {
		w.rangeDelivery.PageRead()
	}
	return w, nil
}

// workRange drains a range whose lease is acquired, and counts the work.
func (d *drain) workRange(ctx context.Context, w *rangeWorker, l *lease.Lease) {
	if d.callLimit > 0 {
		w.callTimeout = min(w.callTimeout, d.callLimit)
		w.rangeDelivery.LeaveAsideAt(d.leaveAsideAt)
	}
	err := w.workRange(ctx)
	d.runner.workerEnded(w, err)
	d.runner.recordLost(w)
	s := w.rangeStats.currentStatus()
	if errors.Is(err, feed.ErrCaughtUp) || errors.Is(err, lease.ErrSplit) || s.Changes > 0 || s.Retries > 0 || s.Filtered > 0 || w.removeErr != nil {
		d.noteRead(nil)
	} else {
		d.noteRead(err)
	}
	counts := Summary{Ranges: 1, Batches: s.Batches, Changes: s.Changes, Retries: s.Retries, DeadLetters: s.DeadLetters, Filtered: s.Filtered}
	if s.BehindKnown {
		counts.Lag, counts.LagSeconds = s.Behind, s.BehindSeconds
	}
	if errors.Is(err, errStopping) && s.Limited {
		counts.Problem = fmt.Sprintf("range %q: %s", l.Token(), s.Problem)
	}
	if w.removeErr != nil {
		counts.Problem = fmt.Sprintf("range %q: snapshot does not end: %v", l.Token(), w.removeErr)
	}
	if w.flushErr != nil {
		counts.Problem = fmt.Sprintf("range %q: changes not flushed: %v", l.Token(), w.flushErr)
	}
	d.rangeEnded(l, counts, err)
}

// rangeEnded counts the result of the work on a range.
func (d *drain) rangeEnded(l *lease.Lease, s Summary, err error) {
	switch {
	case errors.Is(err, feed.ErrCaughtUp):
		s.Drained = 1
	case errors.Is(err, errPaused):
		s.Skipped = 1
	case errors.Is(err, lease.ErrSplit):
		s.Drained = 1
		d.mu.Lock()
		d.splitSeen = true
		d.mu.Unlock()
	case reasonOf(err) == ClosedPhaseEnded:
		s.Ranges = 0 // it is drained again
		d.mu.Lock()
		d.splitSeen, d.phaseEnds = true, append(d.phaseEnds, l.Token())
		d.mu.Unlock()
	default:
		s.Behind = 1
		if !errors.Is(err, errStopping) && err != nil {
			s.Problem = fmt.Sprintf("range %q: %v", l.Token(), err)
			d.runner.log.Warn("drain ended before the range caught up", slog.String("range", l.Token()), slog.Any("error", err))
		}
		if isFatal(err) {
			d.mu.Lock()
			d.fatalErr = err
			d.mu.Unlock()
		}
	}
	d.addCounts(s)
}

// addCounts adds the counts of one range.
func (d *drain) addCounts(s Summary) {
	if s.Skipped+s.Behind > 0 && s.Lag == 0 {
		s.LagUnknown = 1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.summary.Add(s)
}

// peekFeed reads one page of a range before its lease is acquired. idle means that
// there is nothing to do. Otherwise the page, if it is not nil, is the first that
// the worker delivers; its bytes are reserved. If the lease tells which changes behind its
// continuation are finished, the others wait for a retry: until that is due, only a
// change behind all of them is news.
func (r *functionRunner) peekFeed(ctx context.Context, l *lease.Lease, reserved *feed.ReservedBytes) (first *cosmos.Page, idle bool, err error) {
	if l.Continuation() == "" && r.feedSource.Start.Kind == feed.StartNow || readsSnapshot(l, r.feedSource.Start) {
		return nil, false, nil // the lease needs a position, or the end of its phase
	}
	position := l.Continuation()
	v, waiting := r.function.waitingChanges(l)
	if waiting {
		if isRetryDue(v, r.leases.Now()) {
			return nil, false, nil
		}
		position = feed.QuotedLSN(v.Reached)
	}
	part, err := r.leases.Locate(ctx, l)
	if err == nil {
		first, err = r.readReserved(ctx, l, position, feedTarget(part), reserved)
	}
	switch {
	case errors.Is(err, lease.ErrSplit), cosmos.Classify(err) == cosmos.OutcomeRangeGone:
		return nil, false, nil // the worker creates the children
	case r.mayBeLost(err):
		return nil, false, nil // the worker finds out
	case err != nil:
		return nil, false, err
	case waiting, first.NotModified, feed.IsStale(first, position, l.ByKeys()):
		idle = first.NotModified && continuesFeed(first, l, position, r.feedSource.Container)
		r.host.pageBudget.ReleasePage(first, reserved)
		return nil, idle, nil // a replica that lags has answered, or the page is not the first: the worker reads again
	}
	return first, false, nil
}

// mayBeLost reports whether a read may have failed because a failover has lost its position.
func (r *functionRunner) mayBeLost(err error) bool {
	return r.feedSource.Container.Client().FailsOver() && (cosmos.Classify(err) == cosmos.OutcomeInvalid || cosmos.IsBehindSession(err))
}

// readReserved reads the page after a continuation within the budget of the host: one that is larger than the
// budget permits is read again with fewer changes.
func (r *functionRunner) readReserved(ctx context.Context, l *lease.Lease, continuation string, target feed.Target, reserved *feed.ReservedBytes) (*cosmos.Page, error) {
	for {
		charged, err := r.payPeek(ctx, l.Token())
		if err != nil {
			return nil, err
		}
		page, err := r.readOnce(ctx, r.sourceOf(l).WithPages(savedPageItems(l)), continuation, target, reserved)
		if err == nil {
			charged(page.Charge)
			return page, nil
		}
		if !errors.Is(err, cosmos.ErrNotAdmitted) {
			return nil, err
		}
	}
}

// readOnce reads a page within half of the expiration.
func (r *functionRunner) readOnce(ctx context.Context, source *feed.Source, continuation string, target feed.Target, reserved *feed.ReservedBytes) (*cosmos.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, r.host.options.LeaseExpirationInterval/2)
	defer cancel()
	reading, err := r.host.pageBudget.ReserveRead(ctx, reserved, source.MaxItems)
	if err != nil {
		return nil, err
	}
	page, err := source.ReadPage(ctx, target, continuation, reading)
	r.noteAnswer(useFeed, err)
	if err != nil {
		reading.Cancel()
		return nil, err
	}
	reading.Keep(page)
	return page, nil
}

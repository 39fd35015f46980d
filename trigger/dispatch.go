package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// RangeTask names one range of one function for [Host.DrainRange]. In JSON it is the
// content of a queue's message.
type RangeTask struct {
	Function string `json:"function"`
	Range    string `json:"range"` // lease token
}

// Dispatch looks for ranges with work and returns those that a message is to be sent
// for, so that a queue spreads them over instances. It delivers nothing. It creates the
// leases if there are none, and fills gaps between them.
//
// A range is left out if a host holds it, if an operator has paused it, if it has no
// changes, or if its lease is marked: a message for it was sent less than 10 minutes
// ago, and the lease was not acquired since. Dispatch marks the lease of each range that
// it returns. The caller sends the messages even if Dispatch returns an error, too. If it
// cannot, or dies before it has, their ranges wait until their marks are 10 minutes old.
//
// In the summary, Idle ranges have no changes, Skipped ones are held or paused, and
// Behind counts those with a message, whether new or on its way, and those that could
// not be read. When ctx ends, the ranges that were not looked at count as Behind; that
// is not an error. Errors are those of [Host.Drain].
func (h *Host) Dispatch(ctx context.Context) (tasks []RangeTask, total Summary, err error) {
	var mu sync.Mutex
	err = h.eachAlone(func(r *functionRunner) error {
		end := r.soloCalls.begin(r.reopenLeases)
		d := &dispatch{drain: drain{runner: r}}
		err := d.planFunction(ctx)
		if err == nil {
			err = d.feedsUnread()
		}
		end(err)
		mu.Lock()
		defer mu.Unlock()
		total.Add(d.summary)
		tasks = append(tasks, d.tasks...)
		return err
	})
	return tasks, total, err
}

// dispatch looks for the work of one function. Its drain counts ranges and delivers
// nothing.
type dispatch struct {
	drain
	tasks []RangeTask
}

func (d *dispatch) planFunction(ctx context.Context) error {
	r := d.runner
	listed, err := r.listLeases(ctx, r.listToDispatch)
	if err != nil {
		return err
	}
	source := r.newSource(r.leases.Since(), r.leases.Monitored().ResourceID)
	lags := &lagEstimate{functionName: r.function.Name, leases: r.leases, feedSource: source, maxItems: 1}
	sent := make([]bool, len(listed.leases))
	slots := make(chan struct{}, estimateParallel)
	var working sync.WaitGroup
	for i, l := range listed.leases {
		_, paused := l.Paused()
		switch {
		case paused || !l.Free(r.leases.Now(), r.host.options.LeaseExpirationInterval):
			d.addCounts(Summary{Ranges: 1, Skipped: 1})
			continue
		case r.leases.IsDispatched(l):
			d.addCounts(Summary{Ranges: 1, Behind: 1})
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			d.addCounts(Summary{Ranges: 1, Behind: 1})
			continue
		}
		working.Go(func() {
			defer func() { <-slots }()
			sent[i] = d.dispatchRange(ctx, lags, l, listed.list.index.Superseded(l))
		})
	}
	working.Wait()
	for i, l := range listed.leases {
		if sent[i] {
			d.tasks = append(d.tasks, RangeTask{r.function.Name, l.Token()})
		}
	}
	return nil
}

// listToDispatch prepares the leases and lists them.
func (r *functionRunner) listToDispatch(ctx context.Context) (listedLeases, error) {
	if err := r.prepareAlone(ctx); err != nil {
		return listedLeases{}, err
	}
	if err := r.leases.AuditIfDue(ctx); isContainerGone(err) {
		return listedLeases{}, err
	} else if err != nil {
		r.log.Warn("audit failed", slog.Any("error", err))
	}
	return r.listToDrain(ctx)
}

// prepareAlone prepares the leases of a function that shares no reads with others. The
// first call sets what the workers of later ones read.
func (r *functionRunner) prepareAlone(ctx context.Context) error {
	if r.feedSource != nil && r.feedSource.Shared == nil {
		return nil
	}
	r.sharedReads = nil
	return r.prepareLeases(ctx)
}

// listToDrain lists the leases for drains of single ranges. Audits are left to the timer.
func (r *functionRunner) listToDrain(ctx context.Context) (listedLeases, error) {
	if err := r.prepareAlone(ctx); err != nil {
		return listedLeases{}, err
	}
	leases, err := r.listCandidates(ctx)
	return listedLeases{leases, r.listOf(leases)}, err
}

// dispatchRange reports whether a message is to be sent for the range of a free lease,
// and then marks the lease.
func (d *dispatch) dispatchRange(ctx context.Context, lags *lagEstimate, l *lease.Lease, superseded bool) (send bool) {
	r := d.runner
	counts := Summary{Ranges: 1}
	if !superseded && !r.needsOwner(ctx, l) {
		lag, err := d.readLag(ctx, lags, l)
		if r.mayBeLost(err) { // the worker finds out
			lag, err = Lag{Changes: 1}, nil
		}
		d.noteRead(err)
		if err != nil {
			d.rangeFailed(l, err)
			return false
		}
		waiting := r.waitingLag(l)
		counts.Lag, counts.LagSeconds = lag.Changes+waiting, lag.Seconds
		if lag.Changes == 0 {
			counts.Idle = 1
			d.addCounts(counts)
			return false
		}
	}
	err := r.leases.MarkDispatched(ctx, l)
	switch {
	case errors.Is(err, lease.ErrLost):
		counts.Skipped = 1
	case err != nil && cosmos.Classify(err) != cosmos.OutcomeUnknown: // else the mark may stand, so the message is sent
		d.rangeFailed(l, err)
		return false
	default:
		counts.Behind, send = 1, true
	}
	d.addCounts(counts)
	return send
}

// readLag reads the lag behind all changes of a range that are finished or wait for a retry.
func (d *dispatch) readLag(ctx context.Context, lags *lagEstimate, l *lease.Lease) (lag Lag, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.runner.host.options.LeaseExpirationInterval/2)
	defer cancel()
	position := l.Continuation()
	if v, ok := d.runner.function.waitingChanges(l); ok {
		position = feed.QuotedLSN(v.Reached)
	}
	err = lags.addLagAfter(ctx, l, position, &lag)
	return lag, err
}

// needsOwner reports whether a lease is to be acquired even if its range has no changes:
// only an owner ends what another one has begun, creates the leases that follow a split,
// delivers postponed changes or retries that are due, or gives the lease its first position.
func (r *functionRunner) needsOwner(ctx context.Context, l *lease.Lease) bool {
	if v, ok := r.function.waitingChanges(l); ok && isRetryDue(v, r.leases.Now()) {
		return true
	}
	if l.Retiring() || l.Splitting() || r.hasPostponed(l) || l.Continuation() == "" && r.feedSource.Start.Kind == feed.StartNow || readsSnapshot(l, r.feedSource.Start) {
		return true
	}
	_, err := r.leases.Locate(ctx, l)
	return errors.Is(err, lease.ErrSplit)
}

// rangeFailed counts a range that gets no message because of an error.
func (d *dispatch) rangeFailed(l *lease.Lease, err error) {
	d.runner.log.Warn("no message for range", slog.String("range", l.Token()), slog.Any("error", err))
	d.addCounts(Summary{Ranges: 1, Behind: 1, Problem: fmt.Sprintf("range %q: %v", l.Token(), err)})
}

// DrainRange drains one range of one function, as [Host.Drain] drains all. It may be
// called by many goroutines at once, also next to Dispatch: an instance processes
// several messages at a time.
//
// Skipped in the summary means that there is nothing to do for this message: another
// host, or another call, works on the range, it cools down after a failure on this host,
// or an operator has paused it. If no lease has the token, Ranges is 0: the range has
// split since the message was written. Children of a range that splits during the drain
// are left to the next Dispatch, so that the queue spreads them. An error means that
// nothing was delivered and that the same message may be tried again, except
// [ErrNoFunction]. If a container was created again, the next call finds the new one.
func (h *Host) DrainRange(ctx context.Context, name, token string) (Summary, error) {
	i := slices.IndexFunc(h.functionRunners, func(r *functionRunner) bool { return r.function.Name == name })
	if i < 0 {
		return Summary{}, fmt.Errorf("%w named %q", ErrNoFunction, name)
	}
	defer h.host.beginTasks()()
	r := h.functionRunners[i]
	endCall := r.soloCalls.begin(r.reopenLeases)
	d, end := newDrain(ctx, r, 1)
	defer end()
	err := d.drainToken(ctx, token)
	endCall(err)
	if err != nil {
		err = fmt.Errorf("function %q: %w", name, err)
	}
	return d.summary, err
}

// drainToken drains the range of one lease, if there is such a lease. If it acquires
// nothing, it ends the mark, which would keep the next message back, or returns an error, so
// that this message comes back. A lease that is held may have a mark too, if its owner was dead
// by the sender's clock, and a paused one if the pause is newer than the message.
func (d *drain) drainToken(ctx context.Context, token string) error {
	r := d.runner
	listed, err := r.listLeases(ctx, r.listToDrain)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(listed.leases, func(l *lease.Lease) bool { return l.Token() == token })
	if i < 0 {
		return nil
	}
	l := listed.leases[i]
	acquired := false
	if r.coolsDown(l) {
		d.addCounts(Summary{Ranges: 1, Skipped: 1})
	} else {
		acquired = d.drainRange(ctx, l, listed.list)
	}
	if err := cmp.Or(d.fatalErr, d.feedsUnread()); err != nil || acquired || r.worksOn(token) { // an acquisition ends the mark
		return err
	}
	return r.leases.EndMark(ctx, l)
}

// errOwnRange means that another goroutine of this host works on a range.
var errOwnRange = errors.New("this host works on it")

// listedLeases are the free leases of a function, and the list of all leases that has them.
type listedLeases struct {
	leases []*lease.Lease
	list   *leaseList
}

// listLeases returns a list that began after the call. Calls share them, and only the one
// that lists uses the methods of [lease.Set] that want one goroutine.
func (r *functionRunner) listLeases(ctx context.Context, read func(context.Context) (listedLeases, error)) (listedLeases, error) {
	list := r.leaseLists.listAfter(ctx, r.leaseLists.begun.Load(), func() (listedLeases, error) { return read(ctx) })
	return list.content, list.err
}

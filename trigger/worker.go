package trigger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// worker is one leased range: it reads the feed, delivers, and acknowledges to
// the keeper. It lives from the acquisition of the lease to its release.
type worker struct {
	f      *function
	lease  *lease // as acquired
	keeper *keeper
	log    *zap.Logger
	tally  *tally
	drain  bool         // end when caught up, instead of polling on
	first  *cosmos.Page // a page that was read before the lease was acquired, or nil

	timeout  time.Duration // of a handler call
	cautious bool          // owners died one after the other: until the lease has moved, changes are delivered one by one
	outlived bool          // other leases took this one's place: retire it unread

	progress    progress
	checkpoints checkpoints
	breaker     breaker
	parked      parked
	troubles    troubles
	holding     holding
}

// run works until the range is lost, gone or caught up, or ctx ends; then
// everything that it started has stopped and the lease is given back. It
// reports why it ended.
//
// Two contexts are at work. reader ends with ctx: no page is read and no
// delivery begins after it. held outlives it by the grace that a running
// handler has to finish, and ends at once when the lease is lost.
func (w *worker) run(ctx context.Context) error {
	held, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	reader, stopReading := context.WithCancelCause(held)
	w.keeper.lose, w.keeper.yield = lose, stopReading
	w.opened()

	var limiting, keeping, reading sync.WaitGroup
	limiting.Go(func() { w.limit(ctx, held, stopReading, lose) })
	stop := make(chan struct{})
	keeping.Go(func() { w.keeper.run(held, stop) })
	pages := make(chan *cosmos.Page, 1)
	var readErr error
	reading.Go(func() {
		defer close(pages)
		if readErr = w.loadParked(reader); readErr == nil {
			readErr = w.read(reader, pages)
		}
	})

	err := w.deliverAll(reader, held, pages)
	if err != nil {
		stopReading(err)
	}
	for page := range pages { // read, but no longer wanted
		w.f.host.budget.give(page, &w.holding)
	}
	reading.Wait()
	if err == nil {
		err = readErr
	}
	var children []*lease
	switch {
	case errors.Is(err, errOutlived):
		children = []*lease{}
	case errors.Is(err, errSplit):
		children, err = w.split(reader, held)
	}
	close(stop)
	keeping.Wait()
	if cause := context.Cause(held); errors.Is(cause, errLeaseLost) {
		err = cause
	}
	lose(errStopping)
	limiting.Wait()
	return w.conclude(ctx, err, children)
}

// limit ends reading with ctx, and what is still running one grace later.
func (w *worker) limit(ctx, held context.Context, stopReading, lose context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		stopReading(errStopping)
	case <-held.Done():
		return
	}
	if backoff.Sleep(held, w.f.host.opts.StopGrace) == nil {
		lose(errStopping)
	}
}

// opened tells whoever wants to know that this host works on the range.
func (w *worker) opened() {
	if w.f.Opened != nil {
		w.f.Opened(w.info())
	}
}

func (w *worker) info() RangeInfo {
	return RangeInfo{Function: w.f.Name, Range: w.lease.asRange(), Epoch: w.keeper.id.epoch, Continuation: w.keeper.position()}
}

// conclude settles what becomes of the lease: children take its place, it is
// given back, or it is somebody else's already. It reports why the worker ended.
func (w *worker) conclude(ctx context.Context, err error, children []*lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.f.host.opts.StopGrace)
	defer cancel()
	switch {
	case errors.Is(err, errLeaseLost):
	case children != nil:
		w.retire(ctx, children)
		err = errSplit
	default:
		w.troubles.lived()
		if releaseErr := w.keeper.release(ctx); releaseErr != nil {
			w.log.Warn("lease is left to expire", zap.Error(releaseErr))
		}
	}
	reason, cause := reasonOf(err), err
	if reason.good() {
		cause = nil
	}
	w.f.event(Event{
		Kind: Released, Range: w.lease.token, Epoch: w.keeper.id.epoch, Continuation: w.keeper.position(), Reason: reason, Err: cause,
	})
	if w.f.Closed != nil {
		w.f.Closed(w.info(), reason, cause)
	}
	return err
}

// split creates the leases that follow this one, at the acknowledged position:
// create-only, so that whoever got there first stays. The parent is retired
// only after all of them are there; a crash in between is repeated by the next
// owner. A range that is found whole again ends the attempt.
func (w *worker) split(reader, held context.Context) ([]*lease, error) {
	// A write that leaves only now: who was robbed of the lease while it had
	// nothing to write would else create children at a position of the past.
	if err := w.keeper.prove(reader); err != nil {
		return nil, err
	}
	for failures := 1; ; failures++ {
		children, err := w.createChildren(reader, held)
		if err == nil {
			return children, nil
		}
		if cause := context.Cause(reader); cause != nil {
			return nil, cause
		}
		w.tally.trouble(outside, err)
		w.log.Warn("split is not complete", zap.Error(err), zap.Int("failures", failures))
		if errors.Is(err, errWhole) {
			return nil, err
		}
		if err := backoff.Sleep(reader, backoff.Wait(failures, backoff.Min, w.f.host.opts.FeedPollDelay, w.keeper.id.owner, w.lease.token)); err != nil {
			return nil, err
		}
	}
}

// errWhole ends a split of a range that has merged again before it was complete.
var errWhole = errors.New("the range is whole again")

// createChildren makes one attempt. Where leases inside the parent's span cover
// a child already, an earlier owner got this far and was not seen to retire the
// parent; the child may have come to an end since, and must not begin anew. A
// lease over the parent or beyond it is no such proof: it may be an ancestor
// whose own owner counts on this one.
func (w *worker) createChildren(reader, held context.Context) ([]*lease, error) {
	ranges, err := w.f.ranges.refresh(reader)
	if err != nil {
		return nil, err
	}
	parent := w.lease.clone()
	parent.continuation = w.keeper.position()
	_, children, err := locate(parent, ranges, w.f.store.prefix)
	if err != nil {
		return nil, err
	}
	if !parent.span.known() && len(children) > 0 {
		parent.span = span{children[0].span.Min, children[len(children)-1].span.Max}
	}
	inside, highest, err := w.f.inside(reader, parent)
	if err != nil {
		return nil, err
	}
	if children == nil { // whole again, but an earlier owner may have begun
		if len(inside) == 0 {
			return nil, fmt.Errorf("lease %q: %w", parent.token, errWhole)
		}
		children = []*lease{parent.over(parent.span, w.f.store.prefix)}
	}
	for _, c := range missing(parent, children, inside, w.f.store.prefix) {
		c.properties[epochProperty] = strconv.FormatInt(highest+1, 10) // above every sink's memory of these keys
		if err := w.keeper.await(held); err != nil {
			return nil, err
		}
		if _, err := w.f.store.create(held, c); err != nil {
			return nil, err
		}
	}
	return children, nil
}

// missing is what of the children is not there: each child, or, where leases
// inside the parent's span cover a part of it, leases over the rest.
func missing(parent *lease, children []*lease, inside []span, prefix string) []*lease {
	var rest []*lease
	for _, c := range children {
		for _, gap := range gaps(c.span, inside) {
			if gap.equals(c.span) {
				rest = append(rest, c)
			} else {
				rest = append(rest, parent.over(gap, prefix))
			}
		}
	}
	return rest
}

// retire removes the lease of a range that is no more. Where that fails the
// next owner finds the children and retires it again; where the account never
// lets us delete, the lease stays as a tombstone that nobody acquires.
func (w *worker) retire(ctx context.Context, children []*lease) {
	err := w.f.store.delete(ctx, w.keeper.lease)
	for cosmos.Classify(err).Unsure() { // somebody asked for the lease, or the answer was lost
		if err = w.keeper.reread(ctx); err == nil {
			err = w.f.store.delete(ctx, w.keeper.lease)
		}
	}
	if cosmos.Classify(err) == cosmos.Denied {
		err = w.keeper.write(ctx, nil, func(l *lease) { l.owner, l.properties[tombstoneProperty] = "", "1" })
	}
	if err != nil && cosmos.Classify(err) != cosmos.NotFound && !errors.Is(err, errLeaseLost) {
		w.log.Warn("lease of a split range is left to its next owner", zap.Error(err))
	}
	event := Event{Kind: Split, Range: w.lease.token, Epoch: w.lease.epoch(), Continuation: w.keeper.lease.continuation}
	for _, c := range children {
		event.Children = append(event.Children, c.token)
	}
	w.f.event(event)
}

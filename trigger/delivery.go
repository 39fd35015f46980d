package trigger

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
)

// deliverAll spreads the changes of page after page over the lanes and returns
// when the reader has ended and everything read is finished: then nil. Or a
// lane cannot go on, or reader ended: then the cause, and what is unfinished
// will be delivered again by the next owner.
func (w *worker) deliverAll(reader, held context.Context, pages <-chan *cosmos.Page) error {
	ctx, stop := context.WithCancelCause(reader)
	defer stop(nil)
	lanes := make([]*lane, w.f.Lanes)
	var working sync.WaitGroup
	for i := range lanes {
		lanes[i] = &lane{worker: w, index: i, incoming: make(chan []*pending, 1)}
		working.Go(func() {
			if err := lanes[i].run(ctx, held); err != nil {
				stop(err)
			}
		})
	}
	for w.dispatchNext(ctx, lanes, pages) {
	}
	for _, l := range lanes {
		close(l.incoming)
	}
	working.Wait()
	for _, page := range w.progress.abandon() {
		w.f.host.budget.give(page, &w.holding)
	}
	return context.Cause(ctx)
}

// dispatchNext dispatches one page; false when there are no more or ctx ended.
func (w *worker) dispatchNext(ctx context.Context, lanes []*lane, pages <-chan *cosmos.Page) bool {
	select {
	case page, open := <-pages:
		return open && w.dispatch(ctx, lanes, page)
	case <-ctx.Done():
		return false
	}
}

// dispatch hands the changes of a page to their lanes; false when ctx ended.
func (w *worker) dispatch(ctx context.Context, lanes []*lane, page *cosmos.Page) bool {
	changes := w.progress.open(page, w.lease.byKeys)
	w.troubles.meet(changes)
	w.finish(nil) // a page without changes is finished by being there
	shares := make([][]*pending, len(lanes))
	for _, c := range changes {
		if w.f.needsKeys() {
			c.key = keyOf(c.item, w.f.store.monitoredKey)
		}
		at := w.f.laneOf(c, len(lanes))
		if w.cautious {
			if !w.dispatchAlone(ctx, lanes[at], c) {
				return false
			}
			continue
		}
		shares[at] = append(shares[at], c)
	}
	if w.cautious && len(changes) > 0 {
		// The next page is not looked at change by change once the lease says that
		// this one is done with: or its last change would be taken for what ends
		// the owner there, and what does so never be found.
		if w.keeper.prove(ctx) != nil {
			return false
		}
		w.cautious = w.keeper.position() == w.lease.continuation
	}
	for i, share := range shares {
		if len(share) > 0 && !lanes[i].give(ctx, share) {
			return false
		}
	}
	return true
}

// dispatchAlone has a change delivered while no other is, and waits until it is
// finished. That it is about to be delivered is in the lease before it is: where
// this owner is ended by it, the next one knows by what.
func (w *worker) dispatchAlone(ctx context.Context, l *lane, c *pending) bool {
	left := trouble{}
	if c.left != nil {
		left = *c.left
	}
	left.Size, left.Last = 1, nameOf(c)
	c.left, c.alone = &left, true
	settled := make(chan struct{})
	c.settled = settled
	if !l.give(ctx, []*pending{c}) {
		return false
	}
	select {
	case <-settled:
		return true
	case <-ctx.Done():
		return false
	}
}

// give hands changes to the lane; false when ctx ended.
func (l *lane) give(ctx context.Context, changes []*pending) bool {
	select {
	case l.incoming <- changes:
		return true
	case <-ctx.Done():
		return false
	}
}

// needsKeys reports whether the worker must know logical keys at all.
func (f *function) needsKeys() bool { return f.Lanes > 1 || f.BlockKeys }

// laneOf is the lane of a change: equal keys, equal lane.
func (f *function) laneOf(c *pending, lanes int) int {
	if lanes == 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(c.key))
	if f.LanesByID {
		h.Write([]byte(idOf(c.item)))
	}
	return int(h.Sum32() % uint32(lanes))
}

// finish books changes as handled or dead-lettered and passes the acknowledged
// prefix on to whoever saves it.
func (w *worker) finish(changes []*pending) {
	w.troubles.settled(changes)
	closed := w.progress.finish(w.checkpoints.advance, changes...)
	for _, page := range closed {
		if len(page.Items) > 0 {
			w.keeper.survive()
		}
		w.f.host.budget.give(page, &w.holding)
	}
	for _, c := range changes {
		if c.settled != nil {
			close(c.settled)
			c.settled = nil
		}
	}
}

// batch copies changes into a batch of its own. The copy is what lets a
// handler keep and change the bytes while the page's buffer is used again and
// a further attempt sees what the feed said.
func (w *worker) batch(group []*pending, attempt int) Batch {
	size := 0
	for _, p := range group {
		size += p.bytes()
	}
	buffer := make([]byte, 0, size)
	changes := make([]Change, len(group))
	for i, p := range group {
		changes[i] = w.f.change(p, &buffer)
	}
	return Batch{
		Function: w.f.Name, Range: w.lease.asRange(), Changes: changes, Attempt: attempt, Epoch: w.keeper.id.epoch,
		checkpoint: new(atomic.Bool),
	}
}

// asRange is the leased span as handlers see it.
func (l *lease) asRange() cosmos.Range {
	return cosmos.Range{ID: l.token, Min: l.span.Min, Max: l.span.Max}
}

// errStuck ends a worker whose handler did not return.
type errStuck struct{ after time.Duration }

func (e errStuck) Error() string {
	return fmt.Sprintf("handler has not returned %s after its deadline; the range is given up and the call left behind", e.after)
}

// errGoexit is the verdict on a handler that ended its goroutine.
var errGoexit = errors.New("handler called runtime.Goexit")

// call runs the handler once, under its deadline. A handler that does not
// return within the host's grace after that is stuck: nothing can end it, so
// the worker goes without it, and the lease with the worker.
func (w *worker) call(held context.Context, b Batch) error {
	ctx, cancel := context.WithTimeout(held, w.timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { done <- err }() // also where the handler ends the goroutine
		err = protect(ctx, w.f.Handler, b)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(w.f.host.opts.StuckGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		err := errStuck{w.f.host.opts.StuckGrace}
		w.f.host.stuck(w.log, done)
		w.keeper.lose(err) // the calls in other lanes end, too
		return err
	}
}

// protect turns a panic of the handler into its verdict.
func protect(ctx context.Context, h Handler, b Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return h(ctx, b)
}

// attempt delivers a group once and reports the handler's verdict.
func (l *lane) attempt(held context.Context, g *group) (verdict, error) {
	w := l.worker
	b := w.batch(g.changes, g.tries+1)
	began := time.Now()
	err := w.call(held, b)
	g.tries++
	event := Event{
		Kind: Delivered, Range: w.lease.token, Epoch: b.Epoch, Changes: len(g.changes), Attempt: g.tries,
		LastLSN: g.changes[len(g.changes)-1].item.LSN, Duration: time.Since(began), Err: err,
	}
	if _, isStuck := err.(errStuck); isStuck {
		return verdict{}, err
	}
	if err != nil {
		event.Kind = DeliveryFailed
		w.tally.failed(l.index, event)
		w.log.Error("handler failed", zap.Error(err), zap.Int("attempt", g.tries),
			zap.Int("changes", len(g.changes)), zap.Int64("lastLsn", event.LastLSN), stackField(err))
		w.watchRetention(g.changes[0].item)
	} else {
		w.tally.delivered(l.index, event)
		if b.checkpoint.Load() {
			w.checkpoints.request(g.changes[len(g.changes)-1].ordinal)
		}
	}
	w.f.event(event)
	return judge(g.changes, err), nil
}

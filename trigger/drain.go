package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
)

// Drain works on every range that is free to take until it has caught up with
// the feed, gives the leases back and returns. A range with nothing new costs
// one read and no write. Ranges that other hosts hold are left to them.
//
// When ctx ends, no further delivery begins, handlers that run may finish
// within StopGrace, and what is handled is checkpointed; that is no error, and
// Behind counts what is left. What the handler has refused by then is remembered
// in the leases, so that the next drain goes on with it. Where ctx has a deadline
// a handler call gets three quarters of the time until then at most: one that
// takes for ever fails, like any other. An error means that some function could
// not be worked on at all; the others were.
func (h *Host) Drain(ctx context.Context) (Summary, error) {
	return h.drain(ctx, func(*function) bool { return true }, func(*lease) bool { return true })
}

// DrainRange drains one range of one function: the unit of work where a queue
// spreads ranges over instances. A token that no lease has is no error: the
// range may have split since the message was written.
func (h *Host) DrainRange(ctx context.Context, name, token string) (Summary, error) {
	named := func(f *function) bool { return f.Name == name }
	if !slices.ContainsFunc(h.functions, named) {
		return Summary{}, fmt.Errorf("no function named %q", name)
	}
	return h.drain(ctx, named, func(l *lease) bool { return l.token == token })
}

// drain works on those leases of those functions that are wanted.
func (h *Host) drain(ctx context.Context, of func(*function) bool, wanted func(*lease) bool) (Summary, error) {
	var mu sync.Mutex
	var total Summary
	err := h.each(func(f *function) error {
		if !of(f) {
			return nil
		}
		d := &drain{f: f, slots: make(chan struct{}, h.opts.Parallel)}
		if end, ok := ctx.Deadline(); ok {
			d.limit = time.Until(end) * 3 / 4
		}
		err := d.run(ctx, wanted)
		mu.Lock()
		defer mu.Unlock()
		total.Add(d.summary)
		return endedBy(ctx, err)
	})
	return total, err
}

// drain is one drain of one function.
type drain struct {
	f     *function
	slots chan struct{} // bounds the ranges that are worked on at a time
	limit time.Duration // of a handler call; 0 is none

	mu      sync.Mutex
	summary Summary
	split   bool  // children are waiting to be drained
	fatal   error // the function cannot go on
}

// run drains the leases of a function, and then the children of those that split.
func (d *drain) run(ctx context.Context, wanted func(*lease) bool) error {
	if err := d.f.prepare(ctx); err != nil {
		return err
	}
	if err := d.f.auditIfDue(ctx); err != nil {
		d.f.log.Warn("audit failed", zap.Error(err))
	}
	seen := map[string]bool{}
	for {
		leases, err := d.f.candidates(ctx)
		if err != nil {
			return err
		}
		// What was worked on last comes last: whatever holds the slots for all of
		// this drain leaves them to the others in the next, in any process.
		slices.SortStableFunc(leases, func(a, b *lease) int { return a.written.Compare(b.written) })
		var working sync.WaitGroup
		for _, l := range leases {
			if seen[l.token] || !wanted(l) {
				continue
			}
			seen[l.token] = true
			if d.f.rests(l) {
				d.count(Summary{Ranges: 1, Skipped: 1})
				continue
			}
			select {
			case d.slots <- struct{}{}:
			case <-ctx.Done():
				d.count(Summary{Ranges: 1, Behind: 1})
				continue
			}
			working.Go(func() {
				defer func() { <-d.slots }()
				d.lease(ctx, l, outlived(l, leases))
			})
		}
		working.Wait()
		if d.fatal != nil {
			return d.fatal
		}
		if !d.split || context.Cause(ctx) != nil {
			return nil
		}
		d.split = false
	}
}

// lease drains one range, if it is free and has something new; see outlived.
func (d *drain) lease(ctx context.Context, l *lease, outlived bool) {
	if !l.free(d.f.store.now(), d.f.host.opts.LeaseExpirationInterval) {
		d.count(Summary{Ranges: 1, Skipped: 1})
		return
	}
	var first *cosmos.Page
	var idle bool
	var err error
	if !outlived {
		first, idle, err = d.f.peek(ctx, l)
	}
	if err == nil && idle {
		d.count(Summary{Ranges: 1, Idle: 1})
		return
	}
	var w *worker
	if err == nil {
		w, err = d.f.acquire(ctx, l, outlived)
	}
	switch {
	case errors.Is(err, errLeaseLost):
		d.count(Summary{Ranges: 1, Skipped: 1})
		return
	case err != nil:
		d.ended(l, Summary{Ranges: 1}, err)
		return
	}
	w.drain, w.first = true, first
	if d.limit > 0 {
		w.timeout = min(w.timeout, d.limit)
	}
	err = w.run(ctx)
	d.f.forget(w, err)
	t := w.tally.snapshot()
	d.ended(l, Summary{Ranges: 1, Batches: t.Batches, Changes: t.Changes, Retries: t.Retries, DeadLetters: t.DeadLetters}, err)
}

// ended books how the work on a range came out.
func (d *drain) ended(l *lease, s Summary, err error) {
	switch {
	case errors.Is(err, errCaughtUp):
		s.Drained = 1
	case errors.Is(err, errSplit):
		s.Drained = 1
		d.mu.Lock()
		d.split = true
		d.mu.Unlock()
	default:
		s.Behind = 1
		if !errors.Is(err, errStopping) {
			d.f.log.Warn("range left with work", zap.String("range", l.token), zap.Error(err))
		}
		if isFatal(err) {
			d.mu.Lock()
			d.fatal = err
			d.mu.Unlock()
		}
	}
	d.count(s)
}

func (d *drain) count(s Summary) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.summary.Add(s)
}

// peek reads one page of a range before its lease is acquired. idle means that
// there is nothing to do. Where there is, the page, if any, is the first that
// the worker delivers.
func (f *function) peek(ctx context.Context, l *lease) (first *cosmos.Page, idle bool, err error) {
	if l.continuation == "" && f.begin().kind == startNow {
		return nil, false, nil // the position is to be fixed in the lease
	}
	at, err := f.physical(ctx, l)
	if err == nil {
		within, cancel := f.soon(ctx)
		defer cancel()
		first, err = f.readFeed(within, at, l.continuation)
	}
	switch {
	case errors.Is(err, errSplit), cosmos.Classify(err) == cosmos.RangeGone:
		return nil, false, nil // the worker sees to it
	case err != nil:
		return nil, false, err
	case first.NotModified:
		first.Release()
		return nil, true, nil
	}
	return first, false, nil
}

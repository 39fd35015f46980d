package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// maxReadFailures is how often in a row a feed may fail before its lease is
// given back: another host may have the connection that this one lacks. The
// client has retried within each.
const maxReadFailures = 5

// errNotAdvancing is an answer that would be read for ever.
var errNotAdvancing = errors.New("the feed answered with changes but the same continuation")

// read fetches pages ahead of the deliveries and sends them on, until ctx ends,
// the range is gone (errSplit), a drain has caught up (errCaughtUp), or the
// feed keeps failing. A page goes out before the next is asked for; at most
// one waits for the handler.
func (w *worker) read(ctx context.Context, pages chan<- *cosmos.Page) error {
	if w.outlived {
		return errOutlived
	}
	if err := w.resume(ctx); err != nil {
		return err
	}
	position, err := w.startPosition(ctx)
	if err != nil {
		return err
	}
	if w.first != nil {
		position = w.first.Continuation
		if err := w.send(ctx, pages, w.first); err != nil {
			return err
		}
	}
	for failures := 0; ; {
		page, err := w.readPage(ctx, position)
		if err != nil {
			failures++
			if err := w.afterReadFailure(ctx, err, failures); err != nil {
				return err
			}
			continue
		}
		failures = 0
		w.tally.read(page)
		if len(page.Items) > 0 {
			w.watchRetention(page.Items[0])
		}
		idle, moved := page.NotModified, page.Continuation != position
		position = page.Continuation
		if !idle || moved {
			if err := w.send(ctx, pages, page); err != nil {
				return err
			}
		}
		if idle && w.drain {
			return errCaughtUp
		}
		if idle {
			if err := backoff.Sleep(ctx, w.f.host.untilTick(w.f.pollDelay())); err != nil {
				return err
			}
		}
	}
}

// resume finds the split of a lease over keys that an earlier owner began, and
// that a merge has hidden since: errSplit. Nothing else would show it, and the
// children would be read beside their parent for ever.
func (w *worker) resume(ctx context.Context) error {
	if !w.lease.byKeys {
		return nil
	}
	for failures := 1; ; failures++ {
		inside, _, err := w.f.inside(ctx, w.lease)
		if err == nil && len(inside) > 0 {
			return errSplit
		}
		if err == nil {
			return nil
		}
		if err := w.afterReadFailure(ctx, err, failures); err != nil {
			return err
		}
	}
}

// send passes a page on within the host's budget for pages in memory.
func (w *worker) send(ctx context.Context, pages chan<- *cosmos.Page, page *cosmos.Page) error {
	if err := w.f.host.budget.take(ctx, page, &w.holding); err != nil {
		page.Release()
		return err
	}
	select {
	case pages <- page:
		return nil
	case <-ctx.Done():
		w.f.host.budget.give(page, &w.holding)
		return context.Cause(ctx)
	}
}

// startPosition is where to read first. A lease that is to begin now is given a
// concrete position before anything is delivered: what is written while a host
// is down would otherwise be skipped.
func (w *worker) startPosition(ctx context.Context) (string, error) {
	if w.lease.continuation != "" {
		return w.lease.continuation, nil
	}
	for failures := 0; ; {
		token := ""
		at, err := w.physical(ctx)
		if err == nil {
			token, err = w.f.resolveStart(ctx, w.f.begin(), at)
		}
		if err == nil && token == "" {
			return "", nil
		}
		if err == nil {
			w.keeper.advance(token, true)
			return token, w.keeper.flush(ctx)
		}
		failures++
		if err := w.afterReadFailure(ctx, err, failures); err != nil {
			return "", err
		}
	}
}

// readPage reads the page after position.
func (w *worker) readPage(ctx context.Context, position string) (*cosmos.Page, error) {
	at, err := w.physical(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, w.f.host.opts.LeaseExpirationInterval) // the client's retries included
	defer cancel()
	page, err := w.f.readFeed(within, at, position)
	if err != nil {
		return nil, err
	}
	if !page.NotModified && page.Continuation == position {
		page.Release()
		return nil, errNotAdvancing
	}
	return page, nil
}

// readFeed reads the page after position, or the first one where it is empty. A
// start time goes with the first page alone, as in azure-cosmos-dotnet-v3: sent
// with a position, it would leave out of a merged range what lies between the
// position and the time.
func (f *function) readFeed(ctx context.Context, at part, position string) (*cosmos.Page, error) {
	start := f.begin()
	if position == "" && start.kind == startToken {
		position = start.token
	}
	request := cosmos.FeedRequest{
		Mode: f.ChangeFeedMode, Range: at.physical, Min: at.span.Min, Max: at.span.Max, Continuation: position, MaxItems: f.MaxItemsPerInvocation,
		ResourceID: f.store.monitoredRID,
	}
	if position == "" {
		request.Start = start.feed()
	}
	return f.Container.ReadFeed(ctx, request)
}

// physical is the range that answers for the lease now; errSplit when there is
// none because it split or merged. Only ranges that were just read can say so.
func (w *worker) physical(ctx context.Context) (part, error) {
	return w.f.physical(ctx, w.lease)
}

func (f *function) physical(ctx context.Context, l *lease) (part, error) {
	r, children, err := locate(l, f.ranges.current(), f.store.prefix)
	if err != nil || children != nil {
		ranges, refreshErr := f.ranges.refresh(ctx)
		if refreshErr != nil {
			return part{}, refreshErr
		}
		r, children, err = locate(l, ranges, f.store.prefix)
	}
	if err != nil {
		return part{}, err
	}
	if children != nil {
		return part{}, errSplit
	}
	return part{physical: r, span: l.within(r)}, nil
}

// within is what of r belongs to the lease.
func (l *lease) within(r cosmos.Range) span {
	if l.byKeys {
		return l.span.intersect(spanOf(r))
	}
	return spanOf(r)
}

// afterReadFailure decides what a failed read means: nil to read again, after
// the wait that it calls for.
func (w *worker) afterReadFailure(ctx context.Context, err error, failures int) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, errSplit) || errors.Is(err, errMergedUnknown) {
		return err
	}
	switch cosmos.Classify(err) {
	case cosmos.RangeGone:
		if _, err := w.f.ranges.refresh(ctx); err != nil {
			w.log.Warn("read partition key ranges failed", zap.Error(err))
		}
		if _, err := w.physical(ctx); errors.Is(err, errSplit) {
			return errSplit
		}
		failures = min(failures, maxReadFailures-1) // a split takes its time
	case cosmos.ContainerGone, cosmos.NotFound, cosmos.Denied, cosmos.Invalid:
		return fmt.Errorf("read feed of range %q: %w", w.lease.token, err)
	}
	w.tally.trouble(outside, err)
	if failures >= maxReadFailures {
		return fmt.Errorf("read feed of range %q: %d failures in a row: %w", w.lease.token, failures, err)
	}
	w.log.Warn("read feed failed", zap.Error(err), zap.Int("failures", failures))
	return backoff.Sleep(ctx, backoff.Wait(failures, backoff.Min, w.f.pollDelay(), w.keeper.id.owner, w.lease.token))
}

// budget bounds the bytes of pages that are read but not yet handled, over all
// ranges of a host. A range that holds none may take one beyond it, so that
// those that fail, and keep what they have read, do not stop the others.
type budget struct {
	limit int64

	mu    sync.Mutex
	used  int64
	freed chan struct{} // closed and replaced when bytes come back
}

// holding is what one range has taken of a budget, whose lock guards it.
type holding struct{ bytes int64 }

func newBudget(limit int64) *budget { return &budget{limit: limit, freed: make(chan struct{})} }

// take waits until the page fits, or its range holds nothing else.
func (b *budget) take(ctx context.Context, p *cosmos.Page, of *holding) error {
	size := pageSize(p)
	for {
		b.mu.Lock()
		if of.bytes == 0 || b.used+size <= b.limit {
			b.used += size
			of.bytes += size
			b.mu.Unlock()
			return nil
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// give returns the bytes of a page and the page itself.
func (b *budget) give(p *cosmos.Page, of *holding) {
	size := pageSize(p)
	b.mu.Lock()
	b.used -= size
	of.bytes -= size
	close(b.freed)
	b.freed = make(chan struct{})
	b.mu.Unlock()
	p.Release()
}

func pageSize(p *cosmos.Page) (size int64) {
	for _, item := range p.Items {
		size += int64(len(item.Document) + len(item.Previous))
	}
	return size
}

// untilTick is the time to the host's next tick of the given period. All
// ranges poll on the same ticks, so that an idle host wakes once for all.
func (h *Host) untilTick(period time.Duration) time.Duration {
	return period - time.Since(h.started)%period
}

package trigger

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// reader returns the reader of the worker's range.
func (w *worker) reader() *feed.Reader {
	pollDelay := w.process.opts.FeedPollDelay
	if w.function.FeedPollDelay > 0 {
		pollDelay = w.function.FeedPollDelay
	}
	return &feed.Reader{
		Source: w.source, Token: w.held.Lease().Token(), First: w.first, UntilCaughtUp: w.drain, PollDelay: pollDelay,
		Timeout: w.process.opts.LeaseExpirationInterval, JitterKey: w.jitterKey(),
		Budget: w.process.budget, Reserved: &w.reserved,
		Begin: w.begin, Locate: w.locate, Relocate: w.relocate, Final: isFinalRead,
		UntilPoll: func() time.Duration { return w.process.untilTick(pollDelay) },
		Observe:   w.observePage,
		Problem: func(err error, failures int) {
			w.stats.setProblem(delivery.AllLanes, err)
			w.log.Warn("read feed failed", zap.Error(err), zap.Int("failures", failures))
		},
	}
}

// begin returns the continuation to read first. A lease that begins now gets a
// concrete position before anything is delivered; otherwise changes written while
// no host runs would be skipped.
func (w *worker) begin(ctx context.Context) (string, error) {
	if w.superseded {
		return "", errSuperseded
	}
	if begun, err := w.held.SplitBegun(ctx); err != nil {
		return "", err
	} else if begun {
		return "", lease.ErrSplit
	}
	if continuation := w.held.Lease().Continuation(); continuation != "" {
		return continuation, nil
	}
	at, err := w.locate(ctx)
	if err != nil {
		return "", err
	}
	token, err := w.source.Resolve(ctx, w.source.Start, at)
	if err != nil || token == "" {
		return "", err
	}
	w.held.Advance(token, true)
	return token, w.held.Flush(ctx)
}

// locate returns the part of a physical range that answers for the lease now.
func (w *worker) locate(ctx context.Context) (feed.Target, error) {
	at, err := w.leases.Locate(ctx, w.held.Lease())
	return target(at), err
}

// relocate reads the ranges again after the service said that the lease's range
// is gone. It fails only if the lease has to give way to its children.
func (w *worker) relocate(ctx context.Context) error {
	if err := w.leases.RefreshRanges(ctx); err != nil {
		w.log.Warn("read partition key ranges failed", zap.Error(err))
	}
	if _, err := w.locate(ctx); errors.Is(err, lease.ErrSplit) {
		return err
	}
	return nil
}

func isFinalRead(err error) bool {
	return errors.Is(err, lease.ErrSplit) || errors.Is(err, lease.ErrMergedUnknown) || errors.Is(err, errSuperseded)
}

func (w *worker) observePage(page *feed.Page) {
	w.stats.read(page)
	if len(page.Items) > 0 {
		w.watchRetention(page.Items[0].Timestamp)
	}
}

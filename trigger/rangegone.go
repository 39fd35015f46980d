package trigger

import (
	"context"
	"errors"
	"log/slog"

	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// If a physical range has split or merged, its feed answers 410 and the reader asks relocateRange
// for the range that has the lease's keys now. After a split there are several: the reader ends
// with [lease.ErrSplit], the worker hands in the lease with the position up to which all is
// finished, and [lease.Held.Split] creates a lease for each child.

// relocateRange reads the ranges again after the service said that the lease's range
// is gone. It fails only if the lease has to give way to its children.
func (w *rangeWorker) relocateRange(ctx context.Context) error {
	if err := w.leases.RefreshRanges(ctx); err != nil {
		w.log.Warn("read partition key ranges failed", slog.Any("error", err))
	}
	if _, err := w.locateRange(ctx); errors.Is(err, lease.ErrSplit) {
		return err
	}
	return nil
}

// locateRange returns the part of a physical range that answers for the lease now. The reader calls
// it, and after its end the end of the work.
func (w *rangeWorker) locateRange(ctx context.Context) (feed.Target, error) {
	version := w.leases.RangesVersion()
	if version == w.locatedVersion {
		return w.located, nil
	}
	part, err := w.leases.Locate(ctx, w.held.Lease())
	if err == nil {
		w.located, w.locatedVersion = feedTarget(part), version
	}
	return feedTarget(part), err
}

func isFinalRead(err error) bool {
	return errors.Is(err, lease.ErrSplit) || errors.Is(err, lease.ErrMergedUnknown) || errors.Is(err, errSuperseded) || errors.Is(err, errSnapshotVoid) || errors.Is(err, errFeedFailedOver) || errors.Is(err, errPositionLost)
}

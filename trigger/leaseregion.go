package trigger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"halley/trigger/internal/lease"
)

// WaitTrusted returns once a delivery may begin, or the reason why none may. If there was a
// sign since the last delivery that the lease container has failed over, it first confirms
// the lease: the failover may have lost the newest write of this host, so that another host
// owns the lease.
//
// It sees the end of the caller's context before the watcher does. One goroutine of
// each lane calls it; they may all confirm at the same time.
func (w *rangeWorker) WaitTrusted(ctx context.Context) error {
	for {
		if w.caller.Err() != nil {
			return errStopping
		}
		seen, confirmed := w.host.leases.Failovers(), w.confirmedFailovers.Load()
		if seen == confirmed {
			return w.held.WaitTrusted(ctx)
		}
		w.log.Warn("the lease container has failed over, or its region has changed; delivery waits until the lease is confirmed")
		if err := w.held.ConfirmOwnership(ctx); err != nil {
			return err
		}
		if w.confirmedFailovers.CompareAndSwap(confirmed, seen) {
			w.log.Info("lease confirmed after the failover")
		}
	}
}

// noteFailover keeps why no leases are acquired for the status, and tells the log once. It
// reports whether err is that.
func (r *functionRunner) noteFailover(err error) bool {
	var failover *lease.FailoverError
	if !errors.As(err, &failover) {
		return false
	}
	if former := r.failover.Swap(failover); former == nil || !former.Since.Equal(failover.Since) {
		r.log.Warn("no leases are acquired", slog.Any("error", failover))
	}
	return true
}

// failoverError says why no leases are acquired, nil if they are.
func (r *functionRunner) failoverError() error {
	if failover := r.failover.Load(); failover != nil && time.Now().Before(failover.Until) {
		return failover
	}
	return nil
}

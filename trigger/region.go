package trigger

import (
	"context"
	"log/slog"
)

// WaitTrusted returns once a delivery may begin, or the reason why none may. If the
// account's write region has changed since the last delivery, it first confirms the
// lease there: with several write regions the old region may still have accepted a
// write of this host that the new one has not seen, or has seen another owner's.
//
// It sees the end of the caller's context before the watcher does. One goroutine of
// each lane calls it; they may all confirm at the same time.
func (w *rangeWorker) WaitTrusted(ctx context.Context) error {
	for {
		if w.caller.Err() != nil {
			return errStopping
		}
		region, confirmed := w.host.leases.WriteRegion(), w.confirmedRegion.Load()
		if region == *confirmed {
			return w.held.WaitTrusted(ctx)
		}
		w.log.Warn("write region of the lease account changed; delivery waits until the lease is confirmed there",
			slog.String("from", *confirmed), slog.String("to", region))
		if err := w.held.ConfirmOwnership(ctx); err != nil {
			return err
		}
		if w.confirmedRegion.CompareAndSwap(confirmed, &region) {
			w.log.Info("lease confirmed in the account's new write region", slog.String("region", region))
		}
	}
}

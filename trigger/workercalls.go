package trigger

import (
	"context"
	"time"

	"halley/trigger/internal/delivery"
)

// The delivery of a range asks its worker for everything outside of it. The longer methods
// are in handling.go, limiter.go, region.go, deadletterwrite.go and worker.go.
var _ delivery.Calls = (*rangeWorker)(nil)

// ConfirmOwnership returns after a write of the lease that started after the call has
// succeeded.
func (w *rangeWorker) ConfirmOwnership(ctx context.Context) error {
	return w.held.ConfirmOwnership(ctx)
}

// WriteSoon asks for a write of the lease, without waiting for it.
func (w *rangeWorker) WriteSoon() { w.held.WriteSoon() }

// MadeProgress ends the lease's count of owners that ended without a release.
func (w *rangeWorker) MadeProgress() { w.held.MadeProgress() }

// ChargeBytes counts bytes that outlive their pages in the host's budget; negative returns
// them.
func (w *rangeWorker) ChargeBytes(bytes int) { w.host.pageBudget.ChargeBytes(bytes, w.reservedBytes) }

// ServiceNow is the clock of the service.
func (w *rangeWorker) ServiceNow() time.Time { return w.leases.Now() }

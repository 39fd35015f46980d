package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/schedule"
)

// leaseWriter is the only writer of a held lease: it writes checkpoints and renewals,
// and at the end the release, one at a time. Progress made during a write goes
// into the next one, so a checkpoint does not delay the handler, and costs the
// service at most one write per round trip.
//
// Its task owns the fields lease, renewAfter, wroteAt, containerMissed and renewUntil; after Stop
// has returned, the caller of Stop does. All other methods may be called from any goroutine.
type leaseWriter struct {
	// OnCheckpoint, if set, is called after each write that moved the position.
	// Set it before Start.
	OnCheckpoint func(continuation string)
	// OnWrite, if set, is called after each attempt to write, with its error. Set it
	// before Start.
	OnWrite func(err error)

	// OnLoss, if set, is called once the lease is lost, with an error that wraps [ErrLost]. Set it
	// before Start.
	OnLoss func(error)

	// RenewalMoment, if set, returns a moment for a renewal that is to begin at a time at the
	// latest: renewals of several leases at one moment cost less. Set it before Start.
	RenewalMoment func(latest time.Time) time.Time

	// OnReleaseRequest, if set, is called once: when another host has requested the
	// lease, or with the pause when an operator has paused it. The owner then begins no
	// further handler call, and releases the lease when those that are running have
	// returned. Set it before Start.
	OnReleaseRequest func(pause *Pause)

	// OnReleased, if set, is called when a host that stops has released leases which the owner may
	// acquire. Set it before Start.
	OnReleased func()

	// RunningUntil, if set, returns the latest moment at which the handler calls of
	// the range will have returned or be left behind, and whether any is running. It
	// is the answer to a handover request. Set it before Start.
	RunningUntil func() (end time.Time, running bool)

	// Properties, if set, sets properties of the lease at each write; "" removes one. Set it before
	// Start.
	Properties func(set func(name, value string))

	// Snapshot, if set, returns the position that a write stores, "" for the one last passed to
	// [Held.Advance], and what is finished behind it for [finished.Property]: both belong
	// together. Set it before Start.
	Snapshot func() (position, finished string)

	// KeepsExits keeps the count of owners that vanished through the release: this one has not
	// worked on the range. Set it after Stop.
	KeepsExits bool

	store         *leaseStore
	acquiredLease *Lease        // immutable
	renewInterval time.Duration // between writes while there is no progress
	trustedFor    time.Duration // how long after a successful write this host trusts its ownership
	log           *slog.Logger

	marks      func(set func(name, value string)) // properties of Held
	lease      *Lease                             // as last written or read
	renewAfter time.Duration                      // from the last successful write to the renewal
	wroteAt    time.Time                          // when the last write ended

	containerMissed bool // a write has met no container while this host trusted its ownership

	task        atomic.Pointer[schedule.Task] // nil before Start
	stopSignal  chan struct{}                 // closed by Stop
	lostSignal  chan struct{}                 // closed once the lease is lost
	releaseOnce sync.Once                     // calls OnReleaseRequest
	renewUntil  time.Time                     // of a requested or paused lease: the owner writes no more after it; zero is no limit

	writeState *writeState
}

func newWriter(s *leaseStore, acquired *Lease, sent time.Time, renew, expiration time.Duration, log *slog.Logger) *leaseWriter {
	return &leaseWriter{
		store: s, acquiredLease: acquired, lease: acquired,
		renewInterval: renew, renewAfter: firstRenewal(acquired.token, renew), trustedFor: expiration - expiration/10,
		log:        log.With(slog.String("range", acquired.token), slog.Int64("epoch", acquired.Epoch())),
		stopSignal: make(chan struct{}), lostSignal: make(chan struct{}),
		writeState: newWriteState(acquired.continuation, sent),
	}
}

// firstRenewal is the time from the acquisition of a lease to its first renewal: the
// leases that a host acquires in one moment are not renewed in one moment ever after.
func firstRenewal(token string, interval time.Duration) time.Duration {
	return backoff.Spread(interval, token)
}

// Lease returns the lease as it was acquired.
func (w *leaseWriter) Lease() *Lease { return w.acquiredLease }

// Epoch returns the number of this acquisition.
func (w *leaseWriter) Epoch() int64 { return w.acquiredLease.Epoch() }

// Err returns an error that wraps [ErrLost] once the lease is lost, else nil. The
// owner then ends everything that it does for the range.
func (w *leaseWriter) Err() error { return w.writeState.lossError() }

// Position returns the continuation that the stored lease holds.
func (w *leaseWriter) Position() string { return w.writeState.storedPosition() }

// Advance moves the position that the next write stores: every change before it
// is handled. The write follows by saveAt; if that is zero, with the next renewal.
func (w *leaseWriter) Advance(position string, saveAt time.Time) {
	if w.writeState.acknowledgePosition(position, saveAt) {
		w.wakeAt(saveAt.Add(coalesceWrites))
	}
}

// WriteSoon requests a write, without waiting for it.
func (w *leaseWriter) WriteSoon() { w.requestWrite() }

// MadeProgress has the next write that moves the position reset the count of
// unclean exits.
func (w *leaseWriter) MadeProgress() { w.writeState.setMadeProgress() }

// WaitTrusted returns nil once this host can rely on owning the lease, normally
// at once. If the lease is lost it returns the loss, and if ctx ends its cause.
// No delivery and no child lease begins without it.
func (w *leaseWriter) WaitTrusted(ctx context.Context) error {
	for {
		trusted, written := w.writeState.isTrusted(w.trustedFor)
		if loss := w.Err(); loss != nil {
			return loss
		}
		if trusted {
			return context.Cause(ctx)
		}
		if err := w.requestAndWait(ctx, written); err != nil {
			return err
		}
	}
}

// Flush returns nil once the stored lease holds every position passed to
// [Held.Advance] before the call.
func (w *leaseWriter) Flush(ctx context.Context) error { return w.waitStored(ctx, 0) }

// ConfirmOwnership returns nil after a write that began after the call has
// succeeded, with every position passed to [Held.Advance]: the lease was this
// host's at that moment.
func (w *leaseWriter) ConfirmOwnership(ctx context.Context) error {
	return w.waitStored(ctx, w.writeState.nextWrite())
}

// waitStored returns nil once the write of that number, or a later one, has
// stored the acknowledged position.
func (w *leaseWriter) waitStored(ctx context.Context, number int) error {
	for {
		stored, written := w.writeState.storedBy(number)
		if stored {
			return nil
		}
		if err := w.requestAndWait(ctx, written); err != nil {
			return err
		}
	}
}

// requestAndWait requests a write and waits for the one that closes written.
func (w *leaseWriter) requestAndWait(ctx context.Context, written <-chan struct{}) error {
	w.requestWrite()
	return w.waitWritten(ctx, written)
}

func (w *leaseWriter) waitWritten(ctx context.Context, written <-chan struct{}) error {
	select {
	case <-written:
		return nil
	case <-w.lostSignal:
	case <-ctx.Done():
	}
	if loss := w.Err(); loss != nil { // of two reasons the loss counts
		return loss
	}
	return context.Cause(ctx)
}

// requestWrite has the lease written soon.
func (w *leaseWriter) requestWrite() {
	w.writeState.setDue()
	w.wakeAt(time.Now().Add(coalesceWrites))
}

// wakeAt has the task look at a time whether a write is due.
func (w *leaseWriter) wakeAt(due time.Time) {
	if task := w.task.Load(); task != nil {
		task.DueBy(due)
	}
}

func (w *leaseWriter) wake() { w.wakeAt(time.Now()) }

// WriteProblem returns an error while the service refuses the writes of the lease.
func (w *leaseWriter) WriteProblem() error {
	since, err := w.writeState.refusal()
	if err == nil {
		return nil
	}
	return fmt.Errorf("lease writes refused since %s: %w", since.UTC().Format(time.RFC3339), err)
}

// coalesceWrites is the time from the request of a write to its start. Requests of one
// moment, such as those of several lanes, share one write.
const coalesceWrites = 50 * time.Microsecond

// Start begins to write the lease, in turn with others, until Stop is called or the lease is
// lost. Then it calls OnLoss. ctx bounds the requests and outlives Stop.
func (w *leaseWriter) Start(ctx context.Context, turns *schedule.Turns) {
	task := turns.NewTask(func() (wait time.Duration, continues bool) {
		wait, continues = w.writeDue(ctx)
		if !continues {
			w.store.writeGate.forget(w.acquiredLease.token)
			w.store.forgetWritten(w.acquiredLease)
		}
		return wait, continues
	})
	w.task.Store(task)
	w.store.noteWritten(w.lease)
	task.Start()
}

// Stop returns once no write is under way or follows. What is due is left to the release.
func (w *leaseWriter) Stop() {
	close(w.stopSignal)
	task := w.task.Load()
	task.Hurry()
	task.Wait()
}

// writeDue writes the lease if a checkpoint or a renewal is due, and returns the time until the
// next one is. It returns false once Stop has been called, the lease is lost or ctx has ended.
func (w *leaseWriter) writeDue(ctx context.Context) (wait time.Duration, continues bool) {
	select {
	case <-w.stopSignal:
		return 0, false
	default:
	}
	if wait := w.untilDue(); wait > 0 {
		return wait, true
	}
	err := w.writeLease(ctx, w.stopSignal, nil)
	w.wroteAt = time.Now()
	switch {
	case errors.Is(err, errDeferred):
		w.writeState.setDue()
	case errors.Is(err, ErrLost):
		w.setLost(err)
		return 0, false
	case err != nil:
		return 0, false
	}
	return 0, true // it may be due again; others have their turn before
}

// errDeferred means that the service refused a checkpoint, which gives way to
// renewals.
var errDeferred = errors.New("checkpoint refused; deferred")

// untilDue returns the time until a checkpoint or a renewal is due. It is not positive if one
// is due now.
func (w *leaseWriter) untilDue() time.Duration {
	now := time.Now()
	if !w.renewUntil.IsZero() && now.After(w.renewUntil) {
		return schedule.Never
	}
	dueAt, sent := w.writeState.writeSchedule()
	renewal := w.renewalAt(sent).Sub(now)
	if renewal <= 0 || dueAt.IsZero() {
		return renewal
	}
	if dueAt.Before(w.wroteAt) { // requested during the write, by some of those that ask again now
		dueAt = w.wroteAt
	}
	if wait := dueAt.Add(coalesceWrites).Sub(now); wait > 0 {
		return min(wait, renewal)
	}
	if retryAt, ok := w.store.writeGate.mayCheckpoint(w.acquiredLease.token, w.wake); !ok {
		return min(max(time.Until(retryAt), time.Nanosecond), renewal)
	}
	return 0
}

// renewalAt returns when a lease has to be renewed whose last successful write left at a time.
func (w *leaseWriter) renewalAt(sent time.Time) time.Time {
	latest := sent.Add(w.renewAfter)
	if w.RenewalMoment == nil {
		return latest
	}
	if moment := w.RenewalMoment(latest); moment.After(sent) {
		return moment
	}
	return latest
}

// isRenewalDue reports whether a write cannot wait: the lease has to be renewed.
func (w *leaseWriter) isRenewalDue() bool {
	_, sent := w.writeState.writeSchedule()
	return !time.Now().Before(w.renewalAt(sent))
}

func (w *leaseWriter) setLost(err error) {
	w.writeState.setLoss(err)
	close(w.lostSignal)
	if w.OnLoss != nil {
		w.OnLoss(err)
	}
}

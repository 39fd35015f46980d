package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"halley/trigger/internal/backoff"
)

// leaseWriter is the only writer of a held lease: it writes checkpoints and renewals,
// and at the end the release, one at a time. Progress made during a write goes
// into the next one, so a checkpoint does not delay the handler, and costs the
// service at most one write per round trip.
//
// The goroutine in Run owns the fields lease, renewAfter and containerMissed; after Run has returned,
// its caller does. All other methods may be called from any goroutine.
type leaseWriter struct {
	// OnCheckpoint, if set, is called after each write that moved the position.
	// Set it before Run.
	OnCheckpoint func(continuation string)
	// OnWrite, if set, is called after each attempt to write, with its error. Set it
	// before Run.
	OnWrite func(err error)

	// RunRequest, if set, runs a function that writes the lease and returns when the
	// function has: idle leases then need no stack of their own for it. Before, it may wait
	// for other requests, until stop is closed. Set it before Run.
	RunRequest func(stop <-chan struct{}, write func())

	// OnReleaseRequest, if set, is called once: when another host has requested the
	// lease, or with the pause when an operator has paused it. The owner then begins no
	// further handler call, and releases the lease when those that are running have
	// returned. Set it before Run.
	OnReleaseRequest func(pause *Pause)

	// RunningUntil, if set, returns the latest moment at which the handler calls of
	// the range will have returned or be left behind, and whether any is running. It
	// is the answer to a handover request. Set it before Run.
	RunningUntil func() (end time.Time, running bool)

	// Snapshot, if set, returns the position that a write stores, "" for the one last passed to
	// [Held.Advance], and what is finished behind it for [finished.Property]: both belong
	// together. Set it before Run.
	Snapshot func() (position, finished string)

	// KeepsExits keeps the count of owners that vanished through the release: this one has not
	// worked on the range. Set it after Run has returned.
	KeepsExits bool

	store         *leaseStore
	acquiredLease *Lease        // immutable
	renewInterval time.Duration // between writes while there is no progress
	trustedFor    time.Duration // how long after a successful write this host trusts its ownership
	log           *slog.Logger

	properties map[string]func() string // values at each write; not changed after Run has begun
	lease      *Lease                   // as last written or read
	renewAfter time.Duration            // from the last successful write to the renewal

	containerMissed bool // a write has met no container while this host trusted its ownership

	wakeSignal  chan struct{} // capacity 1: a write is due
	lostSignal  chan struct{} // closed once the lease is lost
	releaseOnce sync.Once     // calls OnReleaseRequest
	renewUntil  time.Time     // of a requested or paused lease: the owner writes no more after it; zero is no limit

	writeState *writeState
}

func newWriter(s *leaseStore, acquired *Lease, sent time.Time, renew, expiration time.Duration, log *slog.Logger) *leaseWriter {
	return &leaseWriter{
		store: s, acquiredLease: acquired, lease: acquired,
		renewInterval: renew, renewAfter: firstRenewal(acquired.token, renew), trustedFor: expiration - expiration/10,
		log:        log.With(slog.String("range", acquired.token), slog.Int64("epoch", acquired.Epoch())),
		properties: map[string]func() string{},
		wakeSignal: make(chan struct{}, 1), lostSignal: make(chan struct{}),
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

// SetProperty has each write set a property to the value that the function then
// returns; "" removes it. Call it before Run.
func (w *leaseWriter) SetProperty(name string, value func() string) { w.properties[name] = value }

// Err returns an error that wraps [ErrLost] once the lease is lost, else nil. The
// owner then ends everything that it does for the range.
func (w *leaseWriter) Err() error { return w.writeState.lossError() }

// Position returns the continuation that the stored lease holds.
func (w *leaseWriter) Position() string { return w.writeState.storedPosition() }

// Advance moves the position that the next write stores: every change before it
// is handled. The write follows by saveAt; if that is zero, with the next renewal.
func (w *leaseWriter) Advance(position string, saveAt time.Time) {
	if w.writeState.acknowledgePosition(position, saveAt) {
		w.wakeRun()
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

// requestWrite has Run write soon.
func (w *leaseWriter) requestWrite() {
	w.writeState.setDue()
	w.wakeRun()
}

func (w *leaseWriter) wakeRun() {
	select {
	case w.wakeSignal <- struct{}{}:
	default:
	}
}

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

// Run writes the lease until stop is closed or the lease is lost. ctx bounds the
// requests and outlives stop.
func (w *leaseWriter) Run(ctx context.Context, stop <-chan struct{}) {
	defer w.store.writeGate.forget(w.acquiredLease.token)
	for w.waitDue(stop) {
		coalesce := time.NewTimer(coalesceWrites)
		select {
		case <-coalesce.C:
		case <-stop: // the release includes the write
			coalesce.Stop()
			return
		}
		var err error
		write := func() { err = w.writeLease(ctx, stop, nil) }
		if w.RunRequest == nil {
			write()
		} else {
			w.RunRequest(stop, write)
		}
		switch {
		case errors.Is(err, errDeferred):
			w.writeState.setDue()
		case errors.Is(err, ErrLost):
			w.setLost(err)
			return
		case err != nil:
			return
		}
	}
}

// errDeferred means that the service refused a checkpoint, which gives way to
// renewals.
var errDeferred = errors.New("checkpoint refused; deferred")

// waitDue returns true when a write or a renewal is due, false once stop is closed.
func (w *leaseWriter) waitDue(stop <-chan struct{}) bool {
	for {
		select {
		case <-stop: // before any write that is due: the release includes it
			return false
		default:
		}
		if !w.renewUntil.IsZero() && time.Now().After(w.renewUntil) {
			<-stop
			return false
		}
		now := time.Now()
		dueAt, sent := w.writeState.writeSchedule()
		wait := w.renewAfter - now.Sub(sent)
		var open <-chan struct{}
		switch {
		case dueAt.IsZero():
		case dueAt.After(now):
			wait = min(wait, dueAt.Sub(now))
		default:
			ok, retryAt, opened := true, time.Time{}, open
			if wait > 0 {
				ok, retryAt, opened = w.store.writeGate.mayCheckpoint(w.acquiredLease.token)
			}
			if ok {
				return true
			}
			wait, open = min(wait, time.Until(retryAt)), opened
		}
		timer := time.NewTimer(wait)
		select {
		case <-stop:
			timer.Stop()
			return false
		case <-w.wakeSignal:
		case <-open:
		case <-timer.C:
			if time.Since(sent) >= w.renewAfter {
				return true
			}
		}
		timer.Stop()
	}
}

// isRenewalDue reports whether a write cannot wait: the lease has to be renewed.
func (w *leaseWriter) isRenewalDue() bool {
	_, sent := w.writeState.writeSchedule()
	return time.Since(sent) >= w.renewAfter
}

func (w *leaseWriter) setLost(err error) {
	w.writeState.setLoss(err)
	close(w.lostSignal)
}

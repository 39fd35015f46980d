package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/finished"
)

// leaseWriter is the only writer of a held lease: it writes checkpoints and renewals,
// and at the end the release, one at a time. Progress made during a write goes
// into the next one, so a checkpoint does not delay the handler, and costs the
// service at most one write per round trip.
//
// The goroutine in Run owns the fields lease and renewAfter; after Run has returned,
// its caller does. All other methods may be called from any goroutine.
type leaseWriter struct {
	// OnCheckpoint, if set, is called after each write that moved the position.
	// Set it before Run.
	OnCheckpoint func(continuation string)
	// OnWrite, if set, is called after each attempt to write, with its error. Set it
	// before Run.
	OnWrite func(err error)

	// RunRequest, if set, runs a function that writes the lease and returns when the
	// function has: idle leases then need no stack of their own for it. Set it before Run.
	RunRequest func(func())

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

	store         *leaseStore
	acquiredLease *Lease        // immutable
	renewInterval time.Duration // between writes while there is no progress
	trustedFor    time.Duration // how long after a successful write this host trusts its ownership
	log           *slog.Logger

	properties map[string]func() string // values at each write; not changed after Run has begun
	lease      *Lease                   // as last written or read
	renewAfter time.Duration            // from the last successful write to the renewal

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
	return backoff.Wait(1, interval, interval, token)
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
			w.RunRequest(write)
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
			may, again, opened := true, time.Time{}, open
			if wait > 0 {
				may, again, opened = w.store.writeGate.mayCheckpoint(w.acquiredLease.token)
			}
			if may {
				return true
			}
			wait, open = min(wait, time.Until(again)), opened
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

// maxRefusedPause bounds the backoff of a refused renewal unless the service
// requests a longer wait: from the first attempt at 17 s until trust ends at 54 s,
// a renewal gets about 18 attempts.
const maxRefusedPause = 2 * time.Second

// maxConflicts bounds the writes that are repeated at once after a conflict.
const maxConflicts = 3

// writeLease stores the acknowledged position and what change adds. It repeats until
// the write succeeds, stop is closed, ctx ends or the lease is lost. A nil stop
// is never closed.
func (w *leaseWriter) writeLease(ctx context.Context, stop <-chan struct{}, change func(*Lease)) error {
	for failures, conflicts := 0, 0; ; {
		err := w.writeOnce(ctx, change)
		if w.OnWrite != nil {
			w.OnWrite(err)
		}
		if err == nil || errors.Is(err, ErrLost) {
			return err
		}
		if errors.Is(err, ErrChanged) && conflicts < maxConflicts && ctx.Err() == nil {
			conflicts++ // a request or a lost answer: the next write has the etag that was read
			continue
		}
		failures++
		pause := backoff.Wait(failures, backoff.Min, w.renewInterval/2, w.acquiredLease.owner, w.acquiredLease.token)
		if retryAfter, refused := refusal(err); refused {
			w.writeState.setRefused(err)
			if renewal := w.isRenewalDue(); stop != nil { // Run forgets it at its end
				w.store.writeGate.refuse(w.acquiredLease.token, renewal, retryAfter, err)
				if !renewal {
					return errDeferred
				}
			}
			pause = max(min(pause, maxRefusedPause), retryAfter)
		} else {
			w.log.Warn("lease write failed", slog.Any("error", err), slog.Int("failures", failures))
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-stop:
			wait.Stop()
			return err
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}

// writeOnce makes one attempt. If the answer does not say which version is
// stored, it reads the document: with this host's owner, incarnation and epoch in
// it the lease is still held, whatever the etag; otherwise it is lost.
func (w *leaseWriter) writeOnce(ctx context.Context, change func(*Lease)) error {
	// An answer that does not come must leave time for another attempt.
	bounded, cancel := context.WithTimeout(ctx, w.trustedFor/2)
	defer cancel()
	next, number := w.beginWrite()
	if change != nil {
		change(next)
	}
	sent := time.Now()
	err := w.store.replaceLease(cosmos.WithoutThrottleRetries(bounded), next)
	switch o := cosmos.Classify(err); {
	case o == cosmos.OutcomeSucceeded:
		w.adoptLease(next, sent, number)
		return nil
	case o == cosmos.OutcomeNotFound:
		return w.deletedError()
	case !o.Unsure():
		return fmt.Errorf("write lease %q: %w", w.lease.token, err)
	}
	readErr := w.afterConflict(ctx)
	if _, refused := refusal(err); refused && errors.Is(readErr, ErrChanged) {
		return err // the lease is held: the refusal is the news
	}
	return readErr
}

// answerRequest says in the next version of the lease how long handler calls run
// at most, if another host has requested it or an operator has paused it. After that time the owner stops
// renewing: the requester must not wait for an owner that does not keep its word.
func (w *leaseWriter) answerRequest(next *Lease) {
	next.setBusy(time.Time{})
	if w.renewUntil.IsZero() || w.RunningUntil == nil {
		return
	}
	if end, running := w.RunningUntil(); running {
		next.setBusy(w.store.serviceNow().Add(time.Until(end)))
		if end.After(w.renewUntil) {
			w.renewUntil = end
		}
	}
}

// beginWrite returns the next version of the lease and the number of its write.
func (w *leaseWriter) beginWrite() (next *Lease, number int) {
	next = w.lease.clone()
	position, madeProgress, number := w.writeState.beginWrite()
	next.continuation = position
	w.fillProperties(next)
	if madeProgress && (next.continuation != w.acquiredLease.continuation || next.properties[finished.Property] != w.acquiredLease.properties[finished.Property]) {
		delete(next.properties, uncleanExitsProperty)
	}
	w.answerRequest(next)
	return next, number
}

// fillProperties gives a version of the lease the properties as they are now, and the
// position that belongs to them.
func (w *leaseWriter) fillProperties(l *Lease) {
	if w.Snapshot != nil {
		position, value := w.Snapshot()
		l.continuation = cmp.Or(position, l.continuation)
		delete(l.properties, finished.Property)
		if value != "" {
			l.properties[finished.Property] = value
		}
	}
	for name, value := range w.properties {
		delete(l.properties, name)
		if v := value(); v != "" {
			l.properties[name] = v
		}
	}
}

// afterConflict reads the lease after a write of unknown outcome. Its error has
// the caller try again, unless it is ErrLost.
func (w *leaseWriter) afterConflict(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, w.trustedFor/6)
	defer cancel()
	if err := w.rereadLease(bounded); err != nil {
		return err
	}
	if p, paused := w.lease.Paused(); paused {
		w.releaseOnce.Do(func() {
			w.log.Info("range paused by an operator", slog.String("reason", p.Reason))
			w.requestRelease(&p)
		})
	} else if by := w.lease.properties[handoverProperty]; by != "" {
		w.releaseOnce.Do(func() {
			w.log.Info("handover requested by another host", slog.String("by", by))
			w.requestRelease(nil)
		})
	}
	return fmt.Errorf("write lease %q: %w", w.lease.token, ErrChanged)
}

// requestRelease tells the worker to end, and gives it a renewal interval at least.
func (w *leaseWriter) requestRelease(pause *Pause) {
	w.renewUntil = time.Now().Add(w.renewInterval)
	if w.OnReleaseRequest != nil {
		w.OnReleaseRequest(pause)
	}
}

// rereadLease adopts the stored lease. The error is ErrLost if another acquisition
// has replaced this one.
func (w *leaseWriter) rereadLease(ctx context.Context) error {
	fresh, err := w.store.readLease(ctx, w.lease)
	if errors.Is(err, errDeleted) {
		return w.deletedError()
	}
	if err != nil {
		return err
	}
	if fresh.ownership() != w.acquiredLease.ownership() && w.lease.isRecreated(fresh) {
		return w.deletedError()
	}
	if fresh.ownership() != w.acquiredLease.ownership() {
		return fmt.Errorf("write lease %q: %w (owner %q, epoch %d)", w.lease.token, ErrLost, fresh.owner, fresh.Epoch())
	}
	w.lease = fresh
	return nil
}

// deletedError is the loss of a lease whose document is gone. If this host trusts
// its ownership, the lease can be restored; otherwise another host may have
// acquired and retired it.
func (w *leaseWriter) deletedError() error {
	if trusted, _ := w.writeState.isTrusted(w.trustedFor); trusted {
		return fmt.Errorf("write lease %q: %w", w.lease.token, errDeleted)
	}
	return fmt.Errorf("write lease %q: %w (document deleted after trust ended)", w.lease.token, ErrLost)
}

// adoptLease records a successful write.
func (w *leaseWriter) adoptLease(l *Lease, sent time.Time, number int) {
	moved := l.continuation != w.lease.continuation
	w.lease, w.renewAfter = l, w.renewInterval
	w.writeState.writeSucceeded(l.continuation, sent, number)
	w.store.writeGate.forget(l.token)
	if moved && w.OnCheckpoint != nil {
		w.OnCheckpoint(l.continuation)
	}
}

// Release gives the lease back with the newest position, in one write. It is a
// courtesy to the next owner: if it fails, the lease expires. Call it after Run
// has returned.
func (w *leaseWriter) Release(ctx context.Context) error {
	err := w.writeLease(ctx, nil, func(l *Lease) {
		l.owner = ""
		delete(l.properties, incarnationProperty)
		delete(l.properties, expirationProperty)
		delete(l.properties, protocolProperty)
		l.setBusy(time.Time{})
		delete(l.properties, uncleanExitsProperty)
	})
	if errors.Is(err, ErrLost) {
		return nil // released by a write whose answer was lost, or another host's already
	}
	return err
}

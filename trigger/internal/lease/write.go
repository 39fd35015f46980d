package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/finished"
)

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
		if (errors.Is(err, ErrChanged) || errors.Is(err, errNotApplied)) && conflicts < maxConflicts && ctx.Err() == nil {
			conflicts++ // a request or a lost answer: the next write has the etag that was read
			continue
		}
		failures++
		pause := backoff.Wait(failures, backoff.Min, w.renewInterval/2, w.acquiredLease.owner, w.acquiredLease.token)
		if retryAfter, refused := refusal(err); refused {
			w.writeState.setRefused(err)
			if renewal := w.isRenewalDue(); stop != nil { // the task forgets it at its end
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
	outcome := cosmos.Classify(err)
	switch {
	case outcome == cosmos.OutcomeSucceeded:
		w.adoptLease(next, sent, number)
		return nil
	case outcome == cosmos.OutcomeNotFound:
		return w.deletedError()
	case outcome == cosmos.OutcomeContainerGone:
		if trusted, _ := w.writeState.isTrusted(w.trustedFor); trusted {
			w.containerMissed = true
		}
		fallthrough
	case !outcome.Unsure():
		return fmt.Errorf("write lease %q: %w", w.lease.token, err)
	}
	former := w.lease.etag
	readErr := w.afterConflict(ctx)
	if !errors.Is(readErr, ErrChanged) {
		return readErr
	}
	if _, refused := refusal(err); refused {
		return err // the lease is held: the refusal is the news
	}
	if w.lease.etag == former && outcome != cosmos.OutcomeConflict {
		return fmt.Errorf("write lease %q: %w: %w", w.lease.token, errNotApplied, err)
	}
	return readErr
}

// errNotApplied is in the error of a write without an answer that did not change the lease.
var errNotApplied = errors.New("not applied")

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
	set := func(name, value string) {
		delete(l.properties, name)
		if value != "" {
			l.properties[name] = value
		}
	}
	w.marks(set)
	if w.Properties != nil {
		w.Properties(set)
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
	if host := w.lease.properties[releasedProperty]; host != "" && w.OnReleased != nil {
		w.log.Info("another host has stopped and released leases", slog.String("by", host))
		w.OnReleased()
	}
	if p, paused := w.lease.Paused(); paused {
		w.releaseOnce.Do(func() {
			w.log.Info("range paused by an operator", slog.String("reason", p.Reason))
			w.requestRelease(&p)
		})
	} else if requester := w.lease.properties[handoverProperty]; requester != "" {
		w.releaseOnce.Do(func() {
			w.log.Info("handover requested by another host", slog.String("by", requester))
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
// has replaced this one. If a failover has lost this one, the next write repeats it.
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
	if w.isAcquisitionLost(fresh) {
		w.log.Info("a failover has lost the acquisition of the lease; it is written again", slog.Int64("found", fresh.Epoch()))
		mine := w.lease.clone()
		mine.etag = fresh.etag
		w.lease = mine
		return nil
	}
	if fresh.ownership() != w.acquiredLease.ownership() {
		return fmt.Errorf("write lease %q: %w (owner %q, epoch %d)", w.lease.token, ErrLost, fresh.owner, fresh.Epoch())
	}
	w.lease = fresh
	return nil
}

// isAcquisitionLost reports whether the stored lease is a version of before its acquisition by this
// host, and nobody can have acquired it since: not on top of the acquisition while this host trusts
// it, and not on top of that version, which is free or this process's own.
func (w *leaseWriter) isAcquisitionLost(fresh *Lease) bool {
	trusted, _ := w.writeState.isTrusted(w.trustedFor)
	_, paused := fresh.Paused()
	isFree := fresh.owner == "" && !fresh.Tombstone()
	isOwn := fresh.properties[incarnationProperty] == w.acquiredLease.properties[incarnationProperty]
	return trusted && !paused && (isFree || isOwn) && fresh.Epoch() < w.acquiredLease.Epoch() &&
		w.store.container.Client().FailsOver()
}

// deletedError is the loss of a lease whose document is gone. If this host trusts
// its ownership, or did when the container was first missing, the lease can be restored;
// otherwise another host may have acquired and retired it.
func (w *leaseWriter) deletedError() error {
	if trusted, _ := w.writeState.isTrusted(w.trustedFor); trusted || w.containerMissed {
		return fmt.Errorf("write lease %q: %w", w.lease.token, errDeleted)
	}
	return fmt.Errorf("write lease %q: %w (document deleted after trust ended)", w.lease.token, ErrLost)
}

// adoptLease records a successful write.
func (w *leaseWriter) adoptLease(l *Lease, sent time.Time, number int) {
	moved := l.continuation != w.lease.continuation
	w.lease, w.renewAfter, w.containerMissed = l, w.renewInterval, false
	if l.owner == w.acquiredLease.owner { // it is not the release
		w.store.noteWritten(l)
	}
	w.writeState.writeSucceeded(l.continuation, sent, number)
	w.store.writeGate.forget(l.token)
	if moved && w.OnCheckpoint != nil {
		w.OnCheckpoint(l.continuation)
	}
}

// Release gives the lease back with the newest position, in one write. It is a
// courtesy to the next owner: if it fails, the lease expires. If the document or its
// container is gone, [Held.DeletedLease] has the lease. Call it after Stop.
func (w *leaseWriter) Release(ctx context.Context) error {
	err := w.writeLease(ctx, nil, func(l *Lease) {
		l.owner = ""
		delete(l.properties, incarnationProperty)
		delete(l.properties, expirationProperty)
		delete(l.properties, protocolProperty)
		l.setBusy(time.Time{})
		if !w.KeepsExits {
			delete(l.properties, uncleanExitsProperty)
		}
	})
	switch {
	case errors.Is(err, ErrLost): // released by a write whose answer was lost, or another host's already
		w.writeState.setLoss(err)
		return nil
	case cosmos.Classify(err) == cosmos.OutcomeContainerGone:
		w.writeState.setLoss(w.deletedError())
	}
	return err
}

package lease

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

// writer is the only writer of a held lease: it writes checkpoints and renewals,
// and at the end the release, one at a time. Progress made during a write goes
// into the next one, so a checkpoint does not delay the handler, and costs the
// service at most one write per round trip.
//
// The goroutine in Run owns the field lease; after Run has returned, its caller
// does. All other methods may be called from any goroutine.
type writer struct {
	// OnCheckpoint, if set, is called after each write that moved the position.
	// Set it before Run.
	OnCheckpoint func(continuation string)

	store    *store
	acquired *Lease        // immutable
	renew    time.Duration // between writes while there is no progress
	trust    time.Duration // how long after a successful write this host trusts its ownership
	log      *zap.Logger

	properties map[string]func() string // values at each write; not changed after Run has begun
	lease      *Lease                   // as last written or read

	wake      chan struct{} // capacity 1: a write is due
	lost      chan struct{} // closed once the lease is lost
	requested chan struct{} // closed once another host has requested the lease
	closing   sync.Once     // closes requested

	state *writeState
}

func newWriter(s *store, acquired *Lease, sent time.Time, renew, expiration time.Duration, log *zap.Logger) *writer {
	return &writer{
		store: s, acquired: acquired, lease: acquired,
		renew: renew, trust: expiration - expiration/10,
		log:        log.With(zap.String("range", acquired.token), zap.Int64("epoch", acquired.Epoch())),
		properties: map[string]func() string{},
		wake:       make(chan struct{}, 1), lost: make(chan struct{}), requested: make(chan struct{}),
		state: newWriteState(acquired.continuation, sent),
	}
}

// Lease returns the lease as it was acquired.
func (w *writer) Lease() *Lease { return w.acquired }

// Epoch returns the number of this acquisition.
func (w *writer) Epoch() int64 { return w.acquired.Epoch() }

// SetProperty has each write set a property to the value that the function then
// returns; "" removes it. Call it before Run.
func (w *writer) SetProperty(name string, value func() string) { w.properties[name] = value }

// Lost returns a channel that is closed once the lease is lost. The owner then
// ends everything that it does for the range; [Held.Err] says why.
func (w *writer) Lost() <-chan struct{} { return w.lost }

// HandoverRequested returns a channel that is closed once another host has
// requested the lease. The owner finishes the current batch and releases it.
func (w *writer) HandoverRequested() <-chan struct{} { return w.requested }

// Err returns an error that wraps [ErrLost] once the lease is lost, else nil.
func (w *writer) Err() error { return w.state.err() }

// Position returns the continuation that the stored lease holds.
func (w *writer) Position() string { return w.state.position() }

// Advance moves the position that the next write stores: every change before it
// is handled. If urgent, the write follows at once, else with the next renewal.
func (w *writer) Advance(position string, urgent bool) {
	w.state.acknowledge(position)
	if urgent {
		w.requestWrite()
	}
}

// MadeProgress has the next write that moves the position reset the count of
// unclean exits.
func (w *writer) MadeProgress() { w.state.setMadeProgress() }

// WaitTrusted returns nil once this host can rely on owning the lease, normally
// at once. If the lease is lost it returns the loss, and if ctx ends its cause.
// No delivery and no child lease begins without it.
func (w *writer) WaitTrusted(ctx context.Context) error {
	for {
		trusted, written := w.state.trusted(w.trust)
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
func (w *writer) Flush(ctx context.Context) error { return w.waitStored(ctx, 0) }

// ConfirmOwnership returns nil after a write that began after the call has
// succeeded, with every position passed to [Held.Advance]: the lease was this
// host's at that moment. It first waits for a write that is due or under way, so
// that the number of writes does not depend on timing and simulations repeat.
func (w *writer) ConfirmOwnership(ctx context.Context) error {
	for {
		idle, next, written := w.state.next()
		if idle {
			return w.waitStored(ctx, next)
		}
		if err := w.wait(ctx, written); err != nil {
			return err
		}
	}
}

// waitStored returns nil once the write of that number, or a later one, has
// stored the acknowledged position.
func (w *writer) waitStored(ctx context.Context, number int) error {
	for {
		stored, written := w.state.storedBy(number)
		if stored {
			return nil
		}
		if err := w.requestAndWait(ctx, written); err != nil {
			return err
		}
	}
}

// requestAndWait requests a write and waits for the one that closes written.
func (w *writer) requestAndWait(ctx context.Context, written <-chan struct{}) error {
	w.requestWrite()
	return w.wait(ctx, written)
}

func (w *writer) wait(ctx context.Context, written <-chan struct{}) error {
	select {
	case <-written:
		return nil
	case <-w.lost:
	case <-ctx.Done():
	}
	if loss := w.Err(); loss != nil { // of two reasons the loss counts
		return loss
	}
	return context.Cause(ctx)
}

// requestWrite has Run write soon.
func (w *writer) requestWrite() {
	w.state.setDue()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run writes the lease until stop is closed or the lease is lost. ctx bounds the
// requests and outlives stop.
func (w *writer) Run(ctx context.Context, stop <-chan struct{}) {
	for w.waitDue(stop) {
		err := w.write(ctx, stop, nil)
		if errors.Is(err, ErrLost) {
			w.lose(err)
		}
		if err != nil {
			return
		}
	}
}

// waitDue returns true when a write or a renewal is due, false once stop is closed.
func (w *writer) waitDue(stop <-chan struct{}) bool {
	for {
		select {
		case <-stop: // before any write that is due: the release includes it
			return false
		default:
		}
		_, sent := w.state.schedule()
		renewal := time.NewTimer(w.renew - time.Since(sent))
		select {
		case <-stop:
			renewal.Stop()
			return false
		case <-w.wake:
			renewal.Stop()
			if due, _ := w.state.schedule(); due {
				return true
			}
		case <-renewal.C:
			return true
		}
	}
}

func (w *writer) lose(err error) {
	w.state.setLoss(err)
	close(w.lost)
}

// write stores the acknowledged position and what change adds. It repeats until
// the write succeeds, stop is closed, ctx ends or the lease is lost. A nil stop
// is never closed.
func (w *writer) write(ctx context.Context, stop <-chan struct{}, change func(*Lease)) error {
	for failures := 0; ; {
		err := w.writeOnce(ctx, change)
		if err == nil || errors.Is(err, ErrLost) {
			return err
		}
		failures++
		w.log.Warn("lease write failed", zap.Error(err), zap.Int("failures", failures))
		wait := time.NewTimer(backoff.Wait(failures, backoff.Min, w.renew/2, w.acquired.owner, w.acquired.token))
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
func (w *writer) writeOnce(ctx context.Context, change func(*Lease)) error {
	// An answer that does not come must leave time for another attempt.
	bounded, cancel := context.WithTimeout(ctx, w.trust/2)
	defer cancel()
	next, number := w.beginWrite()
	if change != nil {
		change(next)
	}
	sent := time.Now()
	err := w.store.replace(bounded, next)
	switch o := cosmos.Classify(err); {
	case o == cosmos.Succeeded:
		w.adopt(next, sent, number)
		return nil
	case o == cosmos.NotFound:
		return fmt.Errorf("write lease %q: %w (document deleted)", w.lease.token, ErrLost)
	case !o.Unsure():
		return fmt.Errorf("write lease %q: %w", w.lease.token, err)
	}
	return w.afterConflict(ctx)
}

// beginWrite returns the next version of the lease and the number of its write.
func (w *writer) beginWrite() (next *Lease, number int) {
	next = w.lease.clone()
	position, madeProgress, number := w.state.begin()
	next.continuation = position
	if madeProgress && position != w.acquired.continuation {
		delete(next.properties, uncleanExitsProperty)
	}
	for name, value := range w.properties {
		delete(next.properties, name)
		if v := value(); v != "" {
			next.properties[name] = v
		}
	}
	return next, number
}

// afterConflict reads the lease after a write of unknown outcome. Its error has
// the caller try again, unless it is ErrLost.
func (w *writer) afterConflict(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, w.trust/6)
	defer cancel()
	if err := w.reread(bounded); err != nil {
		return err
	}
	if by := w.lease.properties[handoverProperty]; by != "" && by != w.acquired.owner {
		w.log.Info("handover requested by another host", zap.String("by", by))
		w.closing.Do(func() { close(w.requested) })
	}
	return fmt.Errorf("write lease %q: changed since it was read; trying again", w.lease.token)
}

// reread adopts the stored lease. The error is ErrLost if another acquisition
// has replaced this one.
func (w *writer) reread(ctx context.Context) error {
	fresh, err := w.store.read(ctx, w.lease)
	if err != nil {
		return err
	}
	if fresh.ownership() != w.acquired.ownership() {
		return fmt.Errorf("write lease %q: %w (owner %q, epoch %d)", w.lease.token, ErrLost, fresh.owner, fresh.Epoch())
	}
	w.lease = fresh
	return nil
}

// adopt records a successful write.
func (w *writer) adopt(l *Lease, sent time.Time, number int) {
	moved := l.continuation != w.lease.continuation
	w.lease = l
	w.state.succeed(l.continuation, sent, number)
	if moved && w.OnCheckpoint != nil {
		w.OnCheckpoint(l.continuation)
	}
}

// Release gives the lease back with the newest position, in one write. It is a
// courtesy to the next owner: if it fails, the lease expires. Call it after Run
// has returned.
func (w *writer) Release(ctx context.Context) error {
	err := w.write(ctx, nil, func(l *Lease) {
		l.owner = ""
		delete(l.properties, incarnationProperty)
		delete(l.properties, expirationProperty)
		delete(l.properties, uncleanExitsProperty)
	})
	if errors.Is(err, ErrLost) {
		return nil // released by a write whose answer was lost, or another host's already
	}
	return err
}

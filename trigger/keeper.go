package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"

	"go.uber.org/zap"
)

// keeper is the one writer of a held lease: checkpoint, renewal and release
// are its alone, one at a time. Progress made while a write is under way goes
// into the next, so that checkpoints cost the handler nothing and the service
// no more than one write per round trip.
type keeper struct {
	store *leaseStore
	id    identity
	renew time.Duration // between writes while there is no progress
	trust time.Duration // how long a write lets us call the lease ours
	log   *zap.Logger
	event func(Event)

	lose  context.CancelCauseFunc // ends the worker; called once the lease is lost
	yield context.CancelCauseFunc // ends reading; called when another host asks for the lease
	wake  chan struct{}           // capacity 1: there is something to write

	lease    *lease    // as last written or read; run's alone until it has returned
	troubles *troubles // what goes into the lease beside the position

	mu           sync.Mutex
	began        string        // the continuation as acquired
	acknowledged string        // the continuation that a checkpoint may hold
	stored       string        // the one that the lease holds
	due          bool          // a write is asked for, before the next renewal
	survived     bool          // something was finished: the deaths before do not count any more
	sent         time.Time     // when the last successful write left
	writing      bool          // one is under way, or failed and will be repeated
	writes       int           // begun so far
	stands       int           // which of them was the last that succeeded
	written      chan struct{} // closed and replaced at each successful write
}

func newKeeper(l *lease, id identity, sent time.Time, f *function, t *troubles) *keeper {
	o := f.host.opts
	return &keeper{
		store: f.store, id: id, lease: l, troubles: t, event: f.event,
		log:   f.log.With(zap.String("range", l.token), zap.Int64("epoch", id.epoch)),
		renew: o.LeaseRenewInterval, trust: o.LeaseExpirationInterval - o.LeaseExpirationInterval/10,
		wake: make(chan struct{}, 1), written: make(chan struct{}),
		began: l.continuation, acknowledged: l.continuation, stored: l.continuation, sent: sent,
	}
}

// advance says that everything up to the continuation is handled. Where that
// held no change there is nothing to hurry for: it goes with the next renewal.
func (k *keeper) advance(continuation string, changes bool) {
	k.mu.Lock()
	k.acknowledged = continuation
	k.mu.Unlock()
	if changes {
		k.ask()
	}
}

// survive says that this owner got somewhere.
func (k *keeper) survive() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.survived = true
}

// position is the continuation that the lease holds.
func (k *keeper) position() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stored
}

// ask has run write soon.
func (k *keeper) ask() {
	k.mu.Lock()
	k.due = true
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// trusted reports whether the lease can be called ours without asking: the
// last write that succeeded left less than the expiration ago, by the
// monotonic clock and by the wall clock. The two differ after a suspended
// machine resumes and after a clock step; then a write has to prove it again.
func (k *keeper) trusted() (bool, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	wall := now.Round(0).Sub(k.sent.Round(0))
	return now.Sub(k.sent) < k.trust && wall < k.trust && wall > -k.trust, k.written
}

// await returns once the lease is trusted, which in the normal case is at once,
// or the cause why ctx ended. No delivery and no child lease begins without it.
func (k *keeper) await(ctx context.Context) error {
	for {
		ok, written := k.trusted()
		if ok {
			return context.Cause(ctx)
		}
		if err := k.next(ctx, written); err != nil {
			return err
		}
	}
}

// flush returns once what is acknowledged is in the lease.
func (k *keeper) flush(ctx context.Context) error { return k.save(ctx, 0) }

// prove returns once a write that began after the call has succeeded, with all
// that is acknowledged: then the lease was this owner's at that moment. What is to
// be written already is waited for first, so that it is no matter of chance whether
// that begins in time.
func (k *keeper) prove(ctx context.Context) error {
	for {
		k.mu.Lock()
		idle, next, written := !k.due && !k.writing, k.writes+1, k.written
		k.mu.Unlock()
		if idle {
			return k.save(ctx, next)
		}
		select {
		case <-written:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// save returns once the lease holds what is acknowledged, by that write or a
// later one.
func (k *keeper) save(ctx context.Context, write int) error {
	for {
		k.mu.Lock()
		done, written := k.stands >= write && k.stored == k.acknowledged, k.written
		k.mu.Unlock()
		if done {
			return nil
		}
		if err := k.next(ctx, written); err != nil {
			return err
		}
	}
}

// next asks for a write and waits for the one that closes written.
func (k *keeper) next(ctx context.Context, written <-chan struct{}) error {
	k.ask()
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run writes until stop is closed or the lease is lost. Afterwards the caller
// owns k.lease. ctx bounds the requests and outlives stop.
func (k *keeper) run(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-stop: // before any wish to write: the release carries it
			return
		default:
		}
		renewal := time.NewTimer(k.renew - time.Since(k.lastSent()))
		select {
		case <-stop:
			renewal.Stop()
			return
		case <-k.wake:
			renewal.Stop()
			if !k.isDue() {
				continue
			}
		case <-renewal.C:
		}
		if err := k.write(ctx, stop, nil); err != nil {
			if errors.Is(err, errLeaseLost) {
				k.lose(err)
			}
			return
		}
	}
}

func (k *keeper) isDue() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.due
}

func (k *keeper) lastSent() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sent
}

// write puts the acknowledged continuation, and what change adds, into the
// lease, again and again until it is there, stop is closed or the lease is
// lost. A nil stop tries until ctx ends.
func (k *keeper) write(ctx context.Context, stop <-chan struct{}, change func(*lease)) error {
	for failures := 0; ; {
		err := k.writeOnce(ctx, change)
		if err == nil || errors.Is(err, errLeaseLost) {
			return err
		}
		failures++
		k.log.Warn("lease write failed", zap.Error(err), zap.Int("failures", failures))
		wait := time.NewTimer(backoff.Wait(failures, backoff.Min, k.renew/2, k.id.owner, k.lease.token))
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

// writeOnce makes one attempt. Where the answer leaves open what is stored, it
// reads the document: with our owner, incarnation and epoch in it the lease is
// still ours, whatever the etag; otherwise it is lost.
func (k *keeper) writeOnce(ctx context.Context, change func(*lease)) error {
	// An answer that does not come is given up while there is time for another try.
	outer := ctx
	ctx, cancel := context.WithTimeout(outer, k.trust/2)
	defer cancel()
	next := k.lease.clone()
	k.mu.Lock()
	next.continuation = k.acknowledged
	if k.survived && next.continuation != k.began {
		delete(next.properties, deathsProperty)
	}
	k.due, k.writing = false, true
	k.writes++
	write := k.writes
	k.mu.Unlock()
	delete(next.properties, troubleProperty)
	if left := k.troubles.property(); left != "" {
		next.properties[troubleProperty] = left
	}
	if change != nil {
		change(next)
	}
	sent := time.Now()
	err := k.store.replace(ctx, next)
	switch o := cosmos.Classify(err); {
	case o == cosmos.Succeeded:
		k.adopt(next, sent, write)
		return nil
	case o == cosmos.NotFound:
		return fmt.Errorf("write lease %q: %w (document deleted)", k.lease.token, errLeaseLost)
	case !o.Unsure():
		return fmt.Errorf("write lease %q: %w", k.lease.token, err)
	}
	again, cancelAgain := context.WithTimeout(outer, k.trust/6)
	defer cancelAgain()
	if readErr := k.reread(again); readErr != nil {
		return readErr
	}
	if by := k.lease.properties[handoverProperty]; by != "" && by != k.id.owner {
		k.log.Info("lease is asked for", zap.String("by", by))
		k.yield(errHandedOver)
	}
	return fmt.Errorf("write lease %q: changed since it was read; once more", k.lease.token)
}

// reread adopts the stored lease, if it still is this owner's: errLeaseLost.
func (k *keeper) reread(ctx context.Context) error {
	fresh, err := k.store.read(ctx, k.lease)
	if err != nil {
		return err
	}
	if !fresh.heldBy(k.id) {
		return fmt.Errorf("write lease %q: %w (owner %q, epoch %d)", k.lease.token, errLeaseLost, fresh.owner, fresh.epoch())
	}
	k.lease = fresh
	return nil
}

func (k *keeper) adopt(l *lease, sent time.Time, write int) {
	moved := l.continuation != k.lease.continuation
	k.lease = l
	k.mu.Lock()
	k.sent, k.stored, k.stands, k.writing = sent, l.continuation, write, false
	close(k.written)
	k.written = make(chan struct{})
	k.mu.Unlock()
	if moved {
		k.event(Event{Kind: Checkpointed, Range: l.token, Epoch: l.epoch(), Continuation: l.continuation})
	}
}

// release gives the lease back with the newest checkpoint, in one write. It is
// a courtesy: where it fails the lease expires. Called after run has returned.
func (k *keeper) release(ctx context.Context) error {
	err := k.write(ctx, nil, func(l *lease) {
		l.owner = ""
		delete(l.properties, incarnationProperty)
		delete(l.properties, expirationProperty)
		delete(l.properties, deathsProperty)
	})
	if errors.Is(err, errLeaseLost) {
		return nil // released by a write whose answer was lost, or somebody else's already
	}
	return err
}

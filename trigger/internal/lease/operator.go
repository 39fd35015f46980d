package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// An operator changes leases while hosts run. Each change is one write under the
// newest etag, so the next write of an owner conflicts, and the owner learns of it.
// A new position is written only into a lease that no host holds:
//
//  1. A free lease is written at once, with the next epoch. If a host acquires it in
//     between, the write conflicts, and the operator begins again.
//  2. From a Halley owner the operator requests the lease, as another host does. The
//     owner begins no further call and releases it with its last position. If it
//     crashes instead, the lease expires. Then step 1 follows.
//  3. A .NET owner does not answer requests, and the operator does not wait for a
//     Halley owner if it is told so. It takes the lease, as .NET hosts take leases
//     from each other, holds it until the owner has noticed at its next renewal, and
//     writes the position and the release in one write.

// noticeTime is how long an operator holds a lease that it has taken from its owner, at
// least: a .NET owner renews every 17 s (azure-cosmos-dotnet-v3, ChangeFeedLeaseOptions).
const noticeTime = 20 * time.Second

// timeToNotice returns how long it takes an owner to notice that its lease was taken: a
// Halley owner writes it at least twice in the expiration that it announces.
func (l *Lease) timeToNotice() time.Duration {
	announced, err := time.ParseDuration(l.properties[expirationProperty])
	if err != nil {
		return noticeTime
	}
	return max(noticeTime, announced/2)
}

// operate makes a change to a lease under its newest etag, in the name of neither its
// owner nor another host. It repeats if the lease changes meanwhile. change returns
// false if there is nothing to change any more.
func (s *leaseStore) operate(ctx context.Context, l *Lease, change func(next *Lease) bool) error {
	for {
		next := l.clone()
		if !change(next) {
			return nil
		}
		err := s.replaceDocument(ctx, next, l.timestamp)
		if err == nil {
			return nil
		}
		if !cosmos.Classify(err).Unsure() {
			return fmt.Errorf("write lease %q: %w", l.token, err)
		}
		if l, err = s.readLease(ctx, l); err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, backoff.Min); err != nil {
			return err
		}
	}
}

// Pause pauses the range of a lease. It returns as soon as the pause is written; the
// owner stops at its next write. If a host that does not know pauses has acquired the
// lease meanwhile, it returns [ErrIgnoresPauses] and writes nothing.
func (s *Set) Pause(ctx context.Context, l *Lease, reason string) error {
	ignored := ""
	err := s.store.operate(ctx, l, func(next *Lease) bool {
		ignored = ""
		if !next.StopsAtPauses(s.Now(), s.cfg.Expiration) {
			ignored = next.owner
			return false
		}
		if p, paused := next.Paused(); paused && p.Reason == reason {
			return false
		}
		next.setPause(Pause{Reason: reason, Since: s.Now()})
		return true
	})
	if err == nil && ignored != "" {
		return fmt.Errorf("pause lease %q: owner %q: %w", l.token, ignored, ErrIgnoresPauses)
	}
	return err
}

// ErrIgnoresPauses means that the owner of a lease is a .NET host or an older Halley
// host, which does not stop at a pause.
var ErrIgnoresPauses = errors.New("the owner does not know pauses")

// Resume ends the pause of a lease.
func (s *Set) Resume(ctx context.Context, l *Lease) error {
	return s.store.operate(ctx, l, func(next *Lease) bool {
		if next.properties[pausedProperty] == "" {
			return false
		}
		delete(next.properties, pausedProperty)
		delete(next.properties, dispatchedProperty) // a message that came during the pause had no effect
		return true
	})
}

// Reposition has the range of a lease continue at a position, whoever owns it: no host
// holds the lease when the position is written, see above. With force it does not wait
// for a Halley owner's calls. The failure history of the range is removed, since it
// refers to changes at the old position, and so are [finished.Property] and
// [SnapshotProperty] and [KeptProperty]. A pause stays.
func (s *Set) Reposition(ctx context.Context, l *Lease, continuation string, force bool) error {
	return s.writeUnowned(ctx, l, force, func(next *Lease) {
		next.continuation = continuation
		delete(next.properties, RetriesProperty)
		delete(next.properties, SnapshotProperty)
		delete(next.properties, KeptProperty)
		next.dropFinished()
	})
}

// Free has the owner of a lease give it back, or takes it from the owner, see
// [Set.Reposition]. Any host may acquire it then, also the same one.
func (s *Set) Free(ctx context.Context, l *Lease, force bool) error {
	return s.writeUnowned(ctx, l, force, nil)
}

// writeUnowned makes a change to a lease that no host holds, with the next epoch. It
// repeats if a host acquires the lease meanwhile. Without a change it only frees it.
func (s *Set) writeUnowned(ctx context.Context, l *Lease, force bool, change func(next *Lease)) error {
	for {
		claimed, err := s.claim(ctx, l, force)
		if err != nil {
			return err
		}
		if change == nil && claimed.owner == "" && claimed.properties[handoverProperty] != s.cfg.Owner {
			return nil
		}
		next := s.unowned(claimed)
		if change != nil {
			change(next)
		}
		err = s.store.replaceLease(ctx, next)
		if err == nil {
			return nil
		}
		if !cosmos.Classify(err).Unsure() {
			return fmt.Errorf("write lease %q: %w", l.token, err)
		}
		if l, err = s.store.readLease(ctx, claimed); err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, backoff.Min); err != nil {
			return err
		}
	}
}

// unowned returns a version of l without an owner and with the next epoch.
func (s *Set) unowned(l *Lease) *Lease {
	next := l.clone()
	next.owner = ""
	next.raiseEpoch(l, nextEpoch(l, s.Now()))
	for _, name := range []string{incarnationProperty, expirationProperty, protocolProperty, uncleanExitsProperty} {
		delete(next.properties, name)
	}
	if next.properties[handoverProperty] == s.cfg.Owner {
		clearHandoverRequest(next)
	}
	return next
}

// claim returns a version of a lease that no host but the operator holds.
func (s *Set) claim(ctx context.Context, l *Lease, force bool) (*Lease, error) {
	for {
		if l.owner == s.cfg.Owner || l.Free(s.Now(), s.cfg.Expiration) {
			return l, nil
		}
		if force || !l.answersRequests() {
			taken, _, err := s.store.acquireLease(ctx, nextAcquisition(l, s.Now(), s.cfg.Owner, s.cfg.Incarnation, s.cfg.Expiration))
			if err == nil {
				return taken, backoff.Sleep(ctx, l.timeToNotice())
			}
			if !errors.Is(err, ErrLost) && !cosmos.Classify(err).Unsure() {
				return nil, err
			}
		} else if err := s.requestAndAwait(ctx, l); err != nil {
			return nil, err
		}
		fresh, err := s.store.readLease(ctx, l)
		if err != nil {
			return nil, err
		}
		l = fresh
		if err := backoff.Sleep(ctx, backoff.Min); err != nil {
			return nil, err
		}
	}
}

// requestAndAwait requests a lease from its Halley owner and waits until the owner has
// released it, or the request is not pending any more. The caller looks which.
func (s *Set) requestAndAwait(ctx context.Context, l *Lease) error {
	requested := l
	if handoverRequest(l, s.Now(), s.cfg.Expiration) != s.cfg.Owner { // else an earlier request has lost its answer
		var err error
		requested, err = s.RequestHandover(ctx, l)
		if cosmos.Classify(err).Unsure() {
			return nil
		}
		if err != nil {
			return err
		}
	}
	for {
		if err := backoff.Sleep(ctx, maxHandoverPoll); err != nil {
			return fmt.Errorf("lease %q: owner %q has not released it yet: %w", l.token, l.owner, err)
		}
		fresh, err := s.readRequested(ctx, requested)
		if errors.Is(err, ErrLost) {
			return err
		}
		if err == nil {
			requested = fresh
		}
		if requested.owner != l.owner || handoverRequest(requested, s.Now(), s.cfg.Expiration) != s.cfg.Owner {
			return nil
		}
	}
}

// CreateAt creates a lease for a part of the key space that no lease covers, at a
// position. It does not overwrite.
func (s *Set) CreateAt(ctx context.Context, gap Part, continuation string) error {
	l := newLease(gap, s.store.idPrefix)
	l.setMode(ModeName(s.cfg.Mode))
	l.continuation = continuation
	l.properties[epochProperty] = strconv.FormatInt(s.Now().Unix(), 10)
	return s.store.createLease(ctx, l)
}

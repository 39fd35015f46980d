package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// Acquire makes this host the owner of a lease. The error wraps [ErrLost] if
// another host was faster or the lease is not free any more, and is a [FailoverError] if it
// is too early after a failover. After ctx has ended
// no request to acquire is sent. One that is under way continues until the context
// requests ends: a lease that this host owns without knowing it would be idle until
// it expires.
//
// listed are all leases as the pass that chose l has listed them, or nil. If retire is
// set, other leases have replaced l, and the caller goes on with
// [Held.StillSuperseded].
func (s *Set) Acquire(ctx, requests context.Context, l *Lease, listed *Index, retire bool) (*Held, error) {
	if !l.span.isKnown() {
		if part, err := s.Locate(ctx, l); err == nil {
			l = l.clone()
			l.span = part.Span
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err := s.afterFailover(l); err != nil {
		return nil, fmt.Errorf("acquire lease %q: %w", l.token, err)
	}
	if err := s.awaitEpoch(ctx, l); err != nil {
		return nil, err
	}
	finish, cancel := context.WithTimeout(requests, s.cfg.StopGrace)
	defer cancel()
	next := nextAcquisition(l, s.Now(), s.cfg.Owner, s.cfg.Incarnation, s.cfg.Expiration)
	delete(next.properties, holderProperty)
	if s.cfg.AppName != "" {
		next.properties[holderProperty] = s.holder()
	}
	delete(next.properties, retiringProperty)
	if retire {
		next.properties[retiringProperty] = "1"
	}
	acquired, sent, err := s.store.acquireLease(cosmos.WithRetriesUntil(finish, ctx), next)
	if err != nil {
		return nil, err
	}
	// The write itself may have shown the failover. The version that was listed may be one of before.
	if err := s.afterFailover(l); err != nil {
		s.giveBack(finish, acquired, l)
		return nil, fmt.Errorf("acquire lease %q: %w", l.token, err)
	}
	return s.newHeld(newWriter(s.store, acquired, sent, s.cfg.RenewInterval, s.cfg.Expiration, s.cfg.Log), l, listed, retire), nil
}

// giveBack undoes an acquisition: the lease is its former owner's again, in its epoch. That owner may
// work on, and does not notice that a failover has lost its renewals. If it is dead, a host that has
// known of the failover for longer need not wait for another expiration.
func (s *Set) giveBack(ctx context.Context, acquired, former *Lease) {
	undone := former.clone()
	undone.etag = acquired.etag
	if former.owner != "" {
		undone.keepWritten(s.Now())
	}
	if err := s.store.replaceDocument(ctx, undone, former.timestamp); err != nil {
		s.cfg.Log.Warn("could not give back a lease that was acquired too early after a failover; it will expire", slog.String("range", former.token), slog.Any("error", err))
	}
}

// FailoverError is why a lease is not acquired: its partition has failed over. The failover may
// have lost the newest renewal of an owner that works on. That owner finds out with its next
// write, or loses trust, before an expiration has passed.
type FailoverError struct {
	Since time.Time // when this host has seen a sign of it
	Until time.Time // when the lease may be acquired
}

func (e *FailoverError) Error() string {
	return fmt.Sprintf("the lease container has failed over, or its region has changed: leases are acquired from %s on", e.Until.UTC().Format(time.RFC3339))
}

// afterFailover returns a [FailoverError] if it is too early to acquire a lease. It is not if the
// lease is as an owner has given it back since the failover, this process or one that handed it over.
func (s *Set) afterFailover(l *Lease) error {
	since := s.store.container.FailedOver(l.partitionKey)
	if since.IsZero() || s.store.isReleasedSince(l, since) {
		return nil
	}
	if until := since.Add(l.expiration(s.cfg.Expiration)); time.Now().Before(until) {
		return &FailoverError{since, until}
	}
	return nil
}

// longestEpochWait bounds awaitEpoch: an epoch that is further ahead is of no recent acquisition.
const longestEpochWait = 3 * time.Second

// awaitEpoch waits until the next epoch of a lease is not ahead of the service's time, if the account
// fails over. Else, several acquisitions in one second, for example after a split, would run ahead:
// if the last one is lost, a later one could get its epoch again.
func (s *Set) awaitEpoch(ctx context.Context, l *Lease) error {
	ahead := time.Unix(l.Epoch()+1, 0).Sub(s.Now())
	if ahead <= 0 || ahead > longestEpochWait || !s.store.container.Client().FailsOver() {
		return nil
	}
	return backoff.Sleep(ctx, ahead)
}

// nextEpoch is the epoch of a new owner. It is the time of the service at least, as the first
// epoch is: a failover may have lost the acquisitions that followed l, with their epochs. One of the
// same second is not told apart, see docs/regions.md.
func nextEpoch(l *Lease, now time.Time) int64 { return max(l.Epoch()+1, now.Unix()) }

// nextAcquisition returns the version of l that makes a host its owner, with the
// next epoch.
func nextAcquisition(l *Lease, now time.Time, owner, incarnation string, expiration time.Duration) *Lease {
	next := l.clone()
	next.owner = owner
	next.raiseEpoch(l, nextEpoch(l, now))
	next.properties[incarnationProperty] = incarnation
	next.properties[expirationProperty] = expiration.String()
	next.properties[protocolProperty] = strconv.Itoa(protocolVersion)
	delete(next.properties, uncleanExitsProperty)
	if l.owner != "" && l.OwnedByHalley() {
		next.properties[uncleanExitsProperty] = fmt.Sprint(l.UncleanExits() + 1)
	}
	clearHandoverRequest(next)
	return next
}

// acquireLease writes next, see nextAcquisition, and returns the lease as stored and
// when the write left. ErrLost means that another host was faster, or that the
// previous owner is alive; the next pass of the balancer sees which.
func (s *leaseStore) acquireLease(ctx context.Context, next *Lease) (held *Lease, sent time.Time, err error) {
	mine := next.ownership()
	sent = time.Now()
	err = s.replaceLease(ctx, next)
	if err == nil {
		return next, sent, nil
	}
	if !cosmos.Classify(err).Unsure() {
		return nil, sent, fmt.Errorf("acquire lease %q: %w", next.token, err)
	}
	fresh, readErr := s.readLease(ctx, next)
	if readErr != nil || fresh.etag == next.etag { // not applied, or not yet
		s.noteUnsure(next.token, mine.epoch)
		return nil, sent, fmt.Errorf("acquire lease %q: %w", next.token, errors.Join(err, readErr))
	}
	earlier := mine
	earlier.epoch = fresh.Epoch()
	if fresh.ownership() != mine && (fresh.ownership() != earlier || !s.takeUnsure(next.token, earlier.epoch)) {
		return nil, sent, fmt.Errorf("acquire lease %q: %w (owner %q)", next.token, ErrLost, fresh.owner)
	}
	return fresh, time.Time{}, nil // an earlier request may have written it: trust nothing before the next write
}

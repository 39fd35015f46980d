package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/finished"
)

// Lease documents may be deleted under running hosts, for example all of them and
// the marker. The owner knows the acknowledged position, so its range does not
// begin again elsewhere:
//
//  1. Host A holds a lease. Its next write is answered with 404, or it reads a
//     document with another _rid: the one that it held was deleted. A pass of the
//     balancer that misses the lease in its list asks for such a write at once.
//  2. A's range ends as with any lost lease. If A trusted its ownership until then,
//     no other Halley host had acquired the lease, and so none has split and
//     retired it: A records the lease with its acknowledged position.
//  3. A's next pass looks a second time, 5 s after the loss, as an audit does:
//     leases that change while they are listed may hide children that a .NET host
//     has created. If other leases cover the keys, A creates nothing.
//  4. The marker comes first. If it is gone, A creates it with the time of the first
//     bootstrap, which all later audits start from. A host that starts after that
//     finds the marker and does not bootstrap.
//  5. A creates its lease, without overwriting, free and at the acknowledged position.
//     Its epoch is above every one that a sink has seen, see fillGap. Then A, or any
//     other host, acquires it.
//  6. Host F started before step 4: it saw no marker, took the lock, and created
//     leases that begin now. F and A may deliver side by side until A's next write,
//     as after a theft. A's create meets F's document, which has another _rid: A
//     writes its own position into it under its etag and clears the owner. F's
//     writer finds another owner and stops. If F's create meets A's document, F
//     leaves it alone. So A's position holds in both orders, and every change after
//     it is delivered, at least by the next owner.
//  7. Each running host does so for its own leases. A range that no host owned comes
//     back by an audit, from the first bootstrap on, unless F has created its lease
//     in between: that one begins at F's now.

// lostLeases are the leases of a function whose documents were deleted while this
// host held them. The workers record them, and the goroutine that balances the
// function restores them.
type lostLeases struct {
	mu      sync.Mutex // guards byToken, and no other lock is taken under it
	byToken map[string]lostLease
}

type lostLease struct {
	lease *Lease // as last written, with the acknowledged position
	since time.Time
}

// errDeleted is the loss of a lease whose document was deleted.
var errDeleted = fmt.Errorf("%w (document deleted)", ErrLost)

// resourceID is the service's id of the document, which a document that is created
// again under the same id does not share.
func (l *Lease) resourceID() string {
	var id string
	_ = json.Unmarshal(l.rest["_rid"], &id)
	return id
}

// isRecreated reports whether fresh is another document than l.
func (l *Lease) isRecreated(fresh *Lease) bool {
	was, is := l.resourceID(), fresh.resourceID()
	return was != "" && is != "" && was != is
}

// DeletedLease returns the lease with the acknowledged position if its document was
// deleted while this host owned it. Call it after Stop.
func (w *leaseWriter) DeletedLease() (l *Lease, deleted bool) {
	if !errors.Is(w.Err(), errDeleted) {
		return nil, false
	}
	next, _ := w.beginWrite()
	return next, true
}

// VerifySoon has the writer write the lease soon, which shows whether it is still there.
func (w *leaseWriter) VerifySoon() { w.requestWrite() }

// RecordLost has the next [Set.RestoreLost] restore a lease that [Held.DeletedLease]
// returned.
func (s *Set) RecordLost(l *Lease) {
	s.lost.mu.Lock()
	defer s.lost.mu.Unlock()
	s.lost.byToken[l.token] = lostLease{lease: l, since: time.Now()}
}

// due returns the recorded leases that were lost less than period ago, and when the
// newest of them was. Older ones have another lease by an audit, which must not be
// set back, unless the container was missing until absentAt.
func (o *lostLeases) due(period time.Duration, absentAt time.Time) (leases []*Lease, newest time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for token, lost := range o.byToken {
		if time.Since(lost.since) > period && time.Since(absentAt) > period {
			delete(o.byToken, token)
			continue
		}
		leases = append(leases, lost.lease)
		if lost.since.After(newest) {
			newest = lost.since
		}
	}
	slices.SortFunc(leases, func(a, b *Lease) int { return strings.Compare(a.token, b.token) }) // so that a run repeats
	return leases, newest
}

func (o *lostLeases) forgetAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.byToken)
}

func (o *lostLeases) forget(token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byToken, token)
}

// RestoreLost creates the leases again that were deleted while this host held them.
// A lease that cannot be restored now is tried again in the next pass.
func (s *Set) RestoreLost(ctx context.Context) error {
	lost, newest := s.lost.due(s.cfg.Expiration, s.absentAt)
	if len(lost) == 0 {
		return nil
	}
	if err := backoff.Sleep(ctx, time.Until(newest.Add(secondAuditDelay))); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.restoreMarker(ctx); err != nil {
		return fmt.Errorf("restore lost leases: %w", err)
	}
	all, _, err := s.store.listLeases(ctx)
	if err != nil {
		return fmt.Errorf("restore lost leases: %w", err)
	}
	index := NewIndex(all)
	var failed error
	for _, l := range lost {
		if err := s.restoreLease(ctx, l, s.findStored(all, l), index); err != nil {
			failed = errors.Join(failed, fmt.Errorf("restore lease %q: %w", l.token, err))
			continue
		}
		s.lost.forget(l.token)
	}
	return failed
}

// findStored returns the document that has the token of a lost lease: the lost one if
// it is there after all, else the one that hosts use, or nil.
func (s *Set) findStored(all []*Lease, lost *Lease) *Lease {
	var same []*Lease
	for _, l := range all {
		if l.token == lost.token && !lost.isRecreated(l) {
			return l
		}
		if l.token == lost.token {
			same = append(same, l)
		}
	}
	used, _ := onePerToken(same, s.Now(), s.cfg.Expiration)
	if len(used) == 0 {
		return nil
	}
	return used[0]
}

// restoreMarker creates the marker again if it is gone, with the time of the first
// bootstrap. Its error wraps [ErrRecreated] if the lease container is gone with it.
func (s *Set) restoreMarker(ctx context.Context) error {
	_, _, found, err := s.store.readStamp(ctx, s.store.markerID())
	if err != nil || found {
		return err
	}
	if err := s.verifyLeaseContainer(ctx); err != nil {
		return err
	}
	s.cfg.Log.Error("marker document of the leases was deleted; creating it again", slog.Time("since", s.since))
	_, err = s.store.createStamp(ctx, stamp{ID: s.store.markerID(), Since: s.since.Unix()})
	return err
}

// restoreLease restores one lease. stored is the document that has its token now, or nil.
func (s *Set) restoreLease(ctx context.Context, lost, stored *Lease, index *Index) error {
	log := s.cfg.Log.With(slog.String("range", lost.token), slog.String("continuation", lost.continuation))
	switch {
	case stored != nil && !lost.isRecreated(stored), stored != nil && stored.continuation == lost.continuation:
		return nil
	case stored != nil:
		log.Error("lease document was deleted and created again; setting it to the acknowledged position", slog.String("was", stored.continuation))
		next := lost.revive(stored.clone(), stored.Epoch())
		return s.store.replaceLease(ctx, next)
	case lost.span.isKnown() && len(index.overlapping(lost.span)) > 0:
		log.Warn("lease document was deleted, and other leases cover its keys")
		return nil
	}
	log.Error("lease document was deleted; creating it again at the acknowledged position")
	next := lost.revive(newDocument(s.store.idPrefix, lost.token, lost.span, lost.byKeys), s.Now().Unix())
	next.setMode(lost.mode)
	return s.store.createLease(ctx, next)
}

// revive gives a document, which it returns, the position and the retry state of a
// lost lease, no owner, and an epoch above the lost lease's and not below least. A pause
// of the document stays, as does one of the lost lease. Another host may have delivered
// changes side by side with its owner, so no change behind the position counts as finished.
func (l *Lease) revive(next *Lease, least int64) *Lease {
	next.owner, next.continuation = "", l.continuation
	pause, paused := next.Paused()
	next.properties = map[string]string{epochProperty: strconv.FormatInt(max(l.Epoch()+1, least), 10)}
	for name, value := range l.properties {
		switch name {
		case epochProperty, incarnationProperty, expirationProperty, protocolProperty, uncleanExitsProperty, handoverWrittenProperty, releasedProperty, splittingProperty, retiringProperty, finished.Property, finishedTimestampProperty:
		default:
			next.properties[name] = value
		}
	}
	if paused {
		next.setPause(pause)
	}
	clearHandoverRequest(next)
	return next
}

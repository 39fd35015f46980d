package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// An operator pauses a range by a property of its lease, while hosts run:
//
//  1. The operator writes halley.paused under the etag. Owner, epoch and position
//     stay as they are.
//  2. The next write of owner A conflicts, and A reads the pause. It begins no
//     further handler call, and releases the lease with its position when those that
//     run have returned, as after a handover request: nothing is delivered again.
//  3. No Halley host acquires a paused lease. It keeps its share of the keys, so no
//     audit creates another one.
//  4. A split may have begun before A reads the pause. A then writes the pause into
//     the children, before it deletes the lease.
//  5. Resuming removes the property, and the next pass of a balancer acquires the lease.
//
// A .NET host knows no pauses and keeps the property. A lease of a .NET owner is not
// paused, whatever its properties say.
const pausedProperty = "halley.paused" // since when (service's clock, Unix seconds), space, reason

// Pause says that an operator has paused a range, and why.
type Pause struct {
	Reason string
	Since  time.Time // on the service's clock
}

// Paused returns the pause of the lease, if an operator has paused it.
func (l *Lease) Paused() (p Pause, paused bool) {
	since, reason, _ := strings.Cut(l.properties[pausedProperty], " ")
	seconds, ok := parseNumber(since)
	if !ok || l.owner != "" && !l.OwnedByHalley() {
		return Pause{}, false
	}
	return Pause{Reason: reason, Since: time.Unix(seconds, 0)}, true
}

// PauseIgnored reports whether an operator has paused the lease, and a host that does
// not know pauses has acquired it since.
func (l *Lease) PauseIgnored() bool {
	_, paused := l.Paused()
	return l.properties[pausedProperty] != "" && !paused
}

// StopsAtPauses reports whether the lease can be paused: it is free, or its owner is a
// Halley host.
func (l *Lease) StopsAtPauses(now time.Time, expiration time.Duration) bool {
	return l.Free(now, expiration) || l.answersRequests()
}

// setPause pauses a lease for which StopsAtPauses holds. A .NET owner that it still names has
// ended: the pause would not count beside its name, see [Lease.Paused].
func (l *Lease) setPause(p Pause) {
	if !l.OwnedByHalley() {
		l.owner = ""
	}
	l.properties[pausedProperty] = fmt.Sprintf("%d %s", p.Since.Unix(), p.Reason)
}

// pauseInside writes the pause of a lease that has split into the leases inside it.
func (s *leaseStore) pauseInside(ctx context.Context, parent *Lease, p Pause) error {
	all, _, err := s.listLeases(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.id == parent.id || l.Tombstone() || !l.span.isKnown() || !parent.span.containsSpan(l.span) {
			continue
		}
		err := s.operate(ctx, l, func(next *Lease) bool {
			if !next.StopsAtPauses(s.serviceNow(), 0) {
				return false
			}
			next.setPause(p)
			return true
		})
		if err != nil && !errors.Is(err, ErrLost) { // a lost one has split again, or was deleted
			return err
		}
	}
	return nil
}

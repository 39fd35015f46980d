package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A host that stops leaves its leases free, and the others look for free leases once in an acquire
// interval. So it tells them:
//
//  1. Host A stops and has released its leases. It lists them, and writes a notice into one lease
//     or two of each host that is now below its share, under the etag: into those that were written
//     last, since their owner is likely to write them soon.
//  2. The next write of owner B conflicts, B reads the notice, and plans at once. The write
//     removes the notice.
//
// If more than two hosts stop at a time, the first ones tell the others, see hostsToTell.
//
// A notice too many costs a pass, and one that is lost, or is not known to B's version, leaves B to
// its next pass: correctness does not depend on it. Like a mark for a queue, it must not extend the
// life of a dead owner's lease, see dispatch.go.
const releasedProperty = "halley.released" // owner name of the host that has released leases

// TellReleased tells other hosts of leases that this host has released. It returns when they are
// told, and only logs failures.
func (s *Set) TellReleased(ctx context.Context) {
	if !s.store.hasReleased() {
		return
	}
	all, _, err := s.store.listLeases(ctx)
	if err != nil {
		s.cfg.Log.Info("could not tell other hosts of the released leases", slog.Any("error", err))
		return
	}
	var telling sync.WaitGroup
	for _, l := range s.leasesToTell(all) {
		telling.Go(func() {
			if err := s.tellOwner(ctx, l); err != nil {
				s.cfg.Log.Info("could not tell another host of the released leases", slog.String("host", l.owner), slog.Any("error", err))
			}
		})
	}
	telling.Wait()
}

// noticesPerHost is the number of leases by which a host is told: the range of one may be idle now.
const noticesPerHost = 2

// leasesToTell returns the leases by which to tell other hosts, see [hostsToTell].
func (s *Set) leasesToTell(all []*Lease) []*Lease {
	now := s.Now()
	used, _ := onePerToken(all, now, s.cfg.Expiration)
	var views []View
	released, held := 0, map[string][]*Lease{} // by owner
	for _, l := range used {
		if _, paused := l.Paused(); paused || l.Tombstone() {
			continue
		}
		v := viewOf(l, now, s.cfg.Expiration, s.cfg.AcquireInterval)
		views = append(views, v)
		switch {
		case v.RequestedBy != "":
		case v.Free && s.store.isReleasedSince(l, time.Time{}):
			released++
		case !v.Free && v.Halley:
			held[l.owner] = append(held[l.owner], l)
		}
	}
	var told []*Lease
	for _, host := range hostsToTell(views, s.cfg.Function, s.cfg.Owner, released) {
		slices.SortStableFunc(held[host], func(a, b *Lease) int { return b.written.Compare(a.written) })
		told = append(told, held[host][:min(noticesPerHost, len(held[host]))]...)
	}
	return told
}

// tellOwner writes a notice into a lease, unless its owner has another one or has lost it.
func (s *Set) tellOwner(ctx context.Context, l *Lease) error {
	err := s.store.operate(ctx, l, func(next *Lease) bool {
		if next.ownership() != l.ownership() || next.properties[releasedProperty] != "" || next.Tombstone() {
			return false
		}
		next.properties[releasedProperty] = s.cfg.Owner
		next.keepWritten(s.Now())
		return true
	})
	if errors.Is(err, ErrLost) { // the document is gone
		return nil
	}
	return err
}

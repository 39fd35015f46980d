package lease

import "slices"

// HasOtherHosts reports whether another host holds one of the leases and renews it, or has
// a pending request for one.
func (s *Set) HasOtherHosts(leases []*Lease) bool {
	now := s.Now()
	return slices.ContainsFunc(leases, func(l *Lease) bool {
		requester := handoverRequest(l, now, s.cfg.Expiration)
		isHeld := l.owner != "" && l.owner != s.cfg.Owner && !l.Free(now, s.cfg.Expiration)
		return isHeld || requester != "" && requester != s.cfg.Owner
	})
}

package lease

import "slices"

// OtherHolders returns the apps and functions that the leases name as their last owners and
// that are not this host's, see [Lease.Holder]. It returns none if this host's app has no name.
func (s *Set) OtherHolders(leases []*Lease) (others []string) {
	for _, l := range leases {
		if h := l.Holder(); s.cfg.AppName != "" && h != "" && h != s.holder() && !slices.Contains(others, h) {
			others = append(others, h)
		}
	}
	slices.Sort(others)
	return others
}

// holder is this host's app and function as leases name them.
func (s *Set) holder() string { return s.cfg.AppName + "/" + s.cfg.Function }

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

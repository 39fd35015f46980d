package lease

import "time"

// DefaultExpiration is that of a lease whose owner does not tell it, as .NET hosts.
const DefaultExpiration = time.Minute

// AnnouncedExpiration returns the expiration interval that the lease's owner has told, or the
// default.
func (l *Lease) AnnouncedExpiration() time.Duration {
	if d, err := time.ParseDuration(l.properties[expirationProperty]); err == nil && l.OwnedByHalley() {
		return d
	}
	return DefaultExpiration
}

// Silence reports whether the lease's owner is silent at a time of the service's clock, for
// how long, and when the lease expires. An owner writes a lease more often than twice in its
// expiration.
func (l *Lease) Silence(now time.Time) (silence, untilExpiration time.Duration, silent bool) {
	expiration := l.AnnouncedExpiration()
	silence = now.Sub(l.written)
	return silence, expiration + time.Second - silence, l.owner != "" && silence > expiration/2+time.Second
}

package trigger

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// A host that lacks leases asks for one by writing its name into the lease. The
// owner notices at its next write, which then conflicts, finishes the batch in
// work and releases the lease; the request stays in the document and keeps the
// lease for the asker for a while.
const (
	handoverProperty      = "halley.handover"       // the asker's owner name
	handoverSinceProperty = "halley.handover.since" // the service's clock when it asked, Unix seconds

	// What asking must not prolong: when the owner had last written, Unix
	// seconds. A Halley owner's next write removes it; one of .NET keeps it.
	handoverWrittenProperty = "halley.handover.written"
)

// askingTakes bounds the time between the asker's look at the clock and the
// service's at its write.
const askingTakes = 10 * time.Second

// writtenBeforeAsked is when the owner last wrote the lease, where the last
// write was that of an asker.
func (l *lease) writtenBeforeAsked() (time.Time, bool) {
	seconds, err := strconv.ParseInt(l.properties[handoverWrittenProperty], 10, 64)
	since, sinceErr := strconv.ParseInt(l.properties[handoverSinceProperty], 10, 64)
	byAsker := err == nil && sinceErr == nil && l.written.Sub(time.Unix(since, 0)) < askingTakes
	return time.Unix(seconds, 0), byAsker
}

// asked is the host that may still hope for the lease, or "", and whether its
// hope is old enough to take the lease without the owner's consent. A lease that
// was released waits half an expiration for who asked; one whose owner has died
// waits for nobody.
func (l *lease) asked(now time.Time, expiration time.Duration) (by string, ignored bool) {
	by = l.properties[handoverProperty]
	since, err := strconv.ParseInt(l.properties[handoverSinceProperty], 10, 64)
	if by == "" || err != nil {
		return "", false
	}
	switch age := now.Sub(time.Unix(since, 0)); {
	case l.owner == "" && now.Sub(l.written) < expiration/2:
		return by, false
	case l.free(now, expiration):
		return "", false
	case age < expiration:
		return by, false
	case age < 2*expiration:
		return by, true
	default:
		return "", false
	}
}

// ask requests the lease from its owner.
func (s *leaseStore) ask(ctx context.Context, l *lease, me identity) error {
	next := l.clone()
	next.properties[handoverProperty] = me.owner
	next.properties[handoverSinceProperty] = strconv.FormatInt(s.now().Unix(), 10)
	next.properties[handoverWrittenProperty] = strconv.FormatInt(l.written.Unix(), 10)
	if err := s.overwrite(ctx, next, l.rest["timestamp"]); err != nil {
		return fmt.Errorf("ask for lease %q: %w", l.token, err)
	}
	return nil
}

// settled removes a request that has been met, or is void.
func (l *lease) settled() {
	delete(l.properties, handoverProperty)
	delete(l.properties, handoverSinceProperty)
}

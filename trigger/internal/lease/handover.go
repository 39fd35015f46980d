package lease

import (
	"strconv"
	"time"
)

// A host that holds fewer leases than its share requests one by writing its name
// into the document. The next write of the owner then conflicts; the owner
// finishes the current batch and releases the lease. The request stays in the
// document and reserves the lease for the requester for a while.
const (
	handoverProperty      = "halley.handover"       // owner name of the requester
	handoverSinceProperty = "halley.handover.since" // when it requested, on the service's clock, Unix seconds

	// The owner's last write before the request, Unix seconds: a request must not
	// extend the life of a lease. The next write of a Halley owner removes it; a
	// .NET owner keeps it.
	handoverWrittenProperty = "halley.handover.written"
)

// requestDuration bounds the time from the moment when a requester reads the
// clock to the service's time of the write.
const requestDuration = 10 * time.Second

// withHandoverRequest returns a copy of l that requests it for the host by.
func withHandoverRequest(l *Lease, by string, now time.Time) *Lease {
	next := l.clone()
	next.properties[handoverProperty] = by
	next.properties[handoverSinceProperty] = strconv.FormatInt(now.Unix(), 10)
	next.properties[handoverWrittenProperty] = strconv.FormatInt(l.written.Unix(), 10)
	return next
}

// clearHandoverRequest removes a request that has been met or is void.
func clearHandoverRequest(l *Lease) {
	delete(l.properties, handoverProperty)
	delete(l.properties, handoverSinceProperty)
}

// handoverRequest returns the host that has a pending request for the lease, or
// "". timedOut means that the owner, though alive, has not released the lease for
// so long that the requester may take it without consent. A released lease waits
// half an expiration for its requester. A lease with a dead owner has no pending
// request: any host may take it.
func handoverRequest(l *Lease, now time.Time, expiration time.Duration) (by string, timedOut bool) {
	by = l.properties[handoverProperty]
	since, err := strconv.ParseInt(l.properties[handoverSinceProperty], 10, 64)
	if by == "" || err != nil {
		return "", false
	}
	switch age := now.Sub(time.Unix(since, 0)); {
	case l.owner == "" && now.Sub(l.written) < expiration/2:
		return by, false
	case l.Free(now, expiration):
		return "", false
	case age < expiration:
		return by, false
	case age < 2*expiration:
		return by, true
	default:
		return "", false
	}
}

// writtenBeforeRequest returns when the owner last wrote the lease, if the last
// write was that of a requester.
func writtenBeforeRequest(l *Lease) (written time.Time, requested bool) {
	seconds, err := strconv.ParseInt(l.properties[handoverWrittenProperty], 10, 64)
	since, sinceErr := strconv.ParseInt(l.properties[handoverSinceProperty], 10, 64)
	requested = err == nil && sinceErr == nil && l.written.Sub(time.Unix(since, 0)) < requestDuration
	return time.Unix(seconds, 0), requested
}

package lease

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A host that holds fewer leases than its share requests one by writing its name
// into the document. The next write of the owner then conflicts. Between Halley
// hosts, a lease is taken only if it is released or its owner has stopped renewing:
//
//  1. Host B writes its request into a lease of host A. The lease counts as B's
//     share from now on. B's write moves _ts, so B also keeps the time of A's last
//     write: a request must not extend the life of a dead owner's lease.
//  2. A's next write conflicts, and A reads the request. It begins no further
//     handler call. If none is running, it releases the lease, which is reserved
//     for B for half an expiration.
//  3. If a call is running, A answers with its renewals: halley.busy names B and
//     the latest end of the call, which is its deadline and the grace after it. B
//     waits, however long that is.
//  4. The call returns and A releases the lease; or A passes the latest end and
//     stops renewing; or A crashes. In the last two cases the lease expires, and
//     any host may take it.
//
// A .NET owner knows no requests: one lease is taken from it in each round, as
// .NET hosts do among each other.
const (
	handoverProperty      = "halley.handover"       // owner name of the requester
	handoverSinceProperty = "halley.handover.since" // when it requested, on the service's clock, Unix seconds

	// The owner's last write before the request, Unix seconds. The next write of a
	// Halley owner removes it; a .NET owner keeps it.
	handoverWrittenProperty = "halley.handover.written"

	busyProperty     = "halley.busy"     // the owner's answer: latest end of its calls (service's clock, Unix seconds), space, requester
	protocolProperty = "halley.protocol" // what the owner understands, see protocolVersion
)

// protocolVersion is written at each acquisition. An owner of this version answers handover
// requests with halley.busy and stops at a pause. A host expects neither of an owner without
// the property.
const protocolVersion = 2

// requestDuration bounds the time from the moment when a requester reads the
// clock to the service's time of the write.
const requestDuration = 10 * time.Second

// withHandoverRequest returns a copy of l that requests it for the requester.
func withHandoverRequest(l *Lease, requester string, now time.Time) *Lease {
	next := l.clone()
	next.properties[handoverProperty] = requester
	next.properties[handoverSinceProperty] = strconv.FormatInt(now.Unix(), 10)
	next.properties[handoverWrittenProperty] = strconv.FormatInt(l.written.Unix(), 10)
	return next
}

// isProgressOf reports whether only the owner of an older version has written the lease since, and
// it is to keep it.
func (l *Lease) isProgressOf(older *Lease) bool {
	_, isPaused := l.Paused()
	return l.ownership() == older.ownership() && l.properties[handoverProperty] == older.properties[handoverProperty] && !isPaused && !l.Tombstone()
}

// clearHandoverRequest removes a request that has been met or is void, and its answer.
func clearHandoverRequest(l *Lease) {
	delete(l.properties, handoverProperty)
	delete(l.properties, handoverSinceProperty)
	delete(l.properties, busyProperty)
}

// setBusy answers the request in the lease: the owner's calls end at until, on the
// service's clock. The zero time removes the answer.
func (l *Lease) setBusy(end time.Time) {
	if end.IsZero() {
		delete(l.properties, busyProperty)
		return
	}
	seconds := end.Add(time.Second - 1).Unix() // rounded up
	l.properties[busyProperty] = fmt.Sprintf("%d %s", seconds, l.properties[handoverProperty])
}

// busyUntil returns the latest end in the owner's answer to a requester, zero if
// there is none.
func (l *Lease) busyUntil(requester string) time.Time {
	end, answered, _ := strings.Cut(l.properties[busyProperty], " ")
	seconds, ok := parseNumber(end)
	if !ok || answered != requester {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// answersRequests reports whether the owner is a Halley host that answers handover
// requests and stops at pauses.
func (l *Lease) answersRequests() bool {
	version, _ := parseNumber(l.properties[protocolProperty]) // 0 if there is none
	return version >= protocolVersion && l.OwnedByHalley()
}

// handoverRequest returns the host that has a pending request for the lease, or
// "". A request is void if its owner does not answer within an expiration, and if
// the lease has expired: any host may take that. A released lease waits half an
// expiration for its requester.
func handoverRequest(l *Lease, now time.Time, expiration time.Duration) (requester string) {
	requester = l.properties[handoverProperty]
	since, ok := parseNumber(l.properties[handoverSinceProperty])
	switch {
	case requester == "" || !ok:
		return ""
	case l.owner == "":
		if now.Sub(l.written) < expiration/2 {
			return requester
		}
		return ""
	case l.Free(now, expiration) || !l.answersRequests():
		return ""
	case now.Sub(time.Unix(since, 0)) < expiration, now.Before(l.busyUntil(requester).Add(expiration)):
		return requester
	default:
		return ""
	}
}

// writtenBeforeRequest returns when the owner last wrote the lease, if the last
// write was that of a requester.
func writtenBeforeRequest(l *Lease) (written time.Time, requested bool) {
	seconds, hasWritten := parseNumber(l.properties[handoverWrittenProperty])
	since, hasSince := parseNumber(l.properties[handoverSinceProperty])
	requested = hasWritten && hasSince && l.written.Sub(time.Unix(since, 0)) < requestDuration
	return time.Unix(seconds, 0), requested
}

package lease

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// onePerToken chooses one of several documents with the same token, in the order
// of tokens: the one with the highest epoch, since it was acquired last and no
// sink has seen a higher one. If the epochs are equal, as between leases of .NET,
// it is the one that a live host holds, or else the one with the least progress.
// All hosts choose alike, and no choice loses changes.
func onePerToken(leases []*Lease, now time.Time, expiration time.Duration) (used, duplicates []*Lease) {
	free := func(l *Lease) int {
		if l.Free(now, expiration) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(leases, func(a, b *Lease) int {
		return cmp.Or(strings.Compare(a.token, b.token), cmp.Compare(b.Epoch(), a.Epoch()), free(a)-free(b),
			compareContinuations(a.continuation, b.continuation), strings.Compare(a.partitionKey.String(), b.partitionKey.String()))
	})
	for _, l := range leases {
		if n := len(used); n > 0 && used[n-1].token == l.token {
			duplicates = append(duplicates, l)
		} else {
			used = append(used, l)
		}
	}
	return used, duplicates
}

// needsRequest reports whether the process with an incarnation should request the handover
// of a duplicate: another live Halley process holds it, perhaps one with the same owner
// name, and none has requested it yet.
func needsRequest(l *Lease, incarnation string, now time.Time, expiration time.Duration) bool {
	return !l.Free(now, expiration) && l.answersRequests() && l.properties[incarnationProperty] != incarnation && handoverRequest(l, now, expiration) == ""
}

// compareContinuations orders tokens by their positions: an empty token first,
// then by LSN if both are LSNs, else as text.
func compareContinuations(a, b string) int {
	x, isLSN := cosmos.ContinuationLSN(a)
	y, isOtherLSN := cosmos.ContinuationLSN(b)
	if !isLSN || !isOtherLSN {
		return strings.Compare(a, b)
	}
	return cmp.Compare(x, y)
}

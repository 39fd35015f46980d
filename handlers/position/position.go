// Package position orders the versions of one document, so that a sink never puts an
// older version in place of a newer one.
//
// A sink stores the [Position] of the version that it holds, also of a delete, and
// refuses a version whose position is smaller. Host A pauses in a call and loses its
// lease; host B delivers newer versions; when A continues, the sink refuses its older
// ones.
//
// A position is a property of the version alone: the time at which the service wrote
// it, and its LSN within that second. It is the same in every redelivery, after a split
// or a merge, in both modes of the feed, for another function, and when leases were
// deleted and epochs begin at 1 again. Positions of different documents mean nothing.
// If the clock of the write region steps back by a second or more, and a document is
// written before and after that, the later version is refused.
package position

import (
	"cmp"

	"halley/trigger"
)

// Position is the place of a version among all versions of its document.
type Position struct {
	Time  int64 `json:"ts"`    // when it was written or deleted: seconds since 1970
	LSN   int64 `json:"lsn"`   // in the feed of its range; versions of one transaction have the same
	Epoch int64 `json:"epoch"` // of the owner that delivered it; it decides between versions of one transaction
}

// Of returns the position of a change in its batch.
func Of(b trigger.Batch, c trigger.Change) Position {
	return Position{Time: c.Time.Unix(), LSN: c.LSN, Epoch: b.Epoch}
}

// Compare returns -1, 0 or 1 as p is older than q, the same, or newer.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Time, q.Time), cmp.Compare(p.LSN, q.LSN), cmp.Compare(p.Epoch, q.Epoch))
}

// The layout of Version: 33 bits of seconds last until the year 2242, and LSNs of one
// second are told apart by their lower 30 bits.
const lsnBits = 30

// Version returns the position as a positive number, for sinks that compare versions by
// one number. It orders as Compare does, with two exceptions: epochs do not count, and
// within a second an LSN is compared by its lower 30 bits. So of two versions that are
// written in the same second, the later counts as older if a multiple of 2^30 lies
// between their LSNs.
func (p Position) Version() int64 {
	return max(p.Time, 0)<<lsnBits | p.LSN&(1<<lsnBits-1)
}

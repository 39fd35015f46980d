package feed

import (
	"strconv"

	"halley/trigger/cosmos"
)

// NamesPositions reports whether "<lsn>" of an inner change of a page is a continuation,
// too. start is the continuation that the page was read after, "" if there is none.
//
// A continuation "<n>" asks for the changes with LSNs above n: etags and LSNs are of one
// sequence of the partition. The page must agree with that: its LSNs do not fall, they are above
// start, and none is above its own continuation. Then a position may stand after a change
// with LSN n if the next change of the page has a larger one:
//
//   - A read after "<n>" shows each change above n, so it leaves out only changes up to n.
//   - Of these, the page has those above start. A transaction has one LSN and is never divided
//     between pages, so none of its changes follows the position.
//   - The other LSNs up to n are of changes that were deleted, have expired or were written
//     again before the page was read, or of other containers. No read shows them any more.
//
// How far the page's own continuation is ahead of its last change does not matter: the LSNs
// between them are of the last kind too, or the page was cut just before its next change
// (recorded answer of a hosted account, October 2026: etag "43" after a change at 42).
//
// If LSNs are missing or fall, or a continuation is not a number, only pages have positions.
// A merged range may have several sequences that agree by chance: the caller knows it.
func NamesPositions(page *Page, start string) bool {
	last := LSNOf(start)
	for i, item := range page.Items {
		if item.LSN < last || i == 0 && item.LSN == last {
			return false
		}
		last = item.LSN
	}
	return LSNOf(page.Continuation) >= last
}

// QuotedLSN returns the continuation after the change with an LSN.
func QuotedLSN(lsn int64) string { return `"` + strconv.FormatInt(lsn, 10) + `"` }

// PositionBefore returns the continuation before the first change of a page that was read
// without one, or that of the page if it has no change. It is "" if the position has no name:
// the range has merged, or its tokens are not LSNs.
func PositionBefore(page *Page, merged bool) string {
	switch {
	case page.NotModified || len(page.Items) == 0:
		return page.Continuation
	case merged || !NamesPositions(page, ""):
		return ""
	}
	return QuotedLSN(page.Items[0].LSN - 1)
}

// LSNOf returns the LSN that a continuation names, 0 if it names none.
func LSNOf(continuation string) int64 {
	lsn, _ := cosmos.ContinuationLSN(continuation)
	return lsn
}

// IsLess compares continuations that are LSNs. It is false for all others.
func IsLess(continuation, other string) bool {
	a, isLSN := cosmos.ContinuationLSN(continuation)
	b, isOtherLSN := cosmos.ContinuationLSN(other)
	return isLSN && isOtherLSN && a < b
}

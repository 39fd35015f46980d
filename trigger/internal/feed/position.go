package feed

import (
	"strconv"

	"halley/trigger/cosmos"
)

// NamesLSNs reports whether the page proves that continuations are LSNs: its own
// continuation is the LSN of its last change, and LSNs never fall. Then "<lsn>" of
// an inner change is a continuation too. Merged ranges never prove it.
func NamesLSNs(page *Page) bool {
	return len(page.Items) > 0 && KeepsLSNs(page) && page.Continuation == QuotedLSN(page.Items[len(page.Items)-1].LSN)
}

// KeepsLSNs reports whether the LSNs of a page are in the order of the feed, and its
// continuation is one that is not before them. Those of merged ranges need not be.
func KeepsLSNs(page *Page) bool {
	last := int64(0)
	for _, item := range page.Items {
		if item.LSN < last || item.LSN <= 0 {
			return false
		}
		last = item.LSN
	}
	return LSNOf(page.Continuation) >= last
}

// QuotedLSN returns the continuation after the change with an LSN.
func QuotedLSN(lsn int64) string { return `"` + strconv.FormatInt(lsn, 10) + `"` }

// PositionBefore returns the continuation before the first change of a page, or that of
// the page if it has none. named is false if the position cannot be named: the range
// has merged, or its tokens are not LSNs.
func PositionBefore(page *Page, merged bool) (continuation string, named bool) {
	switch {
	case page.NotModified || len(page.Items) == 0:
		return page.Continuation, true
	case merged || !NamesLSNs(page):
		return "", false
	}
	return QuotedLSN(page.Items[0].LSN - 1), true
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

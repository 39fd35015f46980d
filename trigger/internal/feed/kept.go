package feed

import (
	"slices"
	"time"
)

// keptPage is a page that no range has, but may want. It takes memory that no range has
// reserved: the oldest ones are dropped when a range reserves it. The budget's lock
// guards it.
type keptPage struct {
	page   *Page
	since  time.Time
	onDrop func() // called with the lock held
}

// keepPage keeps a page until it is dropped. The lock is held.
func (b *Budget) keepPage(k *keptPage) {
	b.kept = append(b.kept, k)
	b.keptBytes += pageSize(k.page)
	b.makeRoom()
}

// dropPage releases a kept page. The lock is held.
func (b *Budget) dropPage(k *keptPage) {
	b.kept = slices.DeleteFunc(b.kept, func(other *keptPage) bool { return other == k })
	b.keptBytes -= pageSize(k.page)
	k.page.Release()
	k.onDrop()
}

// dropOlder drops the pages that are older than age. The lock is held.
func (b *Budget) dropOlder(age time.Duration) {
	for len(b.kept) > 0 && time.Since(b.kept[0].since) > age {
		b.dropPage(b.kept[0])
	}
}

// makeRoom drops kept pages until the others are at most half of the budget, and fit
// into the bytes that no range has reserved. The lock is held.
func (b *Budget) makeRoom() {
	for len(b.kept) > 0 && b.keptBytes > max(min(b.byteLimit/2, b.byteLimit-b.usedBytes), 0) {
		b.dropPage(b.kept[0])
	}
}

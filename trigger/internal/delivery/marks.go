package delivery

import (
	"cmp"
	"slices"

	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// The lease gets Q and a mark for each key with unfinished changes up to Q:
//
//  1. Host A has handled the changes 1 to 100, but for 7 and 9, whose keys wait. The lease
//     says: A is before 7, Q is after 100, the key of 7 is marked with 7 and that of 9 with 9.
//  2. A ends. Host B reads from A. A change up to Q is finished if its key has no mark, or one
//     above the change: B passes over it. So the key of 9 is delivered again from 9 on, and
//     the changes of other keys from 101 on.
//  3. B ends as well, when its own Q is after 50. It writes the inherited Q, and each inherited
//     mark that is not behind 50 as 51: an unfinished change of these keys may be there.
//
// Both positions and the marks are taken under one lock and written together. For what makes
// them void see package finished.

// asideChange is an unfinished change that is set aside. It outlives its page.
type asideChange struct {
	seq, lsn, timestamp int64
	key                 uint64   // of its mark
	prefixEnd           boundary // the last one that can be named before the change
	isHandled           bool     // or dead-lettered
	answered            int64    // then as of an Item
}

// takeAside returns a change of a page as it is set aside, with memory of its own. The lock
// is held.
func (p *progress) takeAside(c *Item) *Item {
	item, prefixEnd := *c, c.inPage.boundaryBefore(int(c.Seq-c.inPage.start.seq)-1)
	if prefixEnd.position == "" {
		prefixEnd.position = feed.PositionBefore(c.inPage.bytes.page, p.isMerged)
	}
	item.inPage, item.aside = nil, &asideChange{
		seq: c.Seq, lsn: c.LSN, timestamp: c.Timestamp, key: p.markKey(&c.Change), prefixEnd: prefixEnd,
	}
	item.Detach()
	item.copiedBytes = item.Size()
	i, _ := slices.BinarySearchFunc(p.aside, c.Seq, func(c *asideChange, seq int64) int { return cmp.Compare(c.seq, seq) })
	p.aside = slices.Insert(p.aside, i, item.aside)
	return &item
}

// markKey returns the key of a change's mark.
func (p *progress) markKey(c *feed.Change) uint64 {
	return finished.KeyOf(c.OrderKey(p.keyPaths, false))
}

// firstUnhandled returns the first change set aside that waits for a call, or nil. The lock
// is held.
func (p *progress) firstUnhandled() *asideChange {
	for _, c := range p.aside {
		if !c.isHandled {
			return c
		}
	}
	return nil
}

// inheritedValue returns the value that the owner before has saved, or the zero value if it
// is void, and its Q, or 0 if it has saved none: it has read so far in any case.
func (c *Config) inheritedValue() (v finished.Value, reached int64) {
	if !c.MergedRange {
		v, _ = finished.Parse(c.SavedFinished)
	}
	if reached = v.Reached; v.Binding != c.Finished || reached <= feed.LSNOf(c.Continuation) {
		return finished.Value{}, reached
	}
	return v, reached
}

// isInherited reports whether an earlier owner has finished a change behind the position at
// which this owner has begun.
func (p *progress) isInherited(item *feed.Item) bool {
	reached := p.inherited.Reached
	return reached > 0 && item.LSN <= reached && p.inherited.Finished(p.markKey(&feed.Change{Item: *item}), item.LSN)
}

// keepsMarks reports whether the lease can hold marks: LSNs are in the order of the feed, and
// A is one. The lock is held.
func (p *progress) keepsMarks() bool {
	position := p.acknowledged.position
	if position == "" && len(p.aside) > 0 {
		position = p.aside[0].prefixEnd.position
	}
	return !p.isMerged && !p.noLSNs && feed.LSNOf(position) > 0 && feed.LSNOf(p.taken.position) > 0
}

// snapshot returns A and, for the lease, the changes behind it that are finished: "" if there
// are none, or if the lease cannot hold them. retryAt is when the first retry is due, in Unix
// seconds of the service's clock.
func (p *progress) snapshot(retryAt int64) (position, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	position = p.acknowledged.position
	if position == "" || !p.keepsMarks() {
		return position, ""
	}
	v := finished.Value{Binding: p.binding, Reached: max(feed.LSNOf(p.reached.position), p.inherited.Reached), RetryAt: retryAt}
	v.Continuation = position
	if v.Marks = p.marks(v.Reached); len(v.Marks) > finished.MaxMarks {
		v.Reached = p.marked
		v.Marks = p.marks(v.Reached)
	}
	p.marked = v.Reached
	if v.Reached <= feed.LSNOf(position) || len(v.Marks) > finished.MaxMarks {
		return position, ""
	}
	if slices.ContainsFunc(p.aside, func(c *asideChange) bool { return c.isHandled }) {
		v.RetryAt = 0 // a change that needs a further request is due
	}
	return position, v.Encode()
}

// marks returns, by key, the LSN of the first unfinished change up to a position. Behind Q
// each unfinished change up to the inherited position belongs to a key with an inherited
// mark, and is not before that mark: this owner has passed over the others. The lock is held.
func (p *progress) marks(reached int64) map[uint64]int64 {
	marks := map[uint64]int64{}
	add := func(key uint64, lsn int64) {
		if first, isMarked := marks[key]; lsn <= reached && (!isMarked || lsn < first) {
			marks[key] = lsn
		}
	}
	for _, c := range p.aside {
		add(c.key, c.lsn)
	}
	for key, lsn := range p.inherited.Marks {
		add(key, max(lsn, feed.LSNOf(p.reached.position)+1))
	}
	return marks
}

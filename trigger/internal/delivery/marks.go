package delivery

import (
	"cmp"
	"container/heap"
	"slices"

	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// A failing key must neither stop reading nor make a crash repeat the work on other keys. So
// the lease gets, beside the acknowledged prefix A, the position Q and a mark for each key
// with unfinished changes up to Q:
//
//  1. Host A has handled the changes 1 to 100, but for 7 and 9, whose keys wait. The lease
//     says: A is before 7, Q is after 100, the key of 7 is marked with 7 and that of 9 with 9.
//  2. A ends. Host B reads from A. A change up to Q is finished if its key has no mark, or one
//     above the change: B passes over it. So the key of 9 is delivered again from 9 on, and
//     the changes of other keys from 101 on.
//  3. B ends as well, when its own Q is after 50. It writes the inherited Q, and each inherited
//     mark that is not behind 50 as 51: an unfinished change of these keys may be there.
//
// Both positions and the marks are taken under one lock and written together. A value that
// does not belong to the function as it is, or to the position, is void, see
// [finished.Value]: a missing skip repeats a change, a wrong one loses it.

// asideChange is an unfinished change that is set aside. It outlives its page.
type asideChange struct {
	seq, lsn, timestamp int64
	key                 uint64   // of its mark
	before              boundary // the last one that can be named before the change
	answered            int64    // of the call that has handled it, if no request covers it yet; else 0
	isFinished          bool
}

// asideChanges are the changes that are set aside, as a heap by sequence number. Finished
// ones leave it when they are the first, or when they are many. The progress owns it.
type asideChanges struct {
	changes  asideHeap
	gone     int   // changes in the heap that are finished
	finished int64 // all that have been finished
}

// add takes in a change.
func (a *asideChanges) add(c *asideChange) { heap.Push(&a.changes, c) }

// first returns the first unfinished change, or nil.
func (a *asideChanges) first() *asideChange {
	for len(a.changes) > 0 && a.changes[0].isFinished {
		heap.Pop(&a.changes)
		a.gone--
	}
	if len(a.changes) == 0 {
		return nil
	}
	return a.changes[0]
}

// firstUnhandled returns the first change that waits for a call, or nil.
func (a *asideChanges) firstUnhandled() (first *asideChange) {
	for _, c := range a.changes {
		if !c.isFinished && c.answered == 0 && (first == nil || c.seq < first.seq) {
			first = c
		}
	}
	return first
}

// finish marks a change as finished.
func (a *asideChanges) finish(c *asideChange) {
	if c.isFinished {
		return
	}
	c.isFinished = true
	a.finished++
	if a.gone++; a.gone > 64 && a.gone > len(a.changes)/2 {
		a.changes = slices.DeleteFunc(a.changes, func(c *asideChange) bool { return c.isFinished })
		a.gone = 0
		heap.Init(&a.changes)
	}
}

type asideHeap []*asideChange

func (h asideHeap) Len() int           { return len(h) }
func (h asideHeap) Less(i, j int) bool { return h[i].seq < h[j].seq }
func (h asideHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *asideHeap) Push(c any)        { *h = append(*h, c.(*asideChange)) }
func (h *asideHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}

// finishAside finishes a change that is set aside, unless it still needs a request. The lock
// is held.
func (p *progress) finishAside(c *Item) {
	if p.schedule.setting.Manual && c.answered >= p.requested.request {
		c.aside.answered = c.answered
		return
	}
	p.aside.finish(c.aside)
}

// coverAside finishes the changes that the requests cover. The lock is held.
func (p *progress) coverAside() {
	var covered []*asideChange
	for _, c := range p.aside.changes {
		if c.answered > 0 && c.answered < p.requested.request {
			covered = append(covered, c)
		}
	}
	for _, c := range covered {
		p.aside.finish(c)
	}
}

// inheritedValue returns the value that the owner before has saved, or the zero value if it
// is void.
func (c *Config) inheritedValue() finished.Value {
	v, ok := finished.Parse(c.SavedFinished)
	if !ok || c.MergedRange || v.Binding != c.Finished || v.Reached <= feed.LSNOf(c.Continuation) {
		return finished.Value{}
	}
	return v
}

// readByFormer returns the Q of the owner before as an LSN, or 0 if it has saved none. It has
// read so far, whether the value is void or not.
func (c *Config) readByFormer() int64 {
	v, _ := finished.Parse(c.SavedFinished)
	if c.MergedRange {
		return 0
	}
	return v.Reached
}

// isInherited reports whether an earlier owner has finished a change behind the position at
// which this owner has begun.
func (p *progress) isInherited(item *feed.Item) bool {
	if p.inherited.Reached == 0 || item.LSN > p.inherited.Reached {
		return false
	}
	c := feed.Change{Item: *item}
	return p.inherited.Finished(finished.KeyOf(c.OrderKey(p.keyPaths, false)), c.LSN)
}

// keepsMarks reports whether the lease can hold marks: LSNs are in the order of the feed, and
// A is one. The lock is held.
func (p *progress) keepsMarks() bool {
	position := p.acknowledged.position
	if first := p.aside.first(); position == "" && first != nil {
		position = first.before.position
	}
	return !p.isMerged && !p.noLSNs && feed.LSNOf(position) > 0 && feed.LSNOf(p.taken.position) > 0
}

// snapshot returns A and, for the lease, the changes behind it that are finished: "" if there
// are none, or if the lease cannot hold them. retryAt is when the first retry is due, in Unix
// seconds of the service's clock.
func (p *progress) snapshot(retryAt int64) (position, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.value()
	if v.Reached == 0 {
		return p.acknowledged.position, ""
	}
	if !slices.ContainsFunc(p.aside.changes, func(c *asideChange) bool { return c.answered > 0 && !c.isFinished }) {
		v.RetryAt = retryAt // a change that needs a further request is due
	}
	return p.acknowledged.position, v.Encode()
}

// value returns what is finished behind A, or the zero value. The lock is held.
func (p *progress) value() finished.Value {
	if !p.keepsMarks() || p.acknowledged.position == "" {
		return finished.Value{}
	}
	reached := max(feed.LSNOf(p.reached.position), p.inherited.Reached)
	marks := p.marks(reached)
	if len(marks) > finished.MaxMarks {
		reached = p.marked
		marks = p.marks(reached)
	}
	p.marked = reached
	if reached <= feed.LSNOf(p.acknowledged.position) || len(marks) > finished.MaxMarks {
		return finished.Value{}
	}
	v := finished.Value{Binding: p.binding, Reached: reached}
	v.Continuation = p.acknowledged.position
	for key, lsn := range marks {
		v.Marks = append(v.Marks, finished.Mark{Key: key, LSN: lsn})
	}
	slices.SortFunc(v.Marks, func(a, b finished.Mark) int { return cmp.Compare(a.Key, b.Key) })
	return v
}

// marks returns, by key, the LSN of the first unfinished change up to a position. Behind Q
// each unfinished change up to the inherited position belongs to a key with an inherited
// mark, and is not before that mark: this owner has passed over the others. The lock is held.
func (p *progress) marks(reached int64) map[uint64]int64 {
	marks := map[uint64]int64{}
	add := func(key uint64, lsn int64) {
		if first, marked := marks[key]; lsn <= reached && (!marked || lsn < first) {
			marks[key] = lsn
		}
	}
	for _, c := range p.aside.changes {
		if !c.isFinished {
			add(c.key, c.lsn)
		}
	}
	passed := feed.LSNOf(p.reached.position)
	for _, m := range p.inherited.Marks {
		if reached > passed {
			add(m.Key, max(m.LSN, passed+1))
		}
	}
	return marks
}

package delivery

import (
	"math"
	"slices"
	"sync"
	"time"

	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// progress finds two positions of a range, each of them a low-water mark, as lanes finish
// changes in any order:
//
//   - Q is the end of the longest run of changes, from the position at which the lease was
//     acquired, in which every change is finished or set aside: its key waits.
//   - A, the acknowledged prefix, ends at Q or before the first unfinished change that is set
//     aside. Only A is ever written to a lease as its continuation.
//
// A change is finished when it is durable in the dead letter store, or handled. With manual
// checkpoints a request has to cover it as well, see requested.go. So that a failing key
// neither stops reading nor makes a crash repeat the work on other keys, the lease gets Q and
// the keys with unfinished changes up to Q, too, see marks.go.
//
// mu guards all of it. advancePosition is called under mu, so that positions arrive
// in order; it may take the locks of the lease's writer and of its scheduler.
type progress struct {
	advancePosition func(position string, saveAt time.Time)
	isMerged        bool // LSNs do not name positions in the range
	binding         finished.Binding
	inherited       finished.Value // of the owner before; the zero value if it is void
	keyPaths        []string

	mu           sync.Mutex
	schedule     checkpointSchedule
	pages        pageSize
	openPages    []*openPage    // in feed order, the first with changes that are neither finished nor set aside
	taken        boundary       // end of the newest page
	noLSNs       bool           // some page has shown that LSNs do not name positions
	passedSeq    int64          // sequence number before the first change that is neither finished nor set aside
	roomySeq     int64          // passedSeq when the keys that wait had marks
	request      int64          // the newest one for a checkpoint, as Verdict.Requested; at least 1, and without manual checkpoints above all calls
	stretches    []stretch      // of the feed, in its order; changes are added to the last one
	reached      boundary       // Q
	acknowledged boundary       // A
	aside        []*asideChange // in feed order, those that are not finished
	asideStale   bool           // some of them may be finished
	asideDone    int64          // number of those that have been finished
	marked       int64          // the Q that marks were last found for, as an LSN
}

// boundary is a place between two changes of the feed.
type boundary struct {
	position string // its continuation; "" before the first change of a lease without one
	seq      int64  // sequence number of the last change before it
	read     int64  // changes that this owner has read before it, undelivered ones too
}

func newProgress(c Config, advance func(string, time.Time)) *progress {
	start := boundary{position: c.Continuation}
	inherited, _ := c.inheritedValue()
	request := int64(math.MaxInt64)
	if c.Checkpoint.Manual {
		request = 1
	}
	return &progress{
		advancePosition: advance, isMerged: c.MergedRange, binding: c.Finished, keyPaths: c.KeyPaths,
		schedule: checkpointSchedule{setting: c.Checkpoint, savedAt: time.Now()},
		pages:    pageSize{inherited: c.FirstItems, full: int64(c.usualItems())},
		request:  request, stretches: []stretch{{end: start}},
		taken: start, reached: start, acknowledged: start,
		inherited: inherited, marked: inherited.Reached,
	}
}

// namesPositions reports whether positions between the changes of the next page have names.
func (p *progress) namesPositions(page *feed.Page) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.isMerged && feed.NamesPositions(page, p.taken.position)
}

// addPart takes in the next page, or a part of it, and numbers its changes: those at the given
// places are to be delivered. It returns the page if its bytes are not needed.
func (p *progress) addPart(part pagePart, passed []int) (items []Item, released []*feed.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	start, n := p.taken, len(passed)
	p.noLSNs = p.noLSNs || !part.areNamed
	p.pages.fit = p.pages.fit || part.areNamed && len(part.items) > 0
	p.taken = boundary{part.position, start.seq + int64(n), start.read + int64(len(part.items))}
	if n == 0 && part.isLast {
		released = part.bytes.letGo()
	}
	if last := len(p.openPages) - 1; n == 0 && last >= 0 { // so that pages without changes do not pile up behind a failing one
		p.openPages[last].end = p.taken
		return nil, released
	}
	o := newOpenPage(n)
	o.start, o.end, o.areNamed = start, p.taken, part.areNamed
	if n > 0 {
		o.takeIn(part, passed)
	}
	p.openPages = append(p.openPages, o)
	return o.items, released
}

// finishItems marks changes as handled or dead-lettered, moves both positions, and
// returns the pages whose bytes are not needed any more, and whether a page with
// changes is finished.
func (p *progress) finishItems(items []*Item) (released []*feed.Page, pageFinished bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range items {
		switch {
		case c.aside != nil:
			c.aside.isHandled, c.aside.answered = true, c.answered
			p.asideStale = true
		case c.inPage != nil: // else it comes from the store
			released = append(released, c.inPage.leave(c)...)
		}
	}
	return released, p.settle()
}

// setAside takes unfinished changes out of their pages: it returns them in the same order,
// with memory of their own, the pages whose bytes are not needed any more, the size of the
// copies, and whether a page with changes is finished. The pointers that it got are not
// valid any more. Changes that are set aside already, or that come from the store, stay.
func (p *progress) setAside(items []*Item) (kept []*Item, released []*feed.Page, copied int, pageFinished bool) {
	kept = slices.Clone(items)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range items {
		if c.inPage != nil {
			kept[i] = p.takeAside(c)
			copied += kept[i].copiedBytes
			released = append(released, c.inPage.leave(c)...)
		}
	}
	return kept, released, copied, p.settle()
}

// settle moves both positions as far as the finished changes allow. It reports whether a
// page with changes is finished. The lock is held.
func (p *progress) settle() (pageFinished bool) {
	pageFinished = p.closePages()
	oldReached := p.reached.position
	p.finishCovered()
	end := p.reached
	if len(p.aside) > 0 && p.aside[0].seq <= end.seq {
		end = p.aside[0].prefixEnd
	}
	moved := end.position != p.acknowledged.position && end.position != "" && !p.isBehind(end.position, p.acknowledged.position)
	if moved {
		p.acknowledged = end
	}
	p.pages.moved = p.pages.moved || moved || p.reached.position != oldReached && p.keepsMarks()
	if moved || p.reached.position != oldReached && p.acknowledged.position != "" && p.keepsMarks() {
		p.advancePosition(p.acknowledged.position, p.schedule.nextSave(p.reached.seq+p.asideDone, time.Now()))
	}
	return pageFinished
}

// closePages passes the finished changes, and closes the first pages if all of theirs are. It reports
// whether one of them had changes. The lock is held.
func (p *progress) closePages() (hadChanges bool) {
	for len(p.openPages) > 0 {
		o := p.openPages[0]
		p.passItems(o)
		if o.unfinished > 0 {
			break
		}
		hadChanges = hadChanges || len(o.items) > 0
		p.pages.fit = p.pages.fit || o.end.read-o.start.read >= p.pages.full
		p.openPages = slices.Delete(p.openPages, 0, 1)
		o.recycle()
	}
	return hadChanges
}

// isBehind reports whether a position is before an earlier one. An answer of a replica
// that lags must not move the range back.
func (p *progress) isBehind(position, earlier string) bool {
	return !p.isMerged && feed.IsLess(position, earlier)
}

// filteredPerChange is the number of undelivered changes that count as one in the distance
// of the reader from the first unfinished change. They only cost the next owner a read;
// but if they did not count, it might have to read without end.
const filteredPerChange = 10

// ahead returns the number of changes from the first unfinished one to the newest. If the
// lease can hold marks, changes that are set aside do not count. While more keys wait than
// have marks, the saved Q stays, and all changes count that follow the Q of the moment before.
func (p *progress) ahead(crowded bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !crowded {
		p.roomySeq = p.passedSeq
	}
	start, changes := p.taken, p.taken.seq-p.roomySeq
	if len(p.openPages) > 0 {
		start = p.openPages[0].start
	}
	if first := p.firstUnhandled(); first != nil && first.seq <= p.passedSeq && !p.keepsMarks() {
		start, changes = first.prefixEnd, p.taken.seq-first.prefixEnd.seq
	}
	filtered := p.taken.read - start.read - (p.taken.seq - start.seq)
	return int(changes + filtered/filteredPerChange)
}

// firstWaiting returns the first change that is set aside and waits for a call, or nil, and the
// number of changes from it to Q. A handled change that waits for a request does not count: the
// next request covers it.
func (p *progress) firstWaiting() (first *asideChange, unacknowledged int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first = p.firstUnhandled(); first != nil && first.seq <= p.reached.seq {
		unacknowledged = p.reached.read - first.prefixEnd.read
	}
	return first, unacknowledged
}

// allFinished reports whether every change that was read is finished, or at least handled.
func (p *progress) allFinished() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.openPages) == 0 && p.firstUnhandled() == nil
}

// finished returns the sequence number before the first unfinished change that is not set
// aside.
func (p *progress) finished() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passedSeq
}

// newest returns the sequence number of the newest change.
func (p *progress) newest() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken.seq
}

// oldestUnfinished returns LSN and timestamp of the first change that is not finished.
func (p *progress) oldestUnfinished() (lsn, timestamp int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isHeld() {
		return p.aside[0].lsn, p.aside[0].timestamp, true
	}
	if len(p.openPages) == 0 || p.openPages[0].unfinished == 0 {
		return 0, 0, false
	}
	first := &p.openPages[0].items[p.openPages[0].passed]
	return first.LSN, first.Timestamp, true
}

// pending returns the number of changes that are read and not finished.
func (p *progress) pending() (changes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.openPages {
		changes += o.unfinished
	}
	for _, a := range p.aside {
		if !a.isHandled {
			changes++
		}
	}
	return changes
}

// abandonPages returns all pages whose bytes are still held, when the worker ends, and the
// number of changes that were read behind A, undelivered ones too.
func (p *progress) abandonPages() (pages []*feed.Page, readAhead int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.openPages {
		pages = append(pages, o.bytes.letGo()...)
	}
	p.openPages, p.passedSeq = nil, p.taken.seq
	return pages, p.taken.read - p.acknowledged.read
}

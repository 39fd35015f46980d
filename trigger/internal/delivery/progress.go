package delivery

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// progress finds two positions of a range, and what lies between them.
//
//   - Q is the end of the longest run of changes, from the position at which the lease was
//     acquired, in which every change is finished (handled, or durable in the dead letter
//     store) or set aside: its key waits.
//   - A, the acknowledged prefix, ends at Q or before the first unfinished change that is set
//     aside. Only A is ever written to a lease as its continuation.
//
// Lanes finish changes in any order; each position is a low-water mark. Beside A the lease
// gets the changes up to Q that are not finished, by key, see marks.go.
//
// mu guards all of it. advancePosition is called under mu, so that positions arrive
// in order; it may take the lock of the lease's writer.
type progress struct {
	advancePosition func(position string, saveAt time.Time)
	isMerged        bool // LSNs do not name positions in the range
	binding         finished.Binding
	inherited       finished.Value // of the owner before; the zero value if it is void
	keyPaths        []string

	mu           sync.Mutex
	schedule     checkpointSchedule
	openPages    []*openPage // in feed order, the first with changes that are neither finished nor set aside
	newestSeq    int64       // sequence number of the newest change
	filtered     int         // changes of the open pages that are not delivered
	taken        boundary    // end of the newest page
	noLSNs       bool        // some page has shown that LSNs are not in the order of the feed
	handled      boundary    // Q, by what lanes have finished
	reached      boundary    // Q, by what may be saved: with manual checkpoints a request covers it
	acknowledged boundary    // A
	aside        asideChanges
	requested    requestedPositions
	roomySeq     int64 // last change before Q when the keys that wait had marks
	marked       int64 // the Q that marks were last found for, as an LSN
}

// boundary is a place between two changes of the feed.
type boundary struct {
	position string // its continuation; "" before the first change of a lease without one
	seq      int64  // sequence number of the last change before it
	read     int64  // changes that this owner has read before it, undelivered ones too
}

func newProgress(c Config, advance func(string, time.Time)) *progress {
	p := &progress{
		advancePosition: advance, isMerged: c.MergedRange, binding: c.Finished, keyPaths: c.KeyPaths,
		schedule:  checkpointSchedule{setting: c.Checkpoint, savedAt: time.Now()},
		requested: requestedPositions{request: 1},
	}
	p.taken.position = c.Continuation
	p.handled, p.reached, p.acknowledged = p.taken, p.taken, p.taken
	p.inherited = c.inheritedValue()
	p.marked = p.inherited.Reached
	return p
}

// addPage takes in a page and numbers its changes: those at the given places are to be
// delivered. If there are none, the page's bytes are not needed.
func (p *progress) addPage(page *feed.Page, passed []int) []Item {
	n, filtered := len(passed), len(page.Items)-len(passed)
	p.mu.Lock()
	defer p.mu.Unlock()
	namesLSNs := feed.NamesLSNs(page)
	p.noLSNs = p.noLSNs || !namesLSNs && !feed.KeepsLSNs(page)
	start := p.taken
	if start.position == "" {
		start.position, _ = feed.PositionBefore(page, p.isMerged)
	}
	p.taken = boundary{page.Continuation, p.newestSeq + int64(n), p.taken.read + int64(len(page.Items))}
	p.filtered += filtered
	if n == 0 && len(p.openPages) > 0 { // so that pages without changes do not pile up behind a failing one
		last := p.openPages[len(p.openPages)-1]
		last.end, last.filtered = p.taken, last.filtered+filtered
		return nil
	}
	o := newOpenPage(n)
	o.start, o.end, o.filtered = start, p.taken, filtered
	o.unfinished, o.innerNamed = n, !p.isMerged && namesLSNs
	if n > 0 {
		o.feedPage = page
	}
	p.openPages = append(p.openPages, o)
	before, readBefore, reached := int64(0), 0, 0
	for i, at := range passed {
		for ; reached < at; reached++ {
			if lsn := page.Items[reached].LSN; lsn != page.Items[reached+1].LSN {
				before, readBefore = lsn, reached+1
			}
		}
		p.newestSeq++
		c := &o.items[i]
		c.Item, c.Seq, c.inPage, c.lsnBefore, c.readBefore = page.Items[at], p.newestSeq, o, before, readBefore
	}
	return o.items
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
			p.finishAside(c)
		case c.inPage != nil && !c.isFinished: // else it comes from the store
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
	for i, c := range items {
		if c.inPage == nil {
			continue
		}
		own := *c
		own.Change.Detach()
		own.copiedBytes = own.Size()
		copied += own.copiedBytes
		own.inPage, own.aside = nil, &asideChange{
			seq: c.Seq, lsn: c.LSN, timestamp: c.Timestamp, key: finished.KeyOf(c.OrderKey(p.keyPaths, false)),
		}
		kept[i] = &own
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range items {
		if o := c.inPage; o != nil {
			kept[i].aside.before, _ = o.boundaryBefore(int(c.Seq-o.start.seq) - 1)
			p.aside.add(kept[i].aside)
			released = append(released, o.leave(c)...)
		}
	}
	return kept, released, copied, p.settle()
}

// settle moves both positions as far as the finished changes allow. It reports whether a
// page with changes is finished. The lock is held.
func (p *progress) settle() (pageFinished bool) {
	handled := p.handled
	for len(p.openPages) > 0 {
		o := p.openPages[0]
		done := o.finishedPrefix()
		if at, named := o.boundaryBefore(done); named {
			handled = at
		}
		if p.schedule.setting.Manual {
			p.passRequested(o, done)
		}
		if o.unfinished > 0 {
			break
		}
		pageFinished = pageFinished || len(o.items) > 0
		p.filtered -= o.filtered
		p.openPages = slices.Delete(p.openPages, 0, 1)
		o.recycle()
	}
	if p.isBehind(handled.position, p.handled.position) {
		handled.position = p.handled.position
	}
	p.handled = handled
	before := p.reached
	if p.reached = handled; p.schedule.setting.Manual {
		p.reached = before
		p.coverRequested()
	}
	end := p.reached
	if first := p.aside.first(); first != nil && first.seq <= end.seq {
		end = first.before
	}
	moved := end.position != p.acknowledged.position && end.position != "" && !p.isBehind(end.position, p.acknowledged.position)
	if moved {
		p.acknowledged = end
	}
	if moved || p.reached.position != before.position && p.acknowledged.position != "" && p.keepsMarks() {
		p.advancePosition(p.acknowledged.position, p.schedule.nextSave(p.reached.seq+p.aside.finished, time.Now()))
	}
	return pageFinished
}

// isBehind reports whether a position is before an earlier one. An answer of a replica
// that lags must not move the range back.
func (p *progress) isBehind(position, earlier string) bool {
	if p.isMerged {
		return false
	}
	old, oldErr := strconv.ParseInt(strings.Trim(earlier, `"`), 10, 64)
	next, nextErr := strconv.ParseInt(strings.Trim(position, `"`), 10, 64)
	return oldErr == nil && nextErr == nil && next < old
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
		p.roomySeq = p.finishedSeq()
	}
	changes, filtered := p.newestSeq-min(p.finishedSeq(), p.roomySeq), int64(p.filtered)
	if !p.keepsMarks() {
		if first := p.aside.firstUnhandled(); first != nil && first.seq <= p.finishedSeq() {
			changes = p.newestSeq - first.before.seq
			filtered = p.taken.read - first.before.read - changes
		}
	}
	return int(changes + filtered/filteredPerChange)
}

// maxUnacknowledged is the number of changes between A and Q at which reading stops: the next
// owner reads all of them again.
const maxUnacknowledged = 1_000_000

// unacknowledged returns the number of changes between A and Q.
func (p *progress) unacknowledged() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached.read - p.acknowledged.read
}

// allFinished reports whether every change that was read is finished, or at least handled.
func (p *progress) allFinished() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.openPages) == 0 && p.aside.firstUnhandled() == nil
}

// finished returns the sequence number before the first unfinished change that is not set
// aside.
func (p *progress) finished() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finishedSeq()
}

// newest returns the sequence number of the newest change.
func (p *progress) newest() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newestSeq
}

// finishedSeq is finished. The lock is held.
func (p *progress) finishedSeq() int64 {
	if len(p.openPages) == 0 {
		return p.newestSeq
	}
	o := p.openPages[0]
	return o.start.seq + int64(o.finishedPrefix())
}

// oldestUnfinished returns LSN and timestamp of the first change that is not finished.
func (p *progress) oldestUnfinished() (lsn, timestamp int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := p.finishedSeq() + 1
	if first := p.aside.first(); first != nil && first.seq <= seq {
		return first.lsn, first.timestamp, true
	}
	if len(p.openPages) == 0 || p.openPages[0].unfinished == 0 {
		return 0, 0, false
	}
	first := &p.openPages[0].items[p.openPages[0].finishedPrefix()]
	return first.LSN, first.Timestamp, true
}

// abandonPages returns all pages whose bytes are still held, when the worker ends, and the
// number of changes that were read behind A, undelivered ones too.
func (p *progress) abandonPages() (pages []*feed.Page, ahead int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.openPages {
		if o.feedPage != nil {
			pages = append(pages, o.feedPage)
		}
	}
	p.openPages = nil
	return pages, p.taken.read - p.acknowledged.read
}

// end returns A, "" before the first change of a lease without a continuation.
func (p *progress) end() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acknowledged.position
}

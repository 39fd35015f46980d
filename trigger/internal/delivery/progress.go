package delivery

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"halley/trigger/internal/feed"
)

// progress finds the acknowledged prefix of a range: the longest run of changes,
// from the position at which the lease was acquired, in which every change was
// handled or durably dead-lettered. Only the end of that prefix is ever written to
// a lease. Lanes finish changes in any order; the prefix is their low-water mark.
//
// mu guards all of it. advancePosition is called under mu, so that positions arrive
// in order; it may take the lock of the lease's writer.
type progress struct {
	advancePosition func(position string, urgent bool)
	isMerged        bool // LSNs do not name positions in the range

	mu          sync.Mutex
	schedule    checkpointSchedule
	openPages   []*openPage // in feed order, the first with unfinished changes
	newestSeq   int64       // sequence number of the newest change
	endPosition string      // of the prefix; "" before its first change
	endSeq      int64       // last change in it

	requestedEnd string // position of the last manual checkpoint
}

// position is where a change is in the feed.
type position struct{ lsn, timestamp int64 }

// openPage is a page with changes that are not finished. Its bytes are released
// before that if the unfinished changes have bytes of their own.
type openPage struct {
	feedPage     *feed.Page // nil after its bytes were released
	continuation string
	changes      []position // of its changes, in order
	seqBefore    int64      // sequence number of the last change before the page
	unfinished   int
	attached     int // unfinished changes that need the page's bytes
	itemDone     []bool
	innerNamed   bool // a position inside the page can be named, see namesLSNs
}

func newProgress(setting Checkpoint, advance func(string, bool), merged bool) *progress {
	return &progress{advancePosition: advance, isMerged: merged, schedule: checkpointSchedule{setting: setting, savedAt: time.Now()}}
}

// addPage takes in a page and numbers its changes.
func (p *progress) addPage(page *feed.Page) []Item {
	n := len(page.Items)
	o := &openPage{
		feedPage: page, continuation: page.Continuation, changes: make([]position, n), unfinished: n, attached: n, itemDone: make([]bool, n),
		innerNamed: !p.isMerged && namesLSNs(page),
	}
	items := make([]Item, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	o.seqBefore = p.newestSeq
	p.openPages = append(p.openPages, o)
	for i, item := range page.Items {
		p.newestSeq++
		o.changes[i] = position{item.LSN, item.Timestamp}
		items[i] = Item{Change: feed.Change{Item: item}, Seq: p.newestSeq, inPage: o, pageIndex: i}
	}
	return items
}

// namesLSNs reports whether the page proves that continuations are LSNs: its own
// continuation is the LSN of its last change, and LSNs never fall. Then "<lsn>" of
// an inner change is a continuation too. Merged ranges never prove it.
func namesLSNs(page *feed.Page) bool {
	last := int64(0)
	for _, item := range page.Items {
		if item.LSN < last || item.LSN <= 0 {
			return false
		}
		last = item.LSN
	}
	return page.Continuation == quotedLSN(last)
}

func quotedLSN(lsn int64) string { return `"` + strconv.FormatInt(lsn, 10) + `"` }

// finishItems marks changes as handled or dead-lettered, advances the prefix, and
// returns the pages whose bytes are not needed any more, and whether a page with
// changes is finished.
func (p *progress) finishItems(items []*Item) (released []*feed.Page, pageFinished bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range items {
		o := c.inPage
		if o.itemDone[c.pageIndex] {
			continue
		}
		o.itemDone[c.pageIndex] = true
		o.unfinished--
		if !c.detached {
			c.detached = true
			released = append(released, o.detachOne()...)
		}
	}
	end, seq, requested := p.endPosition, p.endSeq, ""
	for len(p.openPages) > 0 {
		o := p.openPages[0]
		done := o.finishedPrefix()
		if at, n, named := o.positionWithin(done); named {
			end, seq = at, o.seqBefore+int64(n)
		}
		if at, _, named := o.positionWithin(min(done, int(p.schedule.requestedSeq-o.seqBefore))); named {
			requested = at
		}
		if o.unfinished > 0 {
			break
		}
		if o.feedPage != nil { // a page without changes
			released, o.feedPage = append(released, o.feedPage), nil
		}
		pageFinished = pageFinished || len(o.changes) > 0
		p.openPages = p.openPages[1:]
	}
	p.endSeq = max(p.endSeq, seq)
	if end != p.endPosition && !p.isBehind(end) {
		p.endPosition = end
		p.savePrefix(requested)
	}
	return released, pageFinished
}

// isBehind reports whether a position is before the one that is acknowledged. An
// answer of a replica that lags must not move the range back.
func (p *progress) isBehind(position string) bool {
	if p.isMerged {
		return false
	}
	old, oldErr := strconv.ParseInt(strings.Trim(p.endPosition, `"`), 10, 64)
	next, nextErr := strconv.ParseInt(strings.Trim(position, `"`), 10, 64)
	return oldErr == nil && nextErr == nil && next < old
}

// detachOne says that one more change does not need the page's bytes. It returns the
// page if no other change does. The progress's lock is held.
func (o *openPage) detachOne() (released []*feed.Page) {
	o.attached--
	if o.attached > 0 || o.feedPage == nil {
		return nil
	}
	released, o.feedPage = []*feed.Page{o.feedPage}, nil
	return released
}

// detachItems gives unfinished changes bytes of their own. It returns the pages
// whose bytes are not needed any more, and the size of the copies.
func (p *progress) detachItems(items []*Item) (released []*feed.Page, copied int) {
	var pages []*openPage
	for _, c := range items {
		if !c.detached {
			c.detached = true
			c.Change.Detach()
			copied += c.Size()
			pages = append(pages, c.inPage)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range pages {
		released = append(released, o.detachOne()...)
	}
	return released, copied
}

// ahead returns the number of changes from the first unfinished one to the newest.
func (p *progress) ahead() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.newestSeq - p.finishedSeq())
}

// finished returns the sequence number before the first unfinished change.
func (p *progress) finished() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finishedSeq()
}

// finishedSeq is the last change before the first unfinished one. The lock is held.
func (p *progress) finishedSeq() int64 {
	if len(p.openPages) == 0 {
		return p.newestSeq
	}
	o := p.openPages[0]
	return o.seqBefore + int64(o.finishedPrefix())
}

// requestCheckpoint asks for a manual checkpoint after the change with that sequence
// number, once the prefix holds it. A lane requests it before it finishes that change:
// the prefix may pass the change together with later ones that other lanes have
// finished. If the position has no name, because it is inside a transaction or in a
// page of a merged range, the last position before it is saved.
func (p *progress) requestCheckpoint(seq int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.requestedSeq = max(p.schedule.requestedSeq, seq)
	if p.schedule.setting.Manual && p.endPosition != "" && p.endSeq <= p.schedule.requestedSeq {
		p.savePrefix(p.endPosition)
	}
}

// savePrefix passes the end of the prefix on as the checkpoint setting says. requested
// is the last position that a manual checkpoint may hold, "" if it has not moved.
func (p *progress) savePrefix(requested string) {
	switch {
	case !p.schedule.setting.Manual:
		p.advancePosition(p.endPosition, p.schedule.isDue(p.endSeq))
	case requested != "" && requested != p.requestedEnd:
		p.requestedEnd = requested
		p.advancePosition(requested, true)
	}
}

// finishedPrefix counts the finished changes at the start of the page.
func (o *openPage) finishedPrefix() int {
	if o.unfinished == 0 {
		return len(o.itemDone)
	}
	return slices.Index(o.itemDone, false)
}

// positionWithin names the last position after at most n changes of the page, and
// counts the changes before it. named is false if there is no such position. A
// transaction shares one LSN and is never divided.
func (o *openPage) positionWithin(n int) (position string, changes int, named bool) {
	if n >= len(o.changes) {
		return o.continuation, len(o.changes), true
	}
	for n > 0 && o.changes[n-1].lsn == o.changes[n].lsn {
		n--
	}
	if n <= 0 || !o.innerNamed {
		return "", 0, false
	}
	return quotedLSN(o.changes[n-1].lsn), n, true
}

// oldestUnfinished returns LSN and timestamp of the first change that is not finished.
func (p *progress) oldestUnfinished() (lsn, timestamp int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.openPages) == 0 || p.openPages[0].unfinished == 0 {
		return 0, 0, false
	}
	first := p.openPages[0].changes[slices.Index(p.openPages[0].itemDone, false)]
	return first.lsn, first.timestamp, true
}

// abandonPages returns all pages whose bytes are still held, when the worker ends.
func (p *progress) abandonPages() (pages []*feed.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.openPages {
		if o.feedPage != nil {
			pages = append(pages, o.feedPage)
		}
	}
	p.openPages = nil
	return pages
}

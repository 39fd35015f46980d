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
	filtered    int         // changes of the open pages that did not pass the filter
	endPosition string      // of the prefix; "" before its first change
	endSeq      int64       // last change in it

	requestedEnd string // position of the last manual checkpoint
}

// position is where a change is in the feed.
type position struct {
	lsn, timestamp int64
	lsnBefore      int64 // of the last change of its page with a smaller LSN, filtered ones too; 0 if there is none
}

// openPage is a page with changes that are not finished. Changes that did not pass the
// filter are not in it: they are finished from the start. Its bytes are released
// before its end if the unfinished changes have bytes of their own.
type openPage struct {
	feedPage     *feed.Page // nil after its bytes were released
	continuation string     // after the page, and after pages behind it of which no change passed the filter
	changes      []position // of its changes, in order
	filtered     int        // further changes of the page, and of pages behind it
	seqBefore    int64      // sequence number of the last change before the page
	unfinished   int
	attached     int // unfinished changes that need the page's bytes
	itemDone     []bool
	innerNamed   bool // a position inside the page can be named, see feed.NamesLSNs
}

func newProgress(setting Checkpoint, advance func(string, bool), merged bool) *progress {
	return &progress{advancePosition: advance, isMerged: merged, schedule: checkpointSchedule{setting: setting, savedAt: time.Now()}}
}

// addPage takes in a page and numbers its changes: those at the given places passed the
// filter. If none did, the page's bytes are not needed.
func (p *progress) addPage(page *feed.Page, passed []int) []Item {
	n, filtered := len(passed), len(page.Items)-len(passed)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filtered += filtered
	if n == 0 && len(p.openPages) > 0 { // so that pages without changes do not pile up behind a failing one
		last := p.openPages[len(p.openPages)-1]
		last.continuation, last.filtered = page.Continuation, last.filtered+filtered
		return nil
	}
	o := &openPage{
		continuation: page.Continuation, changes: make([]position, n), filtered: filtered, seqBefore: p.newestSeq, unfinished: n, attached: n,
		itemDone: make([]bool, n), innerNamed: !p.isMerged && feed.NamesLSNs(page),
	}
	if n > 0 {
		o.feedPage = page
	}
	p.openPages = append(p.openPages, o)
	items := make([]Item, n)
	before, reached := int64(0), 0
	for i, at := range passed {
		for ; reached < at; reached++ {
			if lsn := page.Items[reached].LSN; lsn != page.Items[reached+1].LSN {
				before = lsn
			}
		}
		item := page.Items[at]
		p.newestSeq++
		o.changes[i] = position{item.LSN, item.Timestamp, before}
		items[i] = Item{Change: feed.Change{Item: item}, Seq: p.newestSeq, inPage: o, pageIndex: i}
	}
	return items
}

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
	end, seq, requested, requestedSeq := p.endPosition, p.endSeq, "", int64(0)
	for len(p.openPages) > 0 {
		o := p.openPages[0]
		done := o.finishedPrefix()
		if at, n, named := o.positionWithin(done); named {
			end, seq = at, o.seqBefore+int64(n)
		}
		if at, n, named := o.positionWithin(min(done, int(p.schedule.requestedSeq-o.seqBefore))); named {
			requested, requestedSeq = at, o.seqBefore+int64(n)
		}
		if o.unfinished > 0 {
			break
		}
		pageFinished = pageFinished || len(o.changes) > 0
		p.filtered -= o.filtered
		p.openPages = p.openPages[1:]
	}
	p.endSeq = max(p.endSeq, seq)
	if end != p.endPosition && !p.isBehind(end) {
		p.endPosition = end
		p.savePrefix(requested, requestedSeq)
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

// filteredPerChange is the number of filtered changes that count as one in the distance
// of the reader from the first unfinished change. They only cost the next owner a read;
// but if they did not count, it might have to read without end.
const filteredPerChange = 10

// ahead returns the number of changes from the first unfinished one to the newest.
func (p *progress) ahead() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.newestSeq-p.finishedSeq()) + p.filtered/filteredPerChange
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
		p.savePrefix(p.endPosition, p.endSeq)
	}
}

// savePrefix passes the end of the prefix on as the checkpoint setting says. requested
// is the last position that a manual checkpoint may hold, "" if it has not moved, and
// requestedSeq the last change before it. If only filtered changes were passed, the
// position goes with the next write.
func (p *progress) savePrefix(requested string, requestedSeq int64) {
	switch {
	case !p.schedule.setting.Manual:
		p.advancePosition(p.endPosition, p.schedule.isDue(p.endSeq))
	case requested != "" && requested != p.requestedEnd:
		p.requestedEnd = requested
		p.advancePosition(requested, p.schedule.isRequestDue(requestedSeq))
	}
}

// finishedPrefix counts the finished changes at the start of the page.
func (o *openPage) finishedPrefix() int {
	if o.unfinished == 0 {
		return len(o.itemDone)
	}
	return slices.Index(o.itemDone, false)
}

// positionWithin names the last position before change n of the page, and counts the
// changes before it. named is false if there is no such position. A
// transaction shares one LSN and is never divided.
func (o *openPage) positionWithin(n int) (position string, changes int, named bool) {
	if n >= len(o.changes) {
		return o.continuation, len(o.changes), true
	}
	for n > 0 && o.changes[n-1].lsn == o.changes[n].lsn {
		n--
	}
	if n < 0 || !o.innerNamed || o.changes[n].lsnBefore == 0 {
		return "", 0, false
	}
	return feed.QuotedLSN(o.changes[n].lsnBefore), n, true
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

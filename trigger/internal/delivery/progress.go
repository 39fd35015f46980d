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
	advancePosition func(position string, saveAt time.Time)
	isMerged        bool // LSNs do not name positions in the range

	mu          sync.Mutex
	schedule    checkpointSchedule
	openPages   []*openPage // in feed order, the first with unfinished changes
	newestSeq   int64       // sequence number of the newest change
	filtered    int         // changes of the open pages that did not pass the filter
	endPosition string      // of the prefix; "" before its first change
	endSeq      int64       // last change in it
	requested   requestedPositions
}

func newProgress(setting Checkpoint, advance func(string, time.Time), merged bool) *progress {
	return &progress{advancePosition: advance, isMerged: merged, schedule: checkpointSchedule{setting: setting, savedAt: time.Now()}, requested: requestedPositions{request: 1}}
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
	o := newOpenPage(n)
	o.continuation, o.filtered, o.seqBefore = page.Continuation, filtered, p.newestSeq
	o.unfinished, o.attached, o.innerNamed = n, n, !p.isMerged && feed.NamesLSNs(page)
	if n > 0 {
		o.feedPage = page
	}
	p.openPages = append(p.openPages, o)
	before, reached := int64(0), 0
	for i, at := range passed {
		for ; reached < at; reached++ {
			if lsn := page.Items[reached].LSN; lsn != page.Items[reached+1].LSN {
				before = lsn
			}
		}
		p.newestSeq++
		c := &o.items[i]
		c.Item, c.Seq, c.inPage, c.lsnBefore = page.Items[at], p.newestSeq, o, before
	}
	return o.items
}

// finishItems marks changes as handled or dead-lettered, advances the prefix, and
// returns the pages whose bytes are not needed any more, and whether a page with
// changes is finished.
func (p *progress) finishItems(items []*Item) (released []*feed.Page, pageFinished bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range items {
		o := c.inPage
		if o == nil || c.isFinished { // no page: it comes from the store
			continue
		}
		c.isFinished = true
		o.unfinished--
		if !c.detached {
			c.detached = true
			released = append(released, o.detachOne()...)
		}
	}
	end, seq := p.endPosition, p.endSeq
	for len(p.openPages) > 0 {
		o := p.openPages[0]
		done := o.finishedPrefix()
		if at, n, named := o.positionWithin(done); named {
			end, seq = at, o.seqBefore+int64(n)
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
	p.endSeq = max(p.endSeq, seq)
	moved := end != p.endPosition && !p.isBehind(end, p.endPosition)
	if moved {
		p.endPosition = end
	}
	switch {
	case p.schedule.setting.Manual:
		p.saveRequested()
	case moved: // if only filtered changes were passed, the position goes with the next write
		p.advancePosition(end, p.schedule.nextSave(p.endSeq, time.Now()))
	}
	return released, pageFinished
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

// oldestUnfinished returns LSN and timestamp of the first change that is not finished.
func (p *progress) oldestUnfinished() (lsn, timestamp int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.openPages) == 0 || p.openPages[0].unfinished == 0 {
		return 0, 0, false
	}
	first := &p.openPages[0].items[p.openPages[0].finishedPrefix()]
	return first.LSN, first.Timestamp, true
}

// abandonPages returns all pages whose bytes are still held, when the worker ends, and the
// number of changes that were read behind the prefix, filtered ones too.
func (p *progress) abandonPages() (pages []*feed.Page, ahead int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.openPages {
		ahead += len(o.items) + o.filtered
		if o.feedPage != nil {
			pages = append(pages, o.feedPage)
		}
	}
	p.openPages = nil
	return pages, ahead
}

// end returns the end of the prefix, "" before its first change.
func (p *progress) end() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endPosition
}

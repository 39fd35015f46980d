package delivery

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"halley/trigger/internal/feed"
)

// progress finds the acknowledged prefix of a range: the longest run of changes,
// from the position at which the lease was acquired, in which every change was
// handled or durably dead-lettered. Only the end of that prefix is ever written to
// a lease. Lanes finish changes in any order; the prefix is their low-water mark.
//
// mu guards all of it. advance is called under mu, so that positions arrive in
// order; it may take the lock of the lease's writer.
type progress struct {
	advancePosition func(position string, urgent bool)
	isMerged        bool // LSNs do not name positions in the range

	mu          sync.Mutex
	schedule    checkpointSchedule
	openPages   []*openPage // in feed order, the first with unfinished changes
	newestSeq   int64       // sequence number of the newest change
	endPosition string      // of the prefix; "" before its first change
	endSeq      int64       // last change in it
}

// openPage is a page with changes that are not finished.
type openPage struct {
	feedPage   *feed.Page
	seqBefore  int64 // sequence number of the last change before the page
	unfinished int
	itemDone   []bool
	innerNamed bool // a position inside the page can be named, see namesLSNs
}

func newProgress(setting Checkpoint, advance func(string, bool), merged bool) *progress {
	return &progress{advancePosition: advance, isMerged: merged, schedule: checkpointSchedule{setting: setting, savedAt: time.Now()}}
}

// addPage takes in a page and numbers its changes.
func (p *progress) addPage(page *feed.Page) []Item {
	o := &openPage{
		feedPage: page, unfinished: len(page.Items), itemDone: make([]bool, len(page.Items)),
		innerNamed: !p.isMerged && namesLSNs(page),
	}
	items := make([]Item, len(page.Items))
	p.mu.Lock()
	defer p.mu.Unlock()
	o.seqBefore = p.newestSeq
	p.openPages = append(p.openPages, o)
	for i, item := range page.Items {
		p.newestSeq++
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
// returns the pages that are finished.
func (p *progress) finishItems(items []*Item) (finished []*feed.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range items {
		if !c.inPage.itemDone[c.pageIndex] {
			c.inPage.itemDone[c.pageIndex] = true
			c.inPage.unfinished--
		}
	}
	end, seq := p.endPosition, p.endSeq
	for len(p.openPages) > 0 && p.openPages[0].unfinished == 0 {
		o := p.openPages[0]
		finished = append(finished, o.feedPage)
		end, seq = o.feedPage.Continuation, o.seqBefore+int64(len(o.itemDone))
		p.openPages = p.openPages[1:]
	}
	if len(p.openPages) > 0 {
		if inner, n := p.openPages[0].innerPosition(); n > 0 {
			end, seq = inner, p.openPages[0].seqBefore+int64(n)
		}
	}
	if end != p.endPosition {
		p.endPosition, p.endSeq = end, seq
		p.savePrefix()
	}
	return finished
}

// requestCheckpoint asks for a manual checkpoint after the change with that sequence
// number. If that position has no name, because it is inside a transaction or in a
// page of a merged range, the last position before it is saved.
func (p *progress) requestCheckpoint(seq int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.requestedSeq = max(p.schedule.requestedSeq, seq)
	if p.schedule.setting.Manual && p.endPosition != "" {
		p.savePrefix()
	}
}

// savePrefix passes the end of the prefix on as the checkpoint setting says.
func (p *progress) savePrefix() {
	if !p.schedule.setting.Manual {
		p.advancePosition(p.endPosition, p.schedule.isDue(p.endSeq))
	} else if p.endSeq <= p.schedule.requestedSeq {
		p.advancePosition(p.endPosition, true)
	}
}

// innerPosition names the last position inside the page before which everything
// is finished, and counts the changes before it; 0 means that there is none. A
// transaction shares one LSN and is never divided.
func (o *openPage) innerPosition() (string, int) {
	if !o.innerNamed {
		return "", 0
	}
	items := o.feedPage.Items
	first := slices.Index(o.itemDone, false) // there is one, as the page is unfinished
	end := first
	for end > 0 && items[end-1].LSN == items[first].LSN {
		end--
	}
	if end == 0 {
		return "", 0
	}
	return quotedLSN(items[end-1].LSN), end
}

// oldestUnfinished returns LSN and timestamp of the first change that is not finished.
func (p *progress) oldestUnfinished() (lsn, timestamp int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.openPages) == 0 || p.openPages[0].unfinished == 0 {
		return 0, 0, false
	}
	item := p.openPages[0].feedPage.Items[slices.Index(p.openPages[0].itemDone, false)]
	return item.LSN, item.Timestamp, true
}

// abandonPages returns all pages that are still open, when the worker ends.
func (p *progress) abandonPages() (pages []*feed.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.openPages {
		pages = append(pages, o.feedPage)
	}
	p.openPages = nil
	return pages
}

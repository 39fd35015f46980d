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
	advance func(position string, urgent bool)
	merged  bool // LSNs do not name positions in the range

	mu       sync.Mutex
	schedule schedule
	pages    []*openPage // in feed order, the first with unfinished changes
	newest   int64       // sequence number of the newest change
	end      string      // of the prefix; "" before its first change
	endSeq   int64       // last change in it
}

// openPage is a page with changes that are not finished.
type openPage struct {
	page       *feed.Page
	before     int64 // sequence number of the last change before the page
	unfinished int
	done       []bool
	inside     bool // a position inside the page can be named, see namesLSNs
}

func newProgress(setting Checkpoint, advance func(string, bool), merged bool) *progress {
	return &progress{advance: advance, merged: merged, schedule: schedule{setting: setting, savedAt: time.Now()}}
}

// open takes in a page and numbers its changes.
func (p *progress) open(page *feed.Page) []Item {
	o := &openPage{
		page: page, unfinished: len(page.Items), done: make([]bool, len(page.Items)),
		inside: !p.merged && namesLSNs(page),
	}
	items := make([]Item, len(page.Items))
	p.mu.Lock()
	defer p.mu.Unlock()
	o.before = p.newest
	p.pages = append(p.pages, o)
	for i, item := range page.Items {
		p.newest++
		items[i] = Item{Change: feed.Change{Item: item}, Seq: p.newest, page: o, index: i}
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

// finish marks changes as handled or dead-lettered, advances the prefix, and
// returns the pages that are finished.
func (p *progress) finish(items []*Item) (finished []*feed.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range items {
		if !c.page.done[c.index] {
			c.page.done[c.index] = true
			c.page.unfinished--
		}
	}
	end, seq := p.end, p.endSeq
	for len(p.pages) > 0 && p.pages[0].unfinished == 0 {
		o := p.pages[0]
		finished = append(finished, o.page)
		end, seq = o.page.Continuation, o.before+int64(len(o.done))
		p.pages = p.pages[1:]
	}
	if len(p.pages) > 0 {
		if inner, n := p.pages[0].innerPosition(); n > 0 {
			end, seq = inner, p.pages[0].before+int64(n)
		}
	}
	if end != p.end {
		p.end, p.endSeq = end, seq
		p.save()
	}
	return finished
}

// request asks for a manual checkpoint after the change with that sequence
// number. If that position has no name, because it is inside a transaction or in a
// page of a merged range, the last position before it is saved.
func (p *progress) request(seq int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.requested = max(p.schedule.requested, seq)
	if p.schedule.setting.Manual && p.end != "" {
		p.save()
	}
}

// save passes the end of the prefix on as the checkpoint setting says.
func (p *progress) save() {
	if !p.schedule.setting.Manual {
		p.advance(p.end, p.schedule.due(p.endSeq))
	} else if p.endSeq <= p.schedule.requested {
		p.advance(p.end, true)
	}
}

// innerPosition names the last position inside the page before which everything
// is finished, and counts the changes before it; 0 means that there is none. A
// transaction shares one LSN and is never divided.
func (o *openPage) innerPosition() (string, int) {
	if !o.inside {
		return "", 0
	}
	items := o.page.Items
	first := slices.Index(o.done, false) // there is one, as the page is unfinished
	end := first
	for end > 0 && items[end-1].LSN == items[first].LSN {
		end--
	}
	if end == 0 {
		return "", 0
	}
	return quotedLSN(items[end-1].LSN), end
}

// oldest returns LSN and timestamp of the first change that is not finished.
func (p *progress) oldest() (lsn, timestamp int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pages) == 0 || p.pages[0].unfinished == 0 {
		return 0, 0, false
	}
	item := p.pages[0].page.Items[slices.Index(p.pages[0].done, false)]
	return item.LSN, item.Timestamp, true
}

// abandon returns all pages that are still open, when the worker ends.
func (p *progress) abandon() (pages []*feed.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.pages {
		pages = append(pages, o.page)
	}
	p.pages = nil
	return pages
}

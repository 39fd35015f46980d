package trigger

import (
	"slices"
	"strconv"
	"sync"

	"halley/trigger/cosmos"
)

// progress finds the acknowledged prefix of a range: the longest run of changes,
// from where the range was acquired, in which every one was handled or durably
// dead-lettered. Only its end is ever written to a lease. Lanes finish changes
// in any order; the prefix is their low-water mark.
type progress struct {
	mu    sync.Mutex
	pages []*openPage // in feed order, the first with unfinished changes
	next  int64       // ordinal of the newest change
	end   string      // of the prefix, as last told
}

// openPage is a page with changes that are not finished.
type openPage struct {
	page   *cosmos.Page
	before int64 // ordinal of the last change before the page
	left   int
	done   []bool
	inside bool // a position inside the page can be named, see namesLSNs
}

// pending is a change on its way through a worker.
type pending struct {
	item    cosmos.Item
	ordinal int64 // counts the changes of this worker, from 1
	index   int   // in its page
	in      *openPage
	key     string // logical partition key; "" where nobody asked for it

	left    *trouble      // what an earlier owner left of a group that begins here; or nil
	alone   bool          // the next call is with it and no other, and may end this process
	settled chan struct{} // closed when the change is finished; nil where nobody waits for it
}

// open takes a page in and numbers its changes.
func (p *progress) open(page *cosmos.Page, byKeys bool) []*pending {
	o := &openPage{
		page: page, left: len(page.Items), done: make([]bool, len(page.Items)),
		inside: !byKeys && namesLSNs(page),
	}
	changes := make([]*pending, len(page.Items))
	p.mu.Lock()
	defer p.mu.Unlock()
	o.before = p.next
	p.pages = append(p.pages, o)
	for i, item := range page.Items {
		p.next++
		changes[i] = &pending{item: item, ordinal: p.next, index: i, in: o}
	}
	return changes
}

// namesLSNs reports whether the page proves that continuations are LSNs: its
// own is that of its last item, and LSNs never fall. Then "<lsn>" of an inner
// item is a continuation too. Ranges that were merged never prove it.
func namesLSNs(page *cosmos.Page) bool {
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

// finish marks changes as handled or dead-lettered and tells advance, in order,
// each new end of the prefix and the ordinal of the last change before it. It
// returns the pages that are done with.
func (p *progress) finish(advance func(continuation string, at int64), changes ...*pending) (closed []*cosmos.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range changes {
		if !c.in.done[c.index] {
			c.in.done[c.index] = true
			c.in.left--
		}
	}
	end, at := p.end, int64(0)
	for len(p.pages) > 0 && p.pages[0].left == 0 {
		o := p.pages[0]
		closed = append(closed, o.page)
		end, at = o.page.Continuation, o.before+int64(len(o.done))
		p.pages = p.pages[1:]
	}
	if len(p.pages) > 0 {
		if inner, n := p.pages[0].innerContinuation(); n > 0 {
			end, at = inner, p.pages[0].before+int64(n)
		}
	}
	if end != p.end {
		p.end = end
		advance(end, at)
	}
	return closed
}

// innerContinuation names the last position inside the page before which all
// is done, and counts the changes before it; 0 where there is none. A transaction
// shares one LSN and is never divided.
func (o *openPage) innerContinuation() (string, int) {
	if !o.inside {
		return "", 0
	}
	items := o.page.Items
	first := 0
	for o.done[first] { // left > 0: some change is not done
		first++
	}
	end := first
	for end > 0 && items[end-1].LSN == items[first].LSN {
		end--
	}
	if end == 0 {
		return "", 0
	}
	return quotedLSN(items[end-1].LSN), end
}

// oldest is the first change that is not finished, without its bytes.
func (p *progress) oldest() (cosmos.Item, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pages) == 0 || p.pages[0].left == 0 {
		return cosmos.Item{}, false
	}
	item := p.pages[0].page.Items[slices.Index(p.pages[0].done, false)]
	return cosmos.Item{LSN: item.LSN, Timestamp: item.Timestamp}, true
}

// abandon gives back all pages that are still open, when a worker ends.
func (p *progress) abandon() []*cosmos.Page {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pages []*cosmos.Page
	for _, o := range p.pages {
		pages = append(pages, o.page)
	}
	p.pages = nil
	return pages
}

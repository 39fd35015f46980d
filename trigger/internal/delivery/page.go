package delivery

import (
	"sync"

	"halley/trigger/internal/feed"
)

// Item is a change on its way through the delivery of its range.
type Item struct {
	feed.Change
	Seq int64 // counts the changes that this owner has read, from 1

	inPage        *openPage
	lsnBefore     int64        // LSN of the last change of its page with a smaller one, filtered ones too; 0 if there is none
	resumedRecord *retryRecord // history of a group of an earlier owner that begins here, or nil

	stored *StoredChange // if it was postponed and comes from the store, else nil; it is then in no page

	orderKey    uint64 // see laneShared.keyOf
	answered    int64  // Verdict.Answered of the call that handled it; 0 if no request is needed to save a position after it
	copiedBytes int    // size of the bytes of its own
	hasKey      bool   // Key and orderKey are known
	detached    bool   // it is finished, or has bytes of its own
	isFinished  bool   // the lock of the progress guards it
}

// IsStored reports whether the change was postponed and comes from the dead letter store.
func (c *Item) IsStored() bool { return c.stored != nil }

// openPage is a page with changes that are not finished. Changes that did not pass the
// filter are not in it: they are finished from the start. Its bytes are released
// before its end if the unfinished changes have bytes of their own.
//
// Its memory is used again for a later page once every change is finished: from then on
// no reference to one of its items may exist. Lanes finish changes last of all.
type openPage struct {
	feedPage     *feed.Page // nil after its bytes were released
	continuation string     // after the page, and after pages behind it of which no change passed the filter
	items        []Item     // its changes, in order
	pointers     []*Item    // room for one pointer to each of the items, for lanes
	filtered     int        // further changes of the page, and of pages behind it
	seqBefore    int64      // sequence number of the last change before the page
	unfinished   int
	attached     int  // unfinished changes that need the page's bytes
	finished     int  // changes at the start of the page that are known to be finished
	passed       int  // and of these: those that requestedPositions knows
	innerNamed   bool // a position inside the page can be named, see feed.NamesLSNs
}

// openPages holds the memory of pages that are finished.
var openPages = sync.Pool{New: func() any { return &openPage{} }}

// maxPooledItems bounds the changes of a page whose memory is used again.
const maxPooledItems = 4096

// newOpenPage returns a page with room for n changes.
func newOpenPage(n int) *openPage {
	o := openPages.Get().(*openPage)
	if cap(o.items) < n {
		o.items, o.pointers = make([]Item, n), make([]*Item, n)
	}
	o.items, o.pointers = o.items[:n], o.pointers[:n]
	return o
}

// recycle gives the memory of a finished page back.
func (o *openPage) recycle() {
	clear(o.items)
	clear(o.pointers)
	if cap(o.items) <= maxPooledItems {
		*o = openPage{items: o.items[:0], pointers: o.pointers[:0]}
		openPages.Put(o)
	}
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

// finishedPrefix counts the finished changes at the start of the page. The progress's
// lock is held.
func (o *openPage) finishedPrefix() int {
	for o.finished < len(o.items) && o.items[o.finished].isFinished {
		o.finished++
	}
	return o.finished
}

// positionWithin names the last position before change n of the page, and counts the
// changes before it. named is false if there is no such position. A
// transaction shares one LSN and is never divided.
func (o *openPage) positionWithin(n int) (position string, changes int, named bool) {
	if n >= len(o.items) {
		return o.continuation, len(o.items), true
	}
	for n > 0 && o.items[n-1].LSN == o.items[n].LSN {
		n--
	}
	if n < 0 || !o.innerNamed || o.items[n].lsnBefore == 0 {
		return "", 0, false
	}
	return feed.QuotedLSN(o.items[n].lsnBefore), n, true
}

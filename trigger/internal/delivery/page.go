package delivery

import (
	"sync"

	"halley/trigger/internal/feed"
)

// Item is a change on its way through the delivery of its range.
type Item struct {
	feed.Change
	Seq int64 // counts the changes that this owner has read, from 1

	inPage        *openPage    // nil once it is set aside
	aside         *asideChange // once it is set aside
	lsnBefore     int64        // LSN of the last change of its page with a smaller one, undelivered ones too; 0 if there is none
	readBefore    int          // number of changes of its page up to that one
	resumedRecord *retryRecord // history of a group of an earlier owner that begins here, or nil

	stored *StoredChange // if it was postponed and comes from the store, else nil; it is then in no page

	orderKey    uint64 // see laneShared.keyOf
	answered    int64  // Verdict.Answered of the call that handled it; 0 if no request is needed to save a position after it
	copiedBytes int    // size of the bytes of its own
	hasKey      bool   // Key and orderKey are known
	isFinished  bool   // or set aside: its place in the page is passed; the lock of the progress guards it
}

// IsStored reports whether the change was postponed and comes from the dead letter store.
func (c *Item) IsStored() bool { return c.stored != nil }

// openPage is a page with changes that are neither finished nor set aside. Changes that are
// not delivered, because they did not pass the filter or an earlier owner has finished them,
// are not in it. Its bytes are released with the last of its changes.
//
// Its memory is used again for a later page once every change has left it: from then on
// no reference to one of its items may exist. Lanes finish changes last of all.
type openPage struct {
	feedPage   *feed.Page // nil after its bytes were released
	start, end boundary   // end is behind pages that follow it without a change to deliver
	items      []Item     // its changes, in order
	pointers   []*Item    // room for one pointer to each of the items, for lanes
	filtered   int        // further changes of the page, and of pages behind it
	unfinished int        // changes that have not left it
	finished   int        // changes at the start of the page that are known to have left it
	passed     int        // and of these: those that requestedPositions knows
	innerNamed bool       // a position inside the page can be named, see feed.NamesLSNs
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

// leave takes a change out of the page: it is finished or set aside. It returns the page if
// no change needs its bytes any more. The progress's lock is held.
func (o *openPage) leave(c *Item) (released []*feed.Page) {
	c.isFinished = true
	o.unfinished--
	if o.unfinished > 0 || o.feedPage == nil {
		return nil
	}
	released, o.feedPage = []*feed.Page{o.feedPage}, nil
	return released
}

// finishedPrefix counts the changes at the start of the page that have left it. The
// progress's lock is held.
func (o *openPage) finishedPrefix() int {
	for o.finished < len(o.items) && o.items[o.finished].isFinished {
		o.finished++
	}
	return o.finished
}

// boundaryBefore returns the last boundary before change n of the page. named is false if
// there is none with a name but the start of the page. A transaction shares one LSN and is
// never divided.
func (o *openPage) boundaryBefore(n int) (b boundary, named bool) {
	if n >= len(o.items) {
		return o.end, true
	}
	for n > 0 && o.items[n-1].LSN == o.items[n].LSN {
		n--
	}
	if n < 0 || !o.innerNamed || o.items[n].lsnBefore == 0 {
		return o.start, false
	}
	return boundary{feed.QuotedLSN(o.items[n].lsnBefore), o.start.seq + int64(n), o.start.read + int64(o.items[n].readBefore)}, true
}

package delivery

import (
	"sync"

	"halley/trigger/internal/feed"
)

// Item is a change on its way through the delivery of its range.
type Item struct {
	feed.Change
	Seq int64 // counts the changes that this owner has read, from 1

	inPage        *openPage    // nil once it is finished or set aside; the lock of the progress guards it
	aside         *asideChange // once it is set aside
	lsnBefore     int64        // LSN of the change before its transaction, undelivered ones too; 0 if there is none in the page, or if positions inside the page have no names
	readBefore    int          // number of changes of its page before its transaction
	resumedRecord *retryRecord // history of a group of an earlier owner that begins here, or nil

	stored *StoredChange // if it was postponed and comes from the store, else nil; it is then in no page

	orderKey    uint64 // see laneShared.keyOf
	answered    int64  // Verdict.Answered of the call that handled it; 0 if no request is needed to save a position after it
	copiedBytes int    // size of the bytes of its own
	hasKey      bool   // Key and orderKey are known
}

// IsStored reports whether the change was postponed and comes from the dead letter store.
func (c *Item) IsStored() bool { return c.stored != nil }

// openPage is a page, or a part of one, with changes that are neither finished nor set aside.
// Changes that are not delivered, because they did not pass the filter or an earlier owner has
// finished them, are not in it. Its bytes are released when the last of its changes leaves it.
//
// Its memory is used again for a later page once every change has left it: from then on
// no reference to one of its items may exist. Lanes finish changes last of all.
type openPage struct {
	bytes      pageBytes
	start, end boundary // end is behind pages that follow it without a change to deliver
	items      []Item   // its changes, in order
	pointers   []*Item  // room for one pointer to each of the items, for lanes
	unfinished int      // changes that have not left it
	passed     int      // changes at its start that have left it
	areNamed   bool     // positions between its changes have names
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
	o.items, o.pointers, o.unfinished = o.items[:n], o.pointers[:n], n
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

// takeIn takes in the changes of a part of a page at the given places, and keeps the page's bytes.
func (o *openPage) takeIn(part pagePart, places []int) {
	if o.bytes = part.bytes; !part.isLast {
		*o.bytes.holders++
	}
	items := part.items
	first, next := 0, 0 // the first change of a transaction, and the next one to look at
	for i, place := range places {
		for ; next <= place; next++ {
			if items[next].LSN != items[first].LSN {
				first = next
			}
		}
		c := &o.items[i]
		c.Item, c.Seq, c.inPage, c.readBefore = items[place], o.start.seq+int64(i)+1, o, first
		if o.areNamed && first > 0 {
			c.lsnBefore = items[first-1].LSN
		}
	}
}

// leave takes a change out of the page: it is finished or set aside. It returns the page if
// no change needs its bytes any more. The progress's lock is held.
func (o *openPage) leave(c *Item) (released []*feed.Page) {
	c.inPage = nil
	o.unfinished--
	if o.unfinished > 0 {
		return nil
	}
	return o.bytes.letGo()
}

// boundaryBefore returns the last boundary before change n of the page that has a name, its
// start if there is none. A transaction shares one LSN and is never divided.
func (o *openPage) boundaryBefore(n int) boundary {
	if n == len(o.items) {
		return o.end
	}
	for n > 0 && o.items[n-1].LSN == o.items[n].LSN {
		n--
	}
	c := &o.items[n]
	if c.lsnBefore == 0 {
		return o.start
	}
	return boundary{feed.QuotedLSN(c.lsnBefore), c.Seq - 1, o.start.read + int64(c.readBefore)}
}

package delivery

import "halley/trigger/internal/feed"

// A page that has grown may have more changes than the lanes may have ahead of the first
// unfinished one. It is then taken in by parts, each with a position of its own at its end, as if
// the service had answered with smaller pages: an owner has never taken in more than MaxAhead and
// a page of the usual size, however large its pages are.

// pagePart is a page, or a part of one, that is taken in at one time.
type pagePart struct {
	items    []feed.Item
	position string // at its end
	areNamed bool   // positions between its changes have names
	isLast   bool   // of its page
	bytes    pageBytes
}

// pageRest is the part of a page that is not taken in yet. The goroutine that takes pages owns it.
type pageRest struct {
	pageBytes      // without a page if there is none
	taken     int  // changes that are taken in
	areNamed  bool // positions between the changes have names
}

// cut takes the next part off the rest: as many changes as there is room for, but a transaction
// is not divided, and a page whose positions have no names is one part.
func (r *pageRest) cut(room int) pagePart {
	items := r.page.Items[r.taken:]
	part := pagePart{items: items, position: r.page.Continuation, areNamed: r.areNamed, isLast: true, bytes: r.pageBytes}
	if r.areNamed {
		part.items = items[:partLength(items, room)]
	}
	if len(part.items) == len(items) {
		*r = pageRest{}
		return part
	}
	if r.holders == nil {
		r.holders = new(int)
		*r.holders = 1
	}
	r.taken += len(part.items)
	part.position, part.isLast, part.bytes = feed.QuotedLSN(part.items[len(part.items)-1].LSN), false, r.pageBytes
	return part
}

// partLength returns the number of changes of the next part: room at most, which is above 0,
// unless the first transaction is longer.
func partLength(items []feed.Item, room int) int {
	if len(items) <= room {
		return len(items)
	}
	n := room
	for n > 0 && items[n-1].LSN == items[n].LSN {
		n--
	}
	if n > 0 {
		return n
	}
	for n < len(items) && items[n].LSN == items[0].LSN {
		n++
	}
	return n
}

// pageBytes keep the bytes of a page in memory. The progress's lock guards holders.
type pageBytes struct {
	page    *feed.Page // nil after letGo
	holders *int       // parts of the page that keep its bytes, with the rest; nil if it is one part
}

// letGo ends the hold. It returns the page if nothing else keeps its bytes.
func (b *pageBytes) letGo() []*feed.Page {
	page := b.page
	b.page = nil
	if page == nil {
		return nil
	}
	if b.holders != nil {
		if *b.holders--; *b.holders > 0 {
			return nil
		}
	}
	return []*feed.Page{page}
}

package feed

// Changes in a page: of a range that has caught up, and of one that is behind.
const (
	UsualItems = 100
	MostItems  = 1000
)

// pageKind is how much of the feed a page has shown.
type pageKind int

const (
	pageCaughtUp pageKind = iota // nothing new
	pageEmpty                    // no change, but the feed may have more
	pagePartial                  // fewer changes than requested
	pageFull                     // as many as requested: the range is behind
)

// kindOf returns the kind of the answer to a request of so many changes.
func kindOf(page *Page, requested int) pageKind {
	switch {
	case page.NotModified:
		return pageCaughtUp
	case len(page.Items) == 0:
		return pageEmpty
	case len(page.Items) < requested:
		return pagePartial
	}
	return pageFull
}

// pageSizes are the changes in a page of a range that has caught up, and of one that is behind.
type pageSizes struct{ usual, most int }

// next returns how many changes to ask for after a page for which the range asked for items:
//
//   - A page is as large as the owner before has saved it, and doubles up to the usual size.
//   - After a full page it is as large as may be: the request costs the same however few
//     changes are left.
//   - It stays so while changes come, as the service also ends pages by their bytes.
//   - Once nothing is new it has the usual size: the first changes of a burst come soon.
func (s pageSizes) next(items int, seen pageKind) int {
	switch {
	case seen == pageCaughtUp:
		return min(items, s.usual)
	case seen == pageEmpty:
		return items
	case items < s.usual:
		return min(2*items, s.usual)
	case seen == pageFull:
		return s.most
	}
	return min(items, s.most)
}

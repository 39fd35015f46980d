package delivery

import (
	"slices"
	"time"
)

// letters are the postponed changes of a key in the store, as far as this owner knows. The
// lane owns them.
type letters struct {
	key       string          // logical partition key
	keyPaths  []string        // of the container
	due       time.Time       // of the first change, on this process's clock
	lastOrder int64           // of the last one
	lastPut   time.Time       // when this owner put one, on this process's clock
	count     int             // that the store has
	deleted   map[string]bool // IDs of those that this owner has handled: the store may still show them, if it lags or no request covers them
	hasMore   bool            // the store has changes that are not loaded
	isMixed   bool            // an earlier owner put a change after it had lost the lease, so that the store may have it before earlier ones

	known  map[int64]bool // places of those below FirstOrder: the listed ones, and those that this owner has put between them
	listed []StoredChange // those of earlier owners, without documents, in the order of the feed, until the lane has passed all of them
	passed int            // how many of these the lane has passed, the first ones
	shown  int64          // while there are some: when the newest change of the key that the feed has shown was written, Unix seconds
}

// inherit takes in a change of an earlier owner, as it is listed.
func (s *letters) inherit(c StoredChange) {
	s.count, s.hasMore, s.lastOrder, s.known[c.Order] = s.count+1, true, max(s.lastOrder, c.Order), true
	place := len(s.listed)
	for place > s.passed && compareStored(&c, &s.listed[place-1]) < 0 {
		place, s.isMixed = place-1, true
	}
	s.listed = slices.Insert(s.listed, place, c)
}

// placeOf finds the place of a change from the feed.
func (s *letters) placeOf(c *Item) Place {
	if s == nil {
		return PlaceFree
	}
	if len(s.listed) == 0 {
		return PlaceBehind
	}
	first, last, name := &s.listed[0], &s.listed[len(s.listed)-1], c.Name(s.keyPaths)
	switch { // after a merge LSNs may restart, but times do not
	case slices.ContainsFunc(s.listed, func(listed StoredChange) bool { return listed.name == name }):
		return PlaceListed
	case c.LSN < first.LSN && c.Timestamp <= first.Timestamp:
		return PlaceFree
	case c.LSN <= last.LSN && c.Timestamp <= last.Timestamp:
		return PlaceInside
	}
	return PlaceBehind
}

// listedBefore returns how many of the listed changes come before a further one.
func (s *letters) listedBefore(lsn int64) int {
	if i := slices.IndexFunc(s.listed, func(listed StoredChange) bool { return listed.LSN > lsn }); i >= 0 {
		return i
	}
	return len(s.listed)
}

// isPassed reports whether a change from the store may be delivered.
func (s *letters) isPassed(name string) bool {
	return !slices.ContainsFunc(s.listed[s.passed:], func(listed StoredChange) bool { return listed.name == name })
}

// added counts a change that was put. If it is not the last one of its key, later changes from
// the feed have their place behind it.
func (s *letters) added(c *Item, letter DeadLetter) {
	s.count, s.lastPut, s.hasMore = s.count+1, time.Now(), true
	if letter.Order > s.lastOrder {
		s.lastOrder = letter.Order
		return
	}
	s.known[letter.Order] = true
	if c.stored == nil {
		listed := StoredChange{name: c.Name(s.keyPaths), DeadLetter: letter}
		listed.LSN, listed.Timestamp = c.LSN, c.Timestamp
		s.listed = slices.Insert(s.listed, max(s.listedBefore(c.LSN), s.passed), listed)
	}
}

// removed counts a change that this owner has handled.
func (s *letters) removed(stored *StoredChange) {
	s.count, s.deleted[stored.LetterID] = s.count-1, true
}

// mayLoad reports whether the store may have a change of the key that the lane has passed.
func (s *letters) mayLoad() bool {
	return s.passed == len(s.listed) || s.count > len(s.listed)-s.passed
}

// showListed marks the listed changes that the feed shows.
func (s *letters) showListed(c *Item) {
	s.shown = max(s.shown, c.Timestamp)
	name := c.Name(s.keyPaths)
	for i := range s.listed {
		s.listed[i].isSeen = s.listed[i].isSeen || s.listed[i].name == name
	}
}

package delivery

import (
	"slices"
	"sync"
	"time"

	"halley/trigger/internal/feed"
)

// A handler postpones a change if it knows when a retry makes sense. The change is kept
// in the dead letter store until it is due, so that it holds no position:
//
//  1. Host A's lane puts the change into the store, with its due time, and finishes it:
//     the checkpoint passes it.
//  2. Later changes of the key are put behind it when their turn comes. If the key is
//     due within memoryWait, they wait aside in memory instead.
//  3. When the key is due, the lane loads its changes from the store, the oldest first,
//     and delivers them like a group that has waited aside. A change that is handled or
//     given up is deleted from the store. One that is postponed again is put with its new
//     due time, in its old place, before the old letter is deleted.
//  4. When the store has no more changes of the key, those that wait aside are fresh.
//  5. A crashes after step 1, and the lease still has the position before the change.
//     Host B acquires the lease and lists the postponed changes of its keys. When the
//     feed shows B the change again, B finishes it, as it is listed. An earlier change of
//     the key, which A had delivered, is delivered again at once. So that it comes first,
//     B loads a listed change only when its lane has passed it: the lane has taken in and
//     finished all earlier changes of the key that the feed may show again (isTaken).
//
// Invariant: if the store has a change of a key, each earlier change of the key in the
// feed is handled or in the store.

// StoredChange is a postponed change in the store. Its times are on the service's clock.
type StoredChange struct {
	feed.Change
	LetterID  string
	Due       time.Time
	Time      time.Time // when it was postponed
	Order     int64     // its place among the changes of its key
	Since     time.Time // first failure; zero if no call failed with it
	Attempts  int       // calls that failed with it
	Postponed int       // calls that postponed it; 0 if it only follows a change that was

	name string // of one in a list, see feed.Change
}

// listedChange is a change that an earlier owner has put into the store.
type listedChange struct {
	name         string
	lsn, written int64
	time         time.Time // of its letter
	order        int64     // likewise
	isSeen       bool      // this owner's feed has shown it
}

const (
	// maxPostponed is the number of keys of a range that can be postponed. Beyond it the
	// sink as a whole seems to be out of order, and the range waits for it.
	maxPostponed = 1000
	// memoryWait is the time until a key is due below which changes that follow wait in
	// memory: reading stops at most for so long because of them.
	memoryWait = time.Second
	// orderGap leaves room between the records of a key for changes that the feed shows
	// again: orderStep for each, as they come one after the other, and half of what is left if
	// the feed shows them a further time.
	orderGap  = 1 << 14
	orderStep = 1 << 4
	// maxLoadedKeys is the number of keys that are loaded for one call. Each costs a request.
	maxLoadedKeys = 10
)

// postponedKey is an order key of which the store has changes. Its lane owns it.
type postponedKey struct {
	order     uint64
	text      string          // its logical partition key
	keyPaths  []string        // of the container
	due       time.Time       // of its first change, on this process's clock
	lastOrder int64           // of its last letter
	lastPut   time.Time       // when this owner put one, on this process's clock
	letters   int             // that the store has, as far as this owner knows
	deleted   map[string]bool // letters that this owner has handled: the store may still show them, if it lags or no request covers them
	hasMore   bool            // the store has changes that are not loaded

	listed []listedChange // in their order, until the lane has passed all of them
	passed int            // how many of these the lane has passed, the first ones
	shown  int64          // while there are some: when the newest change of the key that the feed has shown was written, Unix seconds
}

// mayLoad reports whether the store may have a change of the key that the lane has passed.
func (k *postponedKey) mayLoad() bool {
	return k.passed == len(k.listed) || k.letters > len(k.listed)-k.passed
}

// isPassed reports whether a change from the store may be delivered.
func (k *postponedKey) isPassed(name string) bool {
	return !slices.ContainsFunc(k.listed[k.passed:], func(listed listedChange) bool { return listed.name == name })
}

// place is where a change from the feed belongs.
type place int

const (
	placeFree   place = iota // before the changes in the store, or without any: it is delivered
	placeListed              // it is in the store
	placeInside              // between changes in the store
	placeBehind              // behind them
)

// placeOf finds the place of a change from the feed.
func (k *postponedKey) placeOf(c *Item) place {
	if k == nil {
		return placeFree
	}
	if len(k.listed) == 0 {
		return placeBehind
	}
	first, last, name := k.listed[0], k.listed[len(k.listed)-1], c.Name(k.keyPaths)
	switch { // after a merge LSNs may restart, but times do not
	case slices.ContainsFunc(k.listed, func(listed listedChange) bool { return listed.name == name }):
		return placeListed
	case c.LSN < first.lsn && c.Timestamp <= first.written:
		return placeFree
	case c.LSN <= last.lsn && c.Timestamp <= last.written:
		return placeInside
	}
	return placeBehind
}

// placeOrder returns the place of a change among the records of its key: that of its letter if
// it comes from the store, else behind all others, unless the feed shows a change again that
// comes before some of them.
func (l *lane) placeOrder(k *postponedKey, c *Item) int64 {
	if c.stored != nil {
		return c.stored.Order
	}
	switch count := k.listedBefore(c.LSN); k.placeOf(c) {
	case placeFree:
		return k.listed[0].order - orderGap
	case placeInside: // others may follow
		earlier, later := k.listed[max(count-1, 0)].order, k.listed[min(count, len(k.listed)-1)].order
		return earlier + min((later-earlier)/2, orderStep)
	}
	return l.nextOrder(c, orderGap)
}

// nextOrder returns a place behind all records of a change's key, with a gap behind the last
// postponed one, also if that is handled and waits for a request. Records of earlier owners
// that this one does not know are below FirstOrder.
func (l *lane) nextOrder(c *Item, gap int64) int64 {
	least := max(l.config.FirstOrder, l.uncovered.lastOrder(l.keyOf(c))+gap)
	if k := l.postponed[l.keyOf(c)]; k != nil {
		least = max(least, k.lastOrder+gap)
	}
	return l.blockedKeys.nextOrder(c.Key, least)
}

// listedBefore returns how many of the listed changes come before a further one.
func (k *postponedKey) listedBefore(lsn int64) int {
	if at := slices.IndexFunc(k.listed, func(listed listedChange) bool { return listed.lsn > lsn }); at >= 0 {
		return at
	}
	return len(k.listed)
}

// postponedCounts are the postponed keys of a range as status and lease tell them. Lanes
// share them; mu guards them, and no other lock is taken under it.
type postponedCounts struct {
	mu    sync.Mutex
	lanes []laneCount
}

type laneCount struct {
	keys int
	due  time.Time // of the first of them
}

// total returns the number of keys, and when the first of them is due.
func (p *postponedCounts) total() (keys int, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		keys, due = keys+l.keys, earlier(due, l.due)
	}
	return keys, due
}

// set records the count of a lane.
func (p *postponedCounts) set(lane int, c laneCount) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lanes[lane] = c
}

// inheritPostponed passes the listed changes of the range's keys to their lanes. It is
// called before the lanes run.
func (d *Delivery) inheritPostponed(listed []StoredChange) {
	for _, c := range listed {
		if !d.deadLetters.Owns(c.Key) {
			continue
		}
		d.retries.keepRecord(c.name)
		order := c.OrderKey(d.config.KeyPaths, d.config.LanesByID)
		l := d.lanes[order%uint64(len(d.lanes))]
		k := l.postponed[order]
		if k == nil {
			k = l.addPostponed(order, c.Key, l.localTime(c.Due))
		}
		k.letters, k.hasMore, k.lastOrder = k.letters+1, true, max(k.lastOrder, c.Order)
		k.listed = append(k.listed, listedChange{name: c.name, lsn: c.LSN, written: c.Timestamp, time: c.Time, order: c.Order})
	}
	for _, l := range d.lanes {
		l.passListed(feedPlace{lsn: feed.LSNOf(d.config.Continuation)})
		l.countPostponed()
	}
}

// addPostponed adds a key.
func (l *lane) addPostponed(order uint64, text string, due time.Time) *postponedKey {
	if l.postponed == nil {
		l.postponed = map[uint64]*postponedKey{}
	}
	k := &postponedKey{order: order, text: text, keyPaths: l.config.KeyPaths, due: due}
	l.postponed[order] = k
	return k
}

// countPostponed finds when the lane has to look at its postponed keys next.
func (l *lane) countPostponed() {
	count := laneCount{keys: len(l.postponed)}
	for _, k := range l.postponed {
		count.due = earlier(count.due, k.due)
	}
	l.firstDue = count.due
	l.postponedCounts.set(l.laneIndex, count)
}

// withoutListed finishes the changes that have arrived and that an earlier owner has put
// into the store, and returns the others.
func (l *lane) withoutListed(items []*Item) []*Item {
	if !l.hasListed {
		return items
	}
	var listed, others []*Item
	for _, c := range items {
		k := l.postponed[l.keyOf(c)]
		if k != nil {
			k.shown = max(k.shown, c.Timestamp)
		}
		if k.placeOf(c) != placeListed {
			others = append(others, c)
			continue
		}
		listed = append(listed, c)
		for i := range k.listed {
			k.listed[i].isSeen = k.listed[i].isSeen || k.listed[i].name == c.Name(k.keyPaths)
		}
	}
	l.finishItems(listed)
	return others
}

// passListed is told how far the lane has taken in the feed. Listed changes before that
// may be delivered, once the lane has finished earlier ones of their keys. A key with
// unpassed changes still tells its listed changes from others of the feed.
func (l *lane) passListed(taken feedPlace) {
	l.hasListed = false
	for _, k := range l.postponed {
		for k.passed < len(k.listed) && l.isTaken(k, taken) && !l.hasEarlier(k) {
			k.passed++
		}
		if k.passed == len(k.listed) {
			k.listed, k.passed = nil, 0
		} else {
			l.hasListed = true
		}
	}
}

// isTaken reports whether the lane has taken in every change that the feed shows before
// the first unpassed change of a key. Any one of these says so:
//
//   - The LSN of the change is not above that of the position at which this owner began, or
//     of a change that was taken since. In a merged range LSNs do not tell.
//   - The feed has shown this change, or a listed one behind it: it keeps the order of a key.
//   - The owner before has released the lease in good order, with the number of changes that
//     it had read behind the position, and no later owner had the lease. As many are taken.
//     Documents that were written again since make them fewer, so this is late at most.
//   - The feed has shown a change of the key that was written later: it keeps the order of
//     a key. Changes of other keys tell nothing, as the feed of a merged range need not be
//     in the order of time. After a crash MaxAhead says nothing: the lease may be far behind
//     what its owner had read.
//   - The feed has ended.
func (l *lane) isTaken(k *postponedKey, taken feedPlace) bool {
	next, former := k.listed[k.passed], l.config.ReadAhead
	switch {
	case taken.ended, k.shown > next.written:
		return true
	case !l.config.MergedRange:
		return taken.lsn >= next.lsn
	case former.IsKnown && !next.time.After(former.Until) && taken.changes >= former.Changes:
		return true
	}
	return slices.ContainsFunc(k.listed[k.passed:], func(listed listedChange) bool { return listed.isSeen })
}

// hasEarlier reports whether the lane has changes from the feed that come before listed
// ones of their key.
func (l *lane) hasEarlier(k *postponedKey) bool {
	isEarlier := func(c *Item) bool { return l.keyOf(c) == k.order && k.placeOf(c) != placeBehind }
	return l.aside.holdsGroup(k.order) || slices.ContainsFunc(l.freshItems, isEarlier) || slices.ContainsFunc(l.aside.queues[k.order], isEarlier)
}

// localTime translates a time of the service's clock.
func (s *laneShared) localTime(t time.Time) time.Time {
	return time.Now().Add(t.Sub(s.calls.ServiceNow()))
}

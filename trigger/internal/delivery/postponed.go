package delivery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
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
	// firstStoredSeq begins the numbers of changes from the store, which are below those of
	// the feed.
	firstStoredSeq = math.MinInt64 / 2
)

// orderOf returns the place of a change among the records of its key: that of its letter if
// it comes from the store, else behind all others, unless it is postponed and the feed shows
// it again although it comes before some of them. Records of earlier owners that this one does
// not know are below FirstOrder.
func (k *laneKeys) orderOf(c *Item, isPostponed bool) int64 {
	if c.stored != nil {
		return c.stored.Order
	}
	var known *letters
	if s := k.states[k.keyOf(c)]; s != nil {
		known = s.letters
	}
	gap := int64(1)
	if isPostponed {
		gap = orderGap
	}
	if isPostponed && known != nil {
		switch known.placeOf(c) {
		case PlaceFree:
			return known.listed[0].Order - orderGap
		case PlaceInside: // others may follow
			n := known.listedBefore(c.LSN)
			earlier, later := known.listed[max(n-1, 0)].Order, known.listed[min(n, len(known.listed)-1)].Order
			return earlier + min((later-earlier)/2, orderStep)
		}
	}
	least := max(k.config.FirstOrder, k.uncovered.lastOrder(c.orderKey)+gap) // that may be in the store, too
	if known != nil {
		least = max(least, known.lastOrder+gap)
	}
	return k.blockedKeys.nextOrder(c.Key, least)
}

// newLetters returns the letters of a key that had none.
func (k *laneKeys) newLetters(key string) *letters {
	k.postponed++
	return &letters{key: key, keyPaths: k.config.KeyPaths, known: map[int64]bool{}, deleted: map[string]bool{}}
}

// inherit takes in a postponed change of the list. Those of a key come in their order.
func (k *laneKeys) inherit(order uint64, c StoredChange) {
	s := k.stateOf(order)
	if s.letters == nil {
		s.letters = k.newLetters(c.Key)
		s.letters.due = k.localTime(c.Due)
	}
	s.letters.inherit(c)
}

// postponedOf returns those of some keys that have postponed changes.
func (k *laneKeys) postponedOf(keys map[uint64]bool) map[uint64]bool {
	maps.DeleteFunc(keys, func(order uint64, _ bool) bool { return k.states[order] == nil || k.states[order].letters == nil })
	return keys
}

// room returns how many further keys of the range can be postponed.
func (k *laneKeys) room() int {
	keys, _ := k.PostponedKeys()
	return maxPostponed - keys
}

// withLetters calls visit with each key that has postponed changes.
func (k *laneKeys) withLetters(visit func(*laneKey)) {
	if k.postponed == 0 {
		return
	}
	for _, s := range k.states {
		if s.letters != nil {
			visit(s)
		}
	}
}

// postponedCount is a number of postponed keys, and when the first of them is due.
type postponedCount struct {
	keys int
	due  time.Time
}

// countPostponed finds when the lane has to look at its postponed keys next.
func (k *laneKeys) countPostponed() {
	var counted *postponedCount
	if k.firstDue = (time.Time{}); k.postponed > 0 {
		k.withLetters(func(s *laneKey) { k.firstDue = earlier(k.firstDue, s.letters.due) })
		counted = &postponedCount{k.postponed, k.firstDue}
	}
	k.postponedCounts[k.laneIndex].Store(counted)
}

// PostponedKeys returns how many keys are postponed, and when the first of them is due, on
// this process's clock. Keys whose changes are handled and wait for a request count, too, as
// this owner keeps these changes, and are due. It may be called at any time.
func (s *laneShared) PostponedKeys() (keys int, due time.Time) {
	keys, due = s.uncovered.total()
	for i := range s.postponedCounts {
		if counted := s.postponedCounts[i].Load(); counted != nil {
			keys, due = keys+counted.keys, earlier(due, counted.due)
		}
	}
	return keys, due
}

// passListed is told how far the lane has taken in the feed. Listed changes before that
// may be delivered, once the lane has finished earlier ones of their keys. A key with
// unpassed changes still tells its listed changes from others of the feed.
func (k *laneKeys) passListed(taken feedPlace, fresh []*Item) {
	k.hasListed = false
	k.withLetters(func(s *laneKey) {
		for s.letters.passed < len(s.letters.listed) && k.isTaken(s.letters, taken) && !k.hasEarlier(s, fresh) {
			s.letters.passed++
		}
		if s.letters.passed == len(s.letters.listed) {
			s.letters.listed, s.letters.passed = nil, 0
		} else {
			k.hasListed = true
		}
	})
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
func (k *laneKeys) isTaken(s *letters, taken feedPlace) bool {
	next, former := &s.listed[s.passed], k.config.ReadAhead
	switch {
	case taken.ended, s.shown > next.Timestamp:
		return true
	case !k.config.MergedRange:
		return taken.lsn >= next.LSN
	case former.IsKnown && !next.Time.After(former.Until) && taken.changes >= former.Changes:
		return true
	}
	return slices.ContainsFunc(s.listed[s.passed:], func(listed StoredChange) bool { return listed.isSeen })
}

// hasEarlier reports whether the lane has changes from the feed that come before listed
// ones of their key.
func (k *laneKeys) hasEarlier(s *laneKey, fresh []*Item) bool {
	isEarlier := func(c *Item) bool { return k.keyOf(c) == s.order && s.letters.placeOf(c) != PlaceBehind }
	return k.holdsGroup(s.order) || slices.ContainsFunc(fresh, isEarlier) || slices.ContainsFunc(s.queue, isEarlier)
}

// duePostponed returns the keys that can be loaded, those that were due first come first.
// isLeaving says that the lane leaves them to the next owner.
func (k *laneKeys) duePostponed(now time.Time, isLeaving bool) (due []*laneKey) {
	if !isDue(k.firstDue, now) || isLeaving {
		return nil
	}
	k.withLetters(func(s *laneKey) {
		if !s.letters.due.After(now) && s.letters.mayLoad() && !k.holdsGroup(s.order) {
			due = append(due, s)
		}
	})
	slices.SortFunc(due, func(a, b *laneKey) int {
		return cmp.Or(a.letters.due.Compare(b.letters.due), cmp.Compare(a.order, b.order))
	})
	return due[:min(len(due), maxLoadedKeys)]
}

// nextPostponed returns when a key is due, or the zero time. If it waits for the feed or
// for a group of the lane, the lane looks again after memoryWait.
func (k *laneKeys) nextPostponed(now time.Time) time.Time {
	if isDue(k.firstDue, now) {
		return now.Add(memoryWait)
	}
	return k.firstDue
}

// loadDue loads changes of keys that are due for one call. waiting are suspects and changes with
// another history, as groups of their own; freed are the keys of which the store has no more.
func (k *laneKeys) loadDue(ctx context.Context, due []*laneKey) (loaded *group, waiting []*group, freed map[uint64]bool, err error) {
	freed = map[uint64]bool{}
	for _, s := range due {
		g, err := k.loadKey(ctx, s)
		switch {
		case err != nil:
			return nil, nil, nil, err
		case g == nil && !s.letters.hasMore:
			freed[s.order] = true
		case g == nil:
		case loaded != nil && loaded.joins(g, k.config.BatchPolicy):
			loaded.items = mergeItems(loaded.items, g.items, func(c *Item) int64 { return c.LSN })
			maps.Copy(loaded.keys, g.keys)
		case loaded == nil && !g.suspect:
			loaded = g
		default:
			waiting = append(waiting, g.suspectParts()...)
		}
	}
	k.countPostponed()
	return loaded, waiting, freed, nil
}

// joins reports whether two groups from the store have one failure history and make one batch.
func (g *group) joins(other *group, p BatchPolicy) bool {
	items := slices.Concat(g.items, other.items)
	return !other.suspect && g.items[0].resumedRecord == nil && g.retry.Attempts == other.retry.Attempts &&
		p.batchLength(items, p.MaxItemsPerInvocation) == len(items)
}

// loadKey loads the first changes of a key, at most a batch with one failure history. It
// returns nil if the first of them is not due, or not passed, or if the store has none.
func (k *laneKeys) loadKey(ctx context.Context, s *laneKey) (g *group, err error) {
	var items []*Item
	err = k.untilStored(ctx, k.laneIndex, func() (err error) {
		items, err = k.readKey(ctx, s)
		return err
	})
	if err != nil || len(items) == 0 && !s.letters.hasMore {
		return nil, err
	}
	switch {
	case len(items) > 0 && k.localTime(items[0].stored.Due).After(time.Now()):
		s.letters.due, s.letters.hasMore = k.localTime(items[0].stored.Due), true
		return nil, nil
	case len(items) == 0 || !s.letters.isPassed(k.nameOf(items[0])):
		s.letters.due, s.letters.hasMore = time.Now().Add(time.Second), true
		return nil, nil
	}
	first := items[0]
	n := k.historyLength(s, items)
	s.letters.hasMore = s.letters.hasMore || n < len(items)
	for _, c := range items[:n] {
		k.storedSeq++
		c.Seq, c.copiedBytes = k.storedSeq, c.Size()
		k.chargeBytes(c.copiedBytes)
	}
	g = k.resumeGroup(items[:n:n])
	if stored := first.stored; first.resumedRecord == nil {
		g.retry = RetryState{Tries: stored.Attempts, Attempts: stored.Attempts}
		if !stored.Since.IsZero() { // also of a part of a failed batch, which has no attempts yet
			g.retry.Since = k.localTime(stored.Since)
		}
	}
	g.keys = orderKeys(g.items)
	return g, nil
}

// historyLength returns how many changes of a key can be delivered in one call: those that have
// the failure history of the first one, are due, and are passed.
func (k *laneKeys) historyLength(s *laneKey, items []*Item) int {
	n := 1
	for n < len(items) && k.joinsFirst(items[n], items[0]) && s.letters.isPassed(k.nameOf(items[n])) {
		n++
	}
	if r := items[0].resumedRecord; r != nil {
		n = min(n, max(r.Size, 1))
	}
	return n
}

// joinsFirst reports whether a change of a key has the failure history of the first one,
// and is due, too.
func (k *laneKeys) joinsFirst(c, first *Item) bool {
	hasCome := c.stored.Postponed == 0 || isDue(k.localTime(c.stored.Due), time.Now())
	return hasCome && c.stored.Attempts == first.stored.Attempts && c.resumedRecord == nil
}

// readKey reads the first changes of a key, up to the size of a batch. Of two letters of one
// change the one that was postponed more often holds; the other is outdated and is deleted
// now. There are two if an owner ends between a put and the delete that follows, or if the put
// of an earlier owner lands late: then they may stand apart, in the places that two owners
// gave them. If the places of a key are mixed, all of its letters are read to find the first.
// A letter of an earlier owner that was not listed was put late, too, see lateletters.go.
func (k *laneKeys) readKey(ctx context.Context, s *laneKey) (items []*Item, err error) {
	var outdated []*Item
	var late []StoredChange
	read := map[string]*Item{} // by version
	var last *StoredChange
	isMixed := false
	uncovered := k.uncovered.letterIDs() // before the store answers: another lane may delete some meanwhile
	s.letters.hasMore = false
	err = k.deadLetters.LoadKey(ctx, s.letters.key, func(stored StoredChange) bool {
		c := &Item{Change: stored.Change, stored: &stored}
		if k.keyOf(c) != s.order || s.letters.deleted[stored.LetterID] || uncovered[stored.LetterID] {
			return true
		}
		isMixed = isMixed || last != nil && compareStored(&stored, last) < 0
		last = &stored
		name := k.nameOf(c)
		version := fmt.Sprint(name, "@", c.Timestamp) // LSNs may restart after a merge
		former, isDuplicate := read[version]
		if isDuplicate && stored.Postponed > former.stored.Postponed {
			*c, *former = *former, *c
		}
		isLate := k.isLate(s.letters, &stored)
		if isDuplicate || isLate && k.handled[name] {
			outdated = append(outdated, c)
			return true
		}
		if isLate {
			late = append(late, stored)
			return true
		}
		read[version], items = c, insertStored(items, c)
		if n := k.config.batchLength(items, k.config.MaxItemsPerInvocation); n < len(items) {
			items, s.letters.hasMore = items[:n], true
		}
		return s.letters.isMixed || !s.letters.hasMore
	})
	if err != nil {
		return nil, fmt.Errorf("load postponed changes of key %s: %w", s.letters.key, err)
	}
	s.letters.isMixed = s.letters.isMixed && isMixed
	if err := k.deleteOutdated(ctx, s, outdated); err != nil {
		return nil, err
	}
	if err := k.inheritLate(ctx, s, late); err != nil {
		return nil, err
	}
	for _, c := range items {
		c.resumedRecord = k.retries.keepRecord(k.nameOf(c))
	}
	s.letters.hasMore = s.letters.hasMore || s.letters.isHidden(len(items))
	return items, nil
}

// isHidden reports whether the store, which shows so many letters, may not show the newest one yet.
func (s *letters) isHidden(shown int) bool {
	return shown < s.count && time.Since(s.lastPut) < StoreLag
}

// insertStored inserts a stored change in the order of the store.
func insertStored(items []*Item, c *Item) []*Item {
	place := len(items)
	for place > 0 && compareStored(c.stored, items[place-1].stored) < 0 {
		place--
	}
	return slices.Insert(items, place, c)
}

// compareStored orders two changes of a key as the feed does, as far as they tell: after a
// merge LSNs may restart, but times do not.
func compareStored(a, b *StoredChange) int {
	switch {
	case a.LSN < b.LSN && a.Timestamp <= b.Timestamp:
		return -1
	case a.LSN > b.LSN && a.Timestamp >= b.Timestamp:
		return 1
	}
	return 0
}

// earlier returns the earlier of two times; a zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// isDue reports whether a time has come; a zero time never does.
func isDue(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// localTime translates a time of the service's clock.
func (s *laneShared) localTime(t time.Time) time.Time {
	return time.Now().Add(t.Sub(s.calls.ServiceNow()))
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
		d.lanes[order%uint64(len(d.lanes))].keys.inherit(order, c)
	}
	for _, l := range d.lanes {
		l.keys.passListed(feedPlace{lsn: feed.LSNOf(d.config.Continuation)}, nil)
		l.keys.countPostponed()
	}
}

package delivery

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// laneKeys holds the state of each order key of a lane that is not free, and the failed
// groups, until they are due. A key is in one group at most, not counting the later groups of
// that one. The lane owns it. Failed groups are few (reading stops at maxRecords), so it looks
// through all of them.
type laneKeys struct {
	*laneShared
	laneIndex int
	states    map[uint64]*laneKey // by order key
	groups    []*group
	waiting   int       // keys that wait
	postponed int       // keys with postponed changes
	firstDue  time.Time // of these
	hasListed bool      // some of these were listed, and the feed may show changes before them
	storedSeq int64     // sequence number of the last change from the store

	handled map[string]bool // names of changes, see noteHandled
}

// laneKey is the state of an order key that is not free.
type laneKey struct {
	order   uint64
	waits   bool     // a change is in a failed group or in its call, or is due soon
	queue   []*Item  // later changes, while it waits
	letters *letters // its postponed changes in the store, or nil
}

// stateOf returns the state of a key, which is free before.
func (k *laneKeys) stateOf(order uint64) *laneKey {
	s := k.states[order]
	if s == nil {
		if k.states == nil {
			k.states = map[uint64]*laneKey{}
		}
		s = &laneKey{order: order}
		k.states[order] = s
	}
	return s
}

// wait lets a key wait.
func (k *laneKeys) wait(order uint64) {
	if s := k.stateOf(order); !s.waits {
		s.waits = true
		k.waiting++
		k.waitingKeys.Add(1)
	}
}

// putAside lets a group wait until it is due, and its keys with it.
func (k *laneKeys) putAside(g *group, due time.Time) {
	g.due = due
	for part := g; part != nil; part = part.later {
		part.items = k.keepAside(part.items)
	}
	for order := range g.keys {
		k.wait(order)
	}
	k.groups = append(k.groups, g)
	k.waitingGroups.Add(1)
}

// take removes a group that is about to be delivered. Its keys still wait.
func (k *laneKeys) take(g *group) {
	k.groups = slices.DeleteFunc(k.groups, func(other *group) bool { return other == g })
	k.waitingGroups.Add(-1)
}

// holdsGroup reports whether a failed group of a key waits.
func (k *laneKeys) holdsGroup(order uint64) bool {
	return slices.ContainsFunc(k.groups, func(g *group) bool { return g.keys[order] })
}

// keyStateOf returns the state of a key for a change from the feed, without its dead letters.
func (k *laneKeys) keyStateOf(c *Item) (state KeyState) {
	if s := k.states[k.keyOf(c)]; s != nil {
		state.Waits, state.Place = s.waits, s.letters.placeOf(c)
		state.DueSoon = s.letters != nil && s.letters.listed == nil && time.Until(s.letters.due) <= memoryWait
	}
	return state
}

// arrived takes in changes from the feed: those of waiting keys are queued, and those that the
// store has are finished. It returns the others. Those among them that are to be put into the
// store are put when their turn comes: earlier ones of their keys may be fresh.
func (k *laneKeys) arrived(items []*Item) (fresh []*Item) {
	if k.waiting == 0 && !k.hasListed {
		return items
	}
	var queued, stored []*Item
	for _, c := range items {
		state := k.keyStateOf(c)
		if s := k.states[c.orderKey]; k.hasListed && s != nil && s.letters != nil {
			s.letters.showListed(c)
		}
		switch {
		case Admit(state) == AdmitFinish:
			stored = append(stored, c)
		case state.Waits:
			queued = append(queued, c)
		default:
			fresh = append(fresh, c)
		}
	}
	if len(stored) > 0 {
		k.finishItems(stored)
	}
	k.queueItems(queued)
	return fresh
}

// admit carries out what [Admit] says of changes whose turn has come, and returns those that
// are to be delivered. isRetry says that their keys wait for them.
func (k *laneKeys) admit(ctx context.Context, items []*Item, isRetry bool) (free []*Item, err error) {
	if !k.config.BlockKeys && (isRetry || len(k.states) == 0) {
		return items, nil
	}
	for _, c := range items {
		var state KeyState
		if !isRetry {
			state = k.keyStateOf(c)
		}
		if k.config.BlockKeys {
			state.Block = k.blockedKeys.blockOf(c)
		}
		admission := Admit(state)
		if admission == AdmitAsk {
			if admission, err = k.askBlocked(ctx, c); err != nil {
				return nil, err
			}
		}
		switch admission {
		case AdmitDeliver:
			free = append(free, c)
		case AdmitFinish:
			k.states[c.orderKey].letters.showListed(c)
			k.finishItems([]*Item{c})
		case AdmitQueue:
			k.wait(c.orderKey)
			k.queueItems([]*Item{c})
		case AdmitPostpone:
			err = k.follow(ctx, []*Item{c})
		case AdmitBlock:
			err = k.put(ctx, c, DeadLetter{})
		}
		if err != nil {
			return nil, err
		}
	}
	return free, nil
}

// queueItems sets changes of waiting keys aside, behind the earlier ones of their keys.
func (k *laneKeys) queueItems(items []*Item) {
	for _, c := range k.keepAside(items) {
		s := k.states[c.orderKey]
		s.queue = append(s.queue, c)
	}
}

// takeQueues takes the later changes of waiting keys out, in the order of the feed.
func (k *laneKeys) takeQueues(keys map[uint64]bool) (queue []*Item) {
	for order := range keys {
		s := k.states[order]
		queue, s.queue = append(queue, s.queue...), nil
	}
	slices.SortFunc(queue, func(a, b *Item) int { return cmp.Compare(a.Seq, b.Seq) })
	return queue
}

// release ends the wait of keys, forgets those of which the store has no more changes, and
// returns the changes that were queued.
func (k *laneKeys) release(keys map[uint64]bool) (queued []*Item) {
	for order := range keys {
		s := k.states[order]
		if s == nil {
			continue
		}
		if s.waits {
			queued = append(queued, s.queue...)
			s.waits, s.queue = false, nil
			k.waiting--
			k.waitingKeys.Add(-1)
		}
		if s.letters != nil && !s.letters.hasMore {
			s.letters = nil
			k.postponed--
		}
		if s.letters == nil {
			delete(k.states, order)
		}
	}
	k.countPostponed()
	return queued
}

// oldestWaiting returns the key that waits with a change, the first one of the range, and its
// group: nil if the change is queued behind changes from the store. If another lane has the
// change, or if it is about to be delivered, as suspects are, the key is nil, too.
func (k *laneKeys) oldestWaiting(first *asideChange) (*laneKey, *group) {
	for _, g := range k.groups {
		if g.items[0].aside == first && !g.suspect {
			return k.states[g.items[0].orderKey], g
		}
	}
	for _, s := range k.states {
		if len(s.queue) > 0 && s.queue[0].aside == first && s.letters != nil {
			return s, nil
		}
	}
	return nil, nil
}

// nextDue returns the group that is due first, and when, or nil and the zero time.
func (k *laneKeys) nextDue() (next *group, due time.Time) {
	for _, g := range k.groups {
		if next == nil || cmp.Or(g.due.Compare(due), cmp.Compare(g.items[0].Seq, next.items[0].Seq)) < 0 {
			next, due = g, g.due
		}
	}
	return next, due
}

// pullForward makes groups that waited for the sink due as their own failures say: parts that
// have not failed by themselves are due now.
func (k *laneKeys) pullForward(now time.Time) {
	for _, g := range k.groups {
		due := now
		if g.retry.Failures > 0 || g.retry.Attempts > 0 {
			due = now.Add(k.config.wait(g.retry.Failures))
		}
		if due.Before(g.due) {
			g.due = due
		}
	}
}

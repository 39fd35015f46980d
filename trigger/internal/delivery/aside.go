package delivery

import (
	"slices"
	"time"
)

// aside holds the failed groups of a lane until they are due, and queues the later
// changes of their keys, and of keys that are postponed and due soon. A key is in one
// group at most, not counting the group's rest. The lane owns it. Failed groups are few
// (reading stops at maxRecords waiting keys), so it looks through all of them.
type aside struct {
	groups []*group
	queues map[uint64][]*Item // later changes, by waiting key
}

func (a *aside) noKeys() bool { return len(a.queues) == 0 }

// add lets a group wait, and returns the number of keys that begin to.
func (a *aside) add(g *group) (begun int) {
	a.groups = append(a.groups, g)
	return a.addKeys(g.keys)
}

// addKeys lets keys wait, and returns the number of those that begin to.
func (a *aside) addKeys(keys map[uint64]bool) (begun int) {
	if a.queues == nil {
		a.queues = map[uint64][]*Item{}
	}
	for key := range keys {
		if _, there := a.queues[key]; !there {
			a.queues[key] = nil
			begun++
		}
	}
	return begun
}

// holdsGroup reports whether a failed group of a key waits.
func (a *aside) holdsGroup(key uint64) bool {
	return slices.ContainsFunc(a.groups, func(g *group) bool { return g.keys[key] })
}

// take removes a group that is about to be delivered. Its keys go on waiting.
func (a *aside) take(g *group) {
	for i, o := range a.groups {
		if o == g {
			a.groups = append(a.groups[:i:i], a.groups[i+1:]...)
			return
		}
	}
}

// holdsKey reports whether a key waits.
func (a *aside) holdsKey(key uint64) bool {
	_, waiting := a.queues[key]
	return waiting
}

// enqueue adds a change to the queue of its key, which waits.
func (a *aside) enqueue(key uint64, c *Item) { a.queues[key] = append(a.queues[key], c) }

// release ends the wait of keys and returns their queued changes, and the number of
// keys that waited.
func (a *aside) release(keys map[uint64]bool) (queued []*Item, released int) {
	for key := range keys {
		queue, waiting := a.queues[key]
		if !waiting {
			continue
		}
		queued = append(queued, queue...)
		delete(a.queues, key)
		released++
	}
	return queued, released
}

// nextDue returns the group that has been due for longest, or nil.
func (a *aside) nextDue(now time.Time) *group {
	var next *group
	for _, g := range a.groups {
		if !g.due.After(now) && (next == nil || before(g, next)) {
			next = g
		}
	}
	return next
}

// before orders groups by their due time, then by their first change.
func before(a, b *group) bool {
	if !a.due.Equal(b.due) {
		return a.due.Before(b.due)
	}
	return a.items[0].Seq < b.items[0].Seq
}

// earliest returns when the next group is due, or the zero time.
func (a *aside) earliest() (due time.Time) {
	for _, g := range a.groups {
		due = earlier(due, g.due)
	}
	return due
}

// pullForward makes groups that waited for the sink due as their own failures say: parts that
// have not failed by themselves are due now.
func (a *aside) pullForward(now time.Time, p Policy) {
	for _, g := range a.groups {
		own := now
		if g.retry.Failures > 0 || g.retry.Attempts > 0 {
			own = now.Add(p.wait(g.retry.Failures))
		}
		if own.Before(g.due) {
			g.due = own
		}
	}
}

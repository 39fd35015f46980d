package delivery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// firstStoredSeq begins the numbers of changes from the store, which are below those of
// the feed.
const firstStoredSeq = math.MinInt64 / 2

// duePostponed returns the keys that can be loaded, those that were due first come first.
func (l *lane) duePostponed(now time.Time) (due []*postponedKey) {
	if l.firstDue.IsZero() || l.firstDue.After(now) || l.isLeaving(now) {
		return nil
	}
	for _, k := range l.postponed {
		if !k.due.After(now) && k.mayLoad() && !l.aside.holdsGroup(k.order) {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, func(a, b *postponedKey) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.order, b.order)) })
	return due[:min(len(due), maxLoadedKeys)]
}

// nextPostponed returns when a key is due, or the zero time. If it waits for the feed or
// for a group of the lane, the lane looks again after memoryWait.
func (l *lane) nextPostponed(now time.Time) time.Time {
	if !l.firstDue.IsZero() && !l.firstDue.After(now) {
		return now.Add(memoryWait)
	}
	return l.firstDue
}

// loadPostponed loads changes of keys that are due for one call. Its keys wait then, as
// those of a failed group. It returns nil if there are none to deliver yet.
func (l *lane) loadPostponed(ctx context.Context, due []*postponedKey) (*group, error) {
	var loaded *group
	now := time.Now()
	for _, k := range due {
		g, err := l.loadKey(ctx, k)
		if err != nil {
			return nil, err
		}
		switch {
		case g == nil:
		case loaded != nil && loaded.joins(g) && len(loaded.items)+len(g.items) <= l.config.BatchItems:
			loaded.items = mergeItems(loaded.items, g.items, func(c *Item) int64 { return c.LSN })
			maps.Copy(loaded.keys, g.keys)
		case loaded == nil && !g.suspect:
			loaded = g
		default:
			for _, part := range g.suspects(l.keyOf) {
				l.putAside(part, now)
			}
		}
	}
	l.countPostponed()
	if loaded != nil {
		l.putAside(loaded, now)
		l.takeAside(loaded)
	}
	return loaded, nil
}

// joins reports whether two groups from the store have one failure history.
func (g *group) joins(o *group) bool {
	return !o.suspect && g.items[0].resumedRecord == nil && o.items[0].resumedRecord == nil && g.retry.Attempts == o.retry.Attempts
}

// loadKey loads the first changes of a key, at most a batch with one failure history. It
// returns nil if the first of them is not due, or not passed; if the store has none, the key
// is not postponed any more.
func (l *lane) loadKey(ctx context.Context, k *postponedKey) (g *group, err error) {
	var items []*Item
	err = l.untilStored(ctx, l.laneIndex, func() error {
		return withStoreTimeout(ctx, func(ctx context.Context) (err error) {
			items, err = l.readKey(ctx, k)
			return err
		})
	})
	switch {
	case err != nil:
		return nil, err
	case len(items) > 0 && time.Now().Before(l.localTime(items[0].stored.Due)):
		k.due = l.localTime(items[0].stored.Due)
		return nil, nil
	case len(items) == 0 && k.hasMore, len(items) > 0 && !k.isPassed(l.retries.nameOf(items[0])):
		k.due, k.hasMore = time.Now().Add(time.Second), true
		return nil, nil
	case len(items) == 0:
		l.releaseKeys(map[uint64]bool{k.order: true})
		return nil, nil
	}
	n := 1
	for n < len(items) && l.joinsFirst(items[n], items[0]) && k.isPassed(l.retries.nameOf(items[n])) {
		n++
	}
	if first := items[0].resumedRecord; first != nil {
		n = min(n, max(first.Size, 1))
	}
	k.hasMore = k.hasMore || n < len(items)
	items = items[:n:n]
	for _, c := range items {
		l.storedSeq++
		c.Seq, c.copiedBytes = l.storedSeq, c.Size()
		l.chargeBytes(c.copiedBytes)
	}
	g = l.resumeGroup(items)
	if first := items[0]; first.resumedRecord == nil && first.stored.Attempts > 0 {
		g.retry = RetryState{Tries: first.stored.Attempts, Attempts: first.stored.Attempts, Since: l.localTime(first.stored.Since)}
	}
	l.setKeys(g)
	return g, nil
}

// joinsFirst reports whether a change of a key has the failure history of the first one,
// and is due, too.
func (l *lane) joinsFirst(c, first *Item) bool {
	isDue := c.stored.Postponed == 0 || !time.Now().Before(l.localTime(c.stored.Due))
	return isDue && c.stored.Attempts == first.stored.Attempts && c.resumedRecord == nil
}

// readKey reads the first changes of a key, up to the size of a batch. A letter that was
// put again but not deleted is outdated; it is deleted now.
func (l *lane) readKey(ctx context.Context, k *postponedKey) (items []*Item, err error) {
	var outdated []*Item
	uncovered := l.uncovered.letterIDs() // before the store answers: another lane may delete some meanwhile
	bytes := 0
	k.hasMore = false
	err = l.deadLetters.LoadKey(ctx, k.text, func(stored StoredChange) bool {
		c := &Item{Change: stored.Change, stored: &stored}
		if l.keyOf(c) != k.order || k.deleted[stored.LetterID] || uncovered[stored.LetterID] {
			return true
		}
		if last := len(items) - 1; last >= 0 && l.retries.nameOf(items[last]) == l.retries.nameOf(c) {
			if stored.Postponed > items[last].stored.Postponed {
				c, items[last] = items[last], c
			}
			outdated = append(outdated, c)
			return true
		}
		if bytes += c.Size(); len(items) > 0 && (len(items) == l.config.BatchItems || bytes > l.config.BatchBytes) {
			k.hasMore = true
			return false
		}
		c.resumedRecord = l.retries.keepRecord(l.retries.nameOf(c))
		items = append(items, c)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("load postponed changes of key %s: %w", k.text, err)
	}
	for _, c := range outdated {
		if err := l.deadLetters.Delete(ctx, c.stored); err != nil {
			return nil, err
		}
		k.letters--
	}
	if len(items) < k.letters && time.Since(k.lastPut) < storeLag { // the store does not show yet what was put a moment ago
		k.hasMore = true
	}
	return items, nil
}

package delivery

import (
	"context"
	"maps"
	"slices"
	"time"

	"halley/trigger/internal/feed"
)

// postponeFailed puts the changes of a group that its handler has postponed into the
// store, with those that follow them, and returns the others that failed. whole says that
// the call handled no change.
func (l *lane) postponeFailed(ctx context.Context, g *group, v Verdict, whole bool) (failed []*Item, err error) {
	retry := g.retry
	if !whole || len(v.Postponed) < len(v.FailedItems) {
		retry = RetryState{Tries: retry.Tries, Since: retry.Since}
	}
	postponed := map[uint64]bool{} // by the first failed change of each key
	now, serviceNow := time.Now(), l.calls.ServiceNow().UTC()
	for _, c := range v.FailedItems {
		key := l.keyOf(c)
		after, asked := v.Postponed[c]
		letter := DeadLetter{IsPostponed: true, Cause: v.Err, Due: serviceNow.Add(after), Postponed: 1}
		tried := retry
		if c.stored != nil {
			tried.Attempts, letter.Postponed = max(tried.Attempts, c.stored.Attempts), c.stored.Postponed+1
		}
		tried = tried.failedFirst(now).countAttempt(l.config.Policy)
		letter.Attempts, letter.Since = tried.Attempts, serviceNow.Add(-now.Sub(tried.Since))
		isFirst := false
		if _, known := postponed[key]; !known {
			isFirst = true
			postponed[key] = asked && !tried.isExhausted(l.config.Policy, now) && l.mayPostpone(key)
		}
		switch {
		case !postponed[key]:
			failed = append(failed, c)
			continue
		case isFirst:
			err = l.putFirst(ctx, c, letter, now.Add(after))
		default:
			err = l.putBehind(ctx, c)
		}
		if err != nil {
			return nil, err
		}
	}
	for rest := g.rest; rest != nil && postponed[l.keyOf(rest.items[0])]; rest = rest.rest {
		for _, c := range rest.items {
			if err := l.putBehind(ctx, c); err != nil {
				return nil, err
			}
		}
		g.rest = rest.rest
	}
	return failed, nil
}

// mayPostpone reports whether the range has room for a key. Keys whose changes are handled
// and wait for a request count, too: this owner keeps these changes.
func (l *lane) mayPostpone(key uint64) bool {
	keys, _ := l.postponedCounts.total()
	uncovered, _ := l.uncovered.total()
	return l.postponed[key] != nil || keys+uncovered < maxPostponed
}

// putFirst puts a change that was postponed. Its key is due then, on this process's clock.
func (l *lane) putFirst(ctx context.Context, c *Item, letter DeadLetter, due time.Time) error {
	key := l.keyOf(c)
	k := l.postponed[key]
	if k == nil {
		if c.Key == "" {
			c.Key = feed.PartitionKey(c.Item, l.config.KeyPaths)
		}
		k = l.addPostponed(key, c.Key, time.Time{})
	}
	k.due = due
	l.countPostponed()
	return l.putPostponed(ctx, k, c, letter)
}

// putBehind puts a change that follows a postponed one of its key. If it comes from the
// store, it stays there.
func (l *lane) putBehind(ctx context.Context, c *Item) error {
	k := l.postponed[l.keyOf(c)]
	if c.stored != nil {
		k.hasMore = true
		l.chargeBytes(-c.copiedBytes)
		return nil
	}
	return l.putPostponed(ctx, k, c, DeadLetter{IsPostponed: true, Due: l.calls.ServiceNow().Add(time.Until(k.due)).UTC()})
}

// putPostponed returns once a change is durable in the store, and finishes it. A change
// that comes from the store keeps its place.
func (l *lane) putPostponed(ctx context.Context, k *postponedKey, c *Item, letter DeadLetter) error {
	letter.Time, letter.Order = l.calls.ServiceNow().UTC(), l.placeOrder(k, c)
	err := l.untilStored(ctx, l.laneIndex, func() error {
		return withStoreTimeout(ctx, func(ctx context.Context) error { return l.deadLetters.Put(ctx, c, letter) })
	})
	if err != nil {
		return err
	}
	k.letters, k.lastPut, k.hasMore = k.letters+1, time.Now(), true
	if letter.Order > k.lastOrder {
		k.lastOrder = letter.Order
	} else if c.stored == nil { // later changes from the feed have their place behind it
		k.listed = slices.Insert(k.listed, max(k.listedBefore(c.LSN), k.passed), listedChange{name: l.retries.nameOf(c), lsn: c.LSN, written: c.Timestamp, time: letter.Time, order: letter.Order})
	}
	l.calls.Postponed(l.laneIndex, c, letter)
	return l.finishStored(ctx, []*Item{c})
}

// finishStored counts changes as handled, dead-lettered or postponed. Those from the store
// are deleted there.
func (l *lane) finishStored(ctx context.Context, items []*Item) error {
	for _, c := range items {
		if c.stored == nil {
			continue
		}
		if err := l.deleteLetter(ctx, c.stored); err != nil {
			return err
		}
		l.leaveLetter(c)
	}
	l.finishItems(items)
	return nil
}

// forgetPostponed forgets keys of which the store has no more changes.
func (l *lane) forgetPostponed(keys map[uint64]bool) {
	before := len(l.postponed)
	maps.DeleteFunc(l.postponed, func(key uint64, k *postponedKey) bool { return keys[key] && !k.hasMore })
	if len(l.postponed) < before {
		l.countPostponed()
	}
}

// withoutPostponed takes the changes of postponed keys out of a batch from the feed.
func (l *lane) withoutPostponed(ctx context.Context, items []*Item) (free []*Item, err error) {
	if len(l.postponed) == 0 {
		return items, nil
	}
	for _, c := range items {
		k := l.postponed[l.keyOf(c)]
		at := k.placeOf(c)
		switch {
		case at == placeFree:
			free = append(free, c)
		case k.listed == nil && time.Until(k.due) <= memoryWait:
			l.waitingKeys.Add(int64(l.aside.addKeys(map[uint64]bool{k.order: true})))
			l.aside.enqueue(k.order, l.keepAside([]*Item{c})[0])
			l.queueFresh()
		default:
			if err := l.putBehind(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	return free, nil
}

package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// blockedKeys are the order keys that have a dead letter. Their later changes
// follow it into the store, untried, until a replay has emptied the store of them.
// Lanes share it; mu guards it, and no other lock is taken under it.
type blockedKeys struct {
	mu         sync.Mutex
	byKey      map[string]blockedKey
	hasDamaged bool // some dead letter could not be read: any key may have one
}

// blockedKey holds the position of a key's first dead letter, and the times of its
// last one. The time of a change tells a redelivery of one before the first dead
// letter from a later change of a range whose LSNs a merge has set back.
type blockedKey struct {
	firstLSN     int64
	firstWritten int64 // Unix seconds
	lastTime     time.Time
	lastPut      time.Time // when this worker stored the last one, on its own clock; zero if it stored none
}

// BlockedChange is a dead letter that the store lists.
type BlockedChange struct {
	Key     string
	LSN     int64
	Written int64     // Unix seconds
	Time    time.Time // when it was given up
}

// storeLag is the time after which every reader of a store sees a dead letter.
const storeLag = 10 * time.Second

// isBehind reports whether a change may have its place behind a dead letter of its
// key, and whether it certainly has: a store that lags may not show yet what was
// put a moment ago.
func (b *blockedKeys) isBehind(c *Item) (maybe, certain bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, there := b.byKey[c.Key]
	if !there {
		return b.hasDamaged, false
	}
	maybe = c.LSN >= key.firstLSN || c.Timestamp > key.firstWritten
	return maybe, maybe && time.Since(key.lastPut) < storeLag
}

// nextTime returns a time for the next dead letter of a key: now, unless the owner
// that stored the last one was ahead of this one's clock.
func (b *blockedKeys) nextTime(key string, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := b.byKey[key].lastTime; !now.After(last) {
		return last.Add(1)
	}
	return now
}

// addChange records a dead letter, and when this worker put it, if it did.
func (b *blockedKeys) addChange(d BlockedChange, put time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey == nil {
		b.byKey = map[string]blockedKey{}
	}
	key, there := b.byKey[d.Key]
	if !there || d.LSN < key.firstLSN && d.Written <= key.firstWritten {
		key.firstLSN, key.firstWritten = d.LSN, d.Written
	}
	if d.Time.After(key.lastTime) {
		key.lastTime = d.Time
	}
	if put.After(key.lastPut) {
		key.lastPut = put
	}
	b.byKey[d.Key] = key
}

func (b *blockedKeys) removeKey(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byKey, key)
}

func (b *blockedKeys) blockAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hasDamaged = true
}

// errSilentStore ends a list that makes no progress.
var errSilentStore = fmt.Errorf("no answer for %s", storeTimeout)

// loadKeys lists the dead letters once; each may take as long as a request.
func (b *blockedKeys) loadKeys(ctx context.Context, store *Store, calls Calls) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(storeTimeout, func() { cancel(errSilentStore) })
	defer silent.Stop()
	err := store.List(ctx, func(d BlockedChange) {
		silent.Reset(storeTimeout)
		b.addChange(d, time.Time{})
	}, func(err error) {
		silent.Reset(storeTimeout)
		calls.ReportProblem(AllLanes, fmt.Errorf("a dead letter cannot be read, so the store is asked about every key: %w", err))
		b.blockAll()
	})
	if err != nil {
		return fmt.Errorf("load blocked keys: %w", err)
	}
	return nil
}

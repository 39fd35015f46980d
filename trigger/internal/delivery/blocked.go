package delivery

import (
	"sort"
	"sync"
	"time"
)

// BlockedKeys are the keys that have a dead letter, as one list of a store shows them.
// They do not change once the list is complete, and all ranges of a function share
// them.
type BlockedKeys struct {
	Damaged []error // about dead letters that cannot be read: any key may have one
	Newer   []NewerRecord

	byKey     map[string]blockedKey
	postponed []StoredChange // in the order of the list, without documents
}

// NewerRecord is a record that a newer version of Halley has written and may have postponed.
type NewerRecord struct {
	Key string // "" is not known
	Err error
}

// BlockedChange is a dead letter that the store lists.
type BlockedChange struct {
	Key     string
	LSN     int64
	Written int64 // Unix seconds
	Order   int64 // its place among the records of the key
}

// AddChange records a dead letter of the list.
func (b *BlockedKeys) AddChange(d BlockedChange) {
	if b.byKey == nil {
		b.byKey = map[string]blockedKey{}
	}
	key, blocked := b.byKey[d.Key]
	b.byKey[d.Key] = key.with(d, blocked)
}

// AddPostponed records a postponed change of the list. Its documents are loaded when it
// is due.
func (b *BlockedKeys) AddPostponed(c StoredChange) {
	b.postponed = append(b.postponed, c.asListed())
}

// SortPostponed ends a list: its changes of each key are in their order then. The list is in
// the order of time, and clocks of owners differ.
func (b *BlockedKeys) SortPostponed() {
	sort.SliceStable(b.postponed, func(i, j int) bool { return b.postponed[i].Order < b.postponed[j].Order })
}

// blockedKey holds the position of a key's first dead letter, and the number of its
// last one. The time of a change tells a redelivery of one before the first dead
// letter from a later change of a range whose LSNs a merge has set back.
type blockedKey struct {
	firstLSN     int64
	firstWritten int64 // Unix seconds
	lastOrder    int64
	lastPut      time.Time // when this worker stored the last one, on its own clock; zero if it stored none
	isFree       bool      // the store has no dead letter of the key any more
}

// with returns the key with a further dead letter; blocked says that it has one.
func (k blockedKey) with(d BlockedChange, blocked bool) blockedKey {
	if !blocked || d.LSN < k.firstLSN && d.Written <= k.firstWritten {
		k.firstLSN, k.firstWritten = d.LSN, d.Written
	}
	k.lastOrder = max(k.lastOrder, d.Order)
	k.isFree = false
	return k
}

// blockedKeys are the order keys of a range that have a dead letter. Their later
// changes follow it into the store, untried, until a replay has emptied the store of
// them. Lanes share it; mu guards it, and no other lock is taken under it.
type blockedKeys struct {
	mu        sync.Mutex
	listed    *BlockedKeys          // when the lease was acquired
	byKey     map[string]blockedKey // what this worker has learnt since
	lastOrder int64                 // of the records that this owner has put
}

// find returns the newest state of a key, and whether it is blocked. mu is held.
func (b *blockedKeys) find(key string) (found blockedKey, isBlocked bool) {
	found, isKnown := b.byKey[key]
	if !isKnown {
		found, isKnown = b.listed.byKey[key]
	}
	return found, isKnown && !found.isFree
}

// StoreLag is the time after which every reader of a store sees a dead letter.
const StoreLag = 10 * time.Second

// blockOf reports whether a change has its place behind a dead letter of its key. A store that
// lags may not show yet what was put a moment ago.
func (b *blockedKeys) blockOf(c *Item) Block {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, isBlocked := b.find(c.Key)
	switch {
	case !isBlocked && len(b.listed.Damaged) > 0:
		return BlockPossible
	case !isBlocked, c.LSN < key.firstLSN && c.Timestamp <= key.firstWritten:
		return BlockNone
	case time.Since(key.lastPut) < StoreLag:
		return BlockCertain
	}
	return BlockPossible
}

// nextOrder returns the number of the next record of a key: at least the given one, and above
// those of all records that this owner has put, or knows of the key.
func (b *blockedKeys) nextOrder(key string, least int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k, isBlocked := b.find(key); isBlocked {
		least = max(least, k.lastOrder+1)
	}
	b.lastOrder = max(b.lastOrder+1, least)
	return b.lastOrder
}

// addChange records a dead letter that this worker has put.
func (b *blockedKeys) addChange(d BlockedChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, isBlocked := b.find(d.Key)
	key := known.with(d, isBlocked)
	key.lastPut = time.Now()
	b.byKey[d.Key] = key
}

// removeKey records that the store has no dead letter of a key.
func (b *blockedKeys) removeKey(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, isBlocked := b.find(key); isBlocked {
		b.byKey[key] = blockedKey{isFree: true}
	}
}

// count returns the number of blocked keys.
func (b *blockedKeys) count() (keys int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys = len(b.listed.byKey)
	for key, k := range b.byKey {
		switch _, isListed := b.listed.byKey[key]; {
		case isListed && k.isFree:
			keys--
		case !isListed && !k.isFree:
			keys++
		}
	}
	return keys
}

func (b *blockedKeys) setListed(listed *BlockedKeys) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listed = listed
}

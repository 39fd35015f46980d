package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// item is a document. Its sequence numbers all writes of its container, so that it names
// the version.
type item struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	Sequence int    `json:"sequence"`
}

// ledger writes items, and compares the deliveries of latest versions with the writes.
type ledger struct {
	items *cosmos.Container
	dice  *rand.Rand // of the writer

	mu        sync.Mutex // guards the fields below
	sequence  int        // of the newest write
	latest    map[string]int
	delivered map[int]string // ids of the items, by sequence
	reached   map[string]int // highest sequence that was delivered, by key
	broken    error          // first breach of a promise
	progress  chan struct{}
}

func newLedger(items *cosmos.Container) *ledger {
	return &ledger{
		items: items, dice: rand.New(rand.NewPCG(25, 28)),
		latest: map[string]int{}, delivered: map[int]string{}, reached: map[string]int{}, progress: make(chan struct{}, 1),
	}
}

// Of the items: how many keys there are, and how many items a key has at most.
const (
	keys        = 12
	itemsPerKey = 5
)

// write creates, replaces and deletes items.
func (l *ledger) write(ctx context.Context, count int) error {
	for range count {
		key := fmt.Sprint("key-", l.dice.IntN(keys))
		id := fmt.Sprint(key, "-", l.dice.IntN(itemsPerKey))
		if _, exists := l.latest[id]; exists && l.dice.IntN(8) == 0 {
			l.begin(id, true)
			if _, err := l.items.Delete(ctx, id, cosmos.NewPartitionKey(key), ""); err != nil {
				return err
			}
			continue
		}
		if _, err := l.items.Upsert(ctx, cosmos.NewPartitionKey(key), item{id, key, l.begin(id, false)}); err != nil {
			return err
		}
	}
	return nil
}

// begin notes a write before its request, as a host may deliver it before the answer.
func (l *ledger) begin(id string, isDelete bool) (sequence int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sequence++
	if isDelete {
		delete(l.latest, id)
	} else {
		l.latest[id] = l.sequence
	}
	return l.sequence
}

// handle is a handler. It fails the run if a version was never written, or if a version
// arrives for the first time after a later one of its key.
func (l *ledger) handle(_ context.Context, b trigger.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range b.Changes {
		var one item
		if err := c.Decode(&one); err != nil {
			return err
		}
		l.deliver(one)
	}
	select {
	case l.progress <- struct{}{}:
	default:
	}
	return nil
}

func (l *ledger) deliver(one item) {
	id, isRepeated := l.delivered[one.Sequence]
	switch {
	case l.broken != nil:
	case one.Sequence == 0 || one.Sequence > l.sequence || isRepeated && id != one.ID:
		l.broken = fmt.Errorf("version %d of %s was never written", one.Sequence, one.ID)
	case !isRepeated && one.Sequence < l.reached[one.Key]:
		l.broken = fmt.Errorf("version %d of %s arrived after version %d of its key", one.Sequence, one.ID, l.reached[one.Key])
	}
	l.delivered[one.Sequence] = one.ID
	l.reached[one.Key] = max(l.reached[one.Key], one.Sequence)
}

// missing returns the latest versions that have not arrived, or the first breach.
func (l *ledger) missing() (versions []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, sequence := range l.latest {
		if l.delivered[sequence] != id {
			versions = append(versions, fmt.Sprintf("%d of %s", sequence, id))
		}
	}
	return versions, l.broken
}

// complete returns nil if the latest version of every item has arrived and no promise is
// broken.
func (l *ledger) complete() error {
	versions, err := l.missing()
	if err == nil && len(versions) > 0 {
		err = fmt.Errorf("%w: %s", errMissing, strings.Join(versions, ", "))
	}
	return err
}

var errMissing = errors.New("latest versions have not arrived")

// await waits until the deliveries are complete.
func (l *ledger) await(ctx context.Context) error {
	for {
		err := l.complete()
		if !errors.Is(err, errMissing) {
			return err
		}
		select {
		case <-l.progress:
		case <-ctx.Done():
			return err
		}
	}
}

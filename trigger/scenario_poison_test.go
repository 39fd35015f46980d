package trigger

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"time"
)

// This tests the delivery policy as a whole: one document in a thousand is poison, one
// handler call in twenty fails, four hosts share the leases, and ranges split. Every
// good change is handled, every poison change is dead-lettered once, no range is
// blocked for longer than the policy allows, and a replay with a fixed handler
// empties the store.
func TestPoisonAmongThousands(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		const documents = 6000
		store := &memoryStore{}
		var mu sync.Mutex
		calls := map[string]int{}
		flaky := func(next Handler) Handler {
			return func(ctx context.Context, b Batch) error {
				mu.Lock()
				calls[b.Range.ID]++
				h := fnv.New32a()
				fmt.Fprint(h, b.Range.ID, b.Epoch, calls[b.Range.ID])
				mu.Unlock()
				if h.Sum32()%20 == 0 {
					return errors.New("sink failed")
				}
				return next(ctx, b)
			}
		}
		policy := withStore(store, func(f *Function) { f.MaxAttempts, f.RetryMax = 6, 2*time.Second })
		var stops []func()
		for i := range 4 {
			owner := fmt.Sprint("h", i)
			stops = append(stops, w.startHost(w.host(owner, flaky(failOnPoison(w.recorder(owner))), policy)))
		}
		poison := 0
		for i := range documents {
			id := fmt.Sprint("doc", i)
			if i%1000 == 500 {
				id = fmt.Sprint("poison", i)
				poison++
			}
			w.write(fmt.Sprint("player", i%97), id)
			if i%300 == 299 {
				time.Sleep(10 * time.Second)
			}
			if i == 2000 || i == 4000 {
				ranges, err := w.items.Ranges(t.Context())
				must(t, err)
				_, err = w.account.Split("db", "items", ranges[i/4000].ID)
				must(t, err)
			}
		}
		// A poison change takes its halvings and six attempts, each after a wait of
		// at most two seconds.
		time.Sleep(time.Minute)
		for _, stop := range stops {
			stop()
		}
		if got := len(store.documentIDs()); got != poison {
			t.Errorf("%d dead letters of %d poison documents: %v", got, poison, store.documentIDs())
		}
		for _, id := range store.documentIDs() {
			if !strings.HasPrefix(id, "poison") {
				t.Errorf("%s was dead-lettered", id)
			}
			delete(w.written, id)
		}
		w.checkComplete(1000 * w.eventCount(EventReleased)) // MaxAhead at each change of owner
		if blocked := w.longestStall(); blocked > 40*time.Second {
			t.Errorf("a range made no progress for %s", blocked)
		}
		done, err := Replay(t.Context(), store, w.source(), w.recorder("replay"), nil)
		must(t, err)
		if done.Handled != poison || len(store.documentIDs()) != 0 {
			t.Errorf("replay: %+v, remaining %v", done, store.documentIDs())
		}
	})
}

// longestStall returns the longest time in which the calls of a range only failed.
func (w *world) longestStall() (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := map[string]time.Time{}
	for _, e := range w.events {
		switch e.Kind {
		case EventDeliveryFailed:
			if since[e.Range].IsZero() {
				since[e.Range] = e.Time
			}
		case EventDelivered, EventDeadLettered:
			if s := since[e.Range]; !s.IsZero() {
				longest = max(longest, e.Time.Sub(s))
			}
			delete(since, e.Range)
		}
	}
	return longest
}

package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// closedStore does not list its letters while it is closed.
type closedStore struct {
	memoryStore
	isClosed atomic.Bool
}

func (s *closedStore) Query(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	if s.isClosed.Load() {
		return DeadLetterPage{}, errors.New("store is down")
	}
	return s.memoryStore.Query(ctx, q)
}

// Host A handles a change of a key in a merged range and postpones the next one. A failing
// change of another key holds the position before both. Host B cannot list what A has
// postponed, and is stopped before it reads. Host C delivers the changes of the key in their
// order: B's orderly end does not say that A had read nothing.
func TestOwnerWithoutListDoesNotVouchForFormerOnes(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		mergeRanges(t, w)
		store := &closedStore{}
		settings := func(f *Function, _ *Options) { f.DeadLetters, f.MaxItemsPerInvocation, f.MaxAttempts = store, 1, -1 }
		run := func(owner string, handler Handler) {
			stop := w.startHost(w.host(owner, handler, withoutLogger, settings))
			time.Sleep(30 * time.Second)
			stop()
		}
		for i := range 8 { // some of them in the lease that has the player
			w.write(fmt.Sprint("other", i), fmt.Sprint("failing", i))
		}
		w.write("player", "early")
		w.write("player", "late")
		run("a", func(_ context.Context, b Batch) error {
			switch id := b.Changes[0].ID(); {
			case strings.HasPrefix(id, "failing"):
				return errLater
			case id == "late":
				return RetryAfter(errLater, 45*time.Second)
			}
			return nil
		})
		store.isClosed.Store(true)
		run("b", w.recorder("b"))
		store.isClosed.Store(false)
		time.Sleep(time.Minute)
		var delivered []string
		run("c", func(_ context.Context, b Batch) error {
			if id := b.Changes[0].ID(); !strings.HasPrefix(id, "failing") {
				delivered = append(delivered, id)
			}
			return nil
		})
		if got := fmt.Sprint(delivered); got != "[early late]" || w.deliveryCount() > 0 {
			t.Errorf("delivered %s, and %d to a host without the list", got, w.deliveryCount())
		}
	})
}

// The first of two postponed changes of a key is handled and waits for a request, the second
// one is due a minute later. The next owner delivers the first one again. Two further changes
// of the key keep their order, although the key is not due any more between them.
func TestChangesBehindTwoPostponedOnesKeepTheirOrder(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store, calls := &memoryStore{}, map[string]int{}
		var delivered []string
		run := func(owner string, wait time.Duration) {
			stop := w.startHost(w.host(owner, func(_ context.Context, b Batch) error {
				id := b.Changes[0].ID()
				switch calls[id]++; {
				case calls[id] == 1 && id == "first":
					return RetryAfter(errLater, 2*time.Second)
				case calls[id] == 1 && id == "second":
					return RetryAfter(errLater, time.Minute)
				}
				delivered = append(delivered, id)
				time.Sleep(time.Second) // the feed is read meanwhile
				return nil
			}, manualCheckpoints, withStore(store), func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 1 }))
			time.Sleep(wait)
			stop()
		}
		w.write("player", "first")
		w.write("player", "second")
		run("a", 20*time.Second)
		w.write("player", "third")
		w.write("player", "fourth")
		run("b", 2*time.Minute)
		if got := fmt.Sprint(delivered); got != "[first first second third fourth]" {
			t.Errorf("delivered %s", got)
		}
	})
}

package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/feed"
)

// stalling reads five changes ahead at most, one by one, and lets batches wait for a minute.
func stalling(lanes, batch int) func(*Function, *Options) {
	return func(f *Function, _ *Options) {
		f.MaxAhead, f.PageItems = 5, 1
		f.Lanes, f.MaxItemsPerInvocation, f.BatchWindow = lanes, batch, time.Minute
	}
}

// A batch that cannot become full is delivered when reading has stopped: nothing else would
// let reading continue before the window is over.
func TestBatchesDoNotWaitWhileReadingIsStopped(t *testing.T) {
	for _, lanes := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.writeMany("doc", 23)
				stop := w.startHost(w.host("a", w.recorder("a"), stalling(lanes, 100)))
				time.Sleep(10 * time.Second)
				if n := w.deliveryCount(); n < 19 {
					t.Errorf("%d changes delivered soon, want all but 4", n)
				}
				time.Sleep(time.Minute)
				stop()
				w.checkComplete(0)
			})
		})
	}
}

// While a call runs that holds up reading, other batches wait for the changes that are read
// after it.
func TestBatchesWaitForACallThatHoldsUpReading(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		record, began := w.recorder("a"), time.Now()
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if len(b.Changes) == 3 && b.Changes[0].ID() == "long0" {
				return errors.Join(backoff.Sleep(ctx, 20*time.Second), record(ctx, b))
			}
			if took := time.Since(began); took < 20*time.Second {
				t.Errorf("%d changes from %s delivered after %s", len(b.Changes), b.Changes[0].ID(), took)
			}
			return record(ctx, b)
		}, stalling(8, 3))
		for i := range 3 {
			w.write("long", fmt.Sprint("long", i))
		}
		w.writeMany("doc", 7)
		stop := w.startHost(h)
		time.Sleep(25 * time.Second)
		if n := w.deliveryCount(); n < 8 {
			t.Errorf("%d changes delivered soon after the long call, want 8", n)
		}
		time.Sleep(time.Minute)
		stop()
		w.checkComplete(0)
	})
}

// keysOfLanes returns a key for each of some lanes.
func keysOfLanes(lanes int) []string {
	keys := make([]string, lanes)
	for i := 0; slices.Contains(keys, ""); i++ {
		key := fmt.Sprint("key", i)
		c := feed.Change{Item: cosmos.Item{Document: fmt.Appendf(nil, `{"player":%q}`, key)}}
		keys[c.OrderKey([]string{"/player"}, false)%uint64(lanes)] = key
	}
	return keys
}

// Reading has stopped at MaxAhead when the changes of another lane reach the limit of memory.
// The lane with the oldest waiting key makes room, although its retry is not due for long.
func TestLaneAtRestMakesRoomForAnother(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		keys := keysOfLanes(3)
		failing := failOnPoison(w.recorder("a"))
		w.write(keys[0], "poison")
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if b.Changes[0].ID() == "long" {
				return errors.Join(backoff.Sleep(ctx, 20*time.Second), failing(ctx, b))
			}
			return failing(ctx, b)
		}, stalling(3, 100), unending, withoutLogger, withStore(&memoryStore{}), func(f *Function, _ *Options) {
			f.BatchBytes, f.BatchWindow, f.RetryMin, f.RetryMax = 8<<20, 5*time.Second, time.Hour, time.Hour
		}))
		time.Sleep(10 * time.Second)
		w.write(keys[1], "long")
		for i := range 4 {
			w.writePadded(keys[2], fmt.Sprint("poison", i), 1_100_000)
		}
		time.Sleep(time.Minute)
		w.write(keys[1], "later")
		time.Sleep(time.Minute)
		stop()
		if !slices.Contains(w.deliveries("long", "later"), "later") {
			t.Error("reading has not continued")
		}
	})
}

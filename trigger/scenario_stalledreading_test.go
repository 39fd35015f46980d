package trigger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
)

// stalling reads five changes ahead at most, one by one, and lets batches wait for a minute.
func stalling(lanes, batch int) func(*Function, *Options) {
	return func(f *Function, _ *Options) {
		f.MaxAhead, f.MaxItemsPerInvocation = 5, 1
		f.Lanes, f.BatchItems, f.BatchWindow = lanes, batch, time.Minute
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

package trigger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A loop stops at the first change that it is refused, and says so. Changes of keys that
// failed before are delivered among others later: the loop handled the ones before it in
// the batch, and only these.
func TestFailedFromLosesNothing(t *testing.T) {
	for _, sorts := range []bool{false, true} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			const documents, keys = 600, 97
			for i := range documents {
				w.write(fmt.Sprint("player", i%keys), fmt.Sprint("doc", i))
			}
			tries, handled := map[string]int{}, map[string]bool{}
			last := map[string]int64{} // LSN by key
			summary, err := w.host("a", func(_ context.Context, b Batch) error {
				if !slices.IsSortedFunc(b.Changes, func(a, b Change) int { return int(a.LSN - b.LSN) }) {
					t.Error("a batch is not in feed order")
				}
				loop := slices.Clone(b.Changes)
				if sorts {
					rand.Shuffle(len(b.Changes), func(i, k int) { b.Changes[i], b.Changes[k] = b.Changes[k], b.Changes[i] })
				}
				for _, c := range loop {
					if tries[c.ID()]++; c.LSN%29 == 7 && tries[c.ID()] <= 3 {
						return FailedFrom(errors.New("refused"), c)
					}
					key := string(c.PartitionKey())
					if handled[c.ID()] || c.LSN < last[key] {
						t.Errorf("%s at lsn %d is handled after lsn %d of its key", c.ID(), c.LSN, last[key])
					}
					handled[c.ID()], last[key] = true, c.LSN
				}
				return nil
			}).Drain(t.Context())
			must(t, err)
			if len(handled) != documents || summary.Drained != 1 || summary.Behind != 0 || summary.Retries < 20 {
				t.Errorf("%d of %d handled, summary %+v", len(handled), documents, summary)
			}
		})
	}
}

// A handler keeps changes and names them in a later call: of another attempt, of a call
// before, of another range or another host. It has not said which changes of this call it
// handled, so all are delivered again.
func TestChangesOfOtherCallsFailWholeBatch(t *testing.T) {
	verdicts := map[string]func(error, Change) error{
		"failed":      func(err error, c Change) error { return Failed(err, c) },
		"failed from": FailedFrom,
	}
	for name, verdict := range verdicts {
		inWorld(t, 2, func(t *testing.T, w *world) {
			w.writeMany("doc", 40)
			record := w.recorder("a")
			kept := map[string]Change{} // the third of the last call in each range
			named := 0
			handler := func(ctx context.Context, b Batch) error {
				others := []Change{kept[b.Range.ID], kept["0"], kept["1"]}
				if len(b.Changes) > 2 {
					kept[b.Range.ID] = b.Changes[2]
				}
				if b.Attempt < 4 && others[b.Attempt-1].ID() != "" {
					named++
					return verdict(errors.New("bad"), others[b.Attempt-1])
				}
				return record(ctx, b)
			}
			for _, owner := range []string{"a", "b", "c"} {
				_, err := w.host(owner, handler, withoutBisection, func(_ *Function, o *Options) { o.Parallel = 1 }).Drain(t.Context())
				must(t, err)
				w.checkComplete(0)
				w.writeMany(owner, 40)
			}
			if named < 12 {
				t.Errorf("%s: %d calls named changes of others", name, named)
			}
		})
	}
}

// Changes of several keys that become due together are delivered in the order in which
// they were written.
func TestPostponedChangesAreDeliveredInFeedOrder(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for i := range 30 {
			w.write(fmt.Sprint("player", i%7), fmt.Sprint("doc", i))
		}
		record := w.recorder("a")
		largest, began := 0, time.Now()
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if time.Since(began) < time.Hour {
				return RetryAfter(errors.New("not now"), time.Hour)
			}
			largest = max(largest, len(b.Changes))
			if !slices.IsSortedFunc(b.Changes, func(a, b Change) int { return int(a.LSN - b.LSN) }) {
				t.Error("a batch is not in feed order")
			}
			return record(ctx, b)
		}, withStore(&memoryStore{})))
		time.Sleep(2 * time.Hour)
		stop()
		w.checkComplete(0)
		if largest < 7 {
			t.Errorf("batches of %d changes at most", largest)
		}
	})
}

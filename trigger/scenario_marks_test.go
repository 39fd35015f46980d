package trigger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/internal/finished"
)

// unending retries a change for as long as the test lasts.
func unending(f *Function, _ *Options) { f.MaxAttempts = -1 }

// finishedOf returns what the lease of range 0 tells about finished changes.
func (w *world) finishedOf() (v finished.Value, ok bool) {
	return finished.Parse(w.leaseDocuments()["0"].properties[finished.Property])
}

// A poison document holds up only its own key, however many changes follow: the others are
// handled, the lease says so, and it says nothing once the poison is handled.
func TestPoisonHoldsUpOnlyItsKey(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.writeMany("doc", 2500)
		w.write("k", "after")
		var mended atomic.Bool
		record := w.recorder("a")
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if !mended.Load() {
				return failOnPoison(record)(ctx, b)
			}
			return record(ctx, b)
		}, unending, withoutLogger))
		time.Sleep(20 * time.Second)
		if n := w.deliveredDocuments(); n != 2500 {
			t.Errorf("%d of the other documents are handled", n)
		}
		v, ok := w.finishedOf()
		if !ok || v.Continuation != `"1"` || v.Reached < 2500 || len(v.Marks) != 1 || !slices.Contains(slices.Collect(maps.Values(v.Marks)), 2) || v.RetryAt == 0 {
			t.Errorf("lease says %v %+v", ok, v)
		}
		mended.Store(true)
		time.Sleep(time.Minute)
		stop()
		if v, ok := w.finishedOf(); ok {
			t.Errorf("all is handled, and the lease says %+v", v)
		}
		w.checkComplete(0)
	})
}

// A host that is killed behind a poison document leaves its successor the document, its key
// and the last moments before the kill, and not the work of all other keys. The last one is
// a host that stops in good order.
func TestKillBehindPoisonRepeatsLittle(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.write("k", "after")
		record := w.recorder("a")
		for i := range 4 {
			w.writeMany(fmt.Sprint("doc", i, "-"), 1500)
			var killed atomic.Bool
			network := hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
				return nil, errors.New("killed"), killed.Load()
			}}
			oldCount := w.deliveryCount()
			stop := w.startHost(w.hostOn(network, fmt.Sprint("a", i), failOnPoison(record), unending, withoutLogger))
			time.Sleep(2 * time.Minute)
			if n := w.deliveryCount() - oldCount; n < 1500 || n > 1500+200 {
				t.Errorf("host %d has handled %d changes, 1500 are new", i, n)
			}
			killed.Store(i < 3)
			stop()
			time.Sleep(2 * time.Minute)
		}
		stop := w.startHost(w.host("b", record))
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(600)
		if end := w.deliveries(`poison`, `after`); !slices.Equal(end, []string{"poison", "after"}) {
			t.Errorf("the key of the poison was delivered as %q", end)
		}
	})
}

// deliveries returns which of the documents were delivered, in order.
func (w *world) deliveries(ids ...string) (seen []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.delivered {
		if slices.Contains(ids, d.doc.ID) {
			seen = append(seen, d.doc.ID)
		}
	}
	return seen
}

// A split behind a poison document leaves its children the same: each reads from before the
// poison and passes over what is finished.
func TestSplitBehindPoisonRepeatsLittle(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.write("k", "after")
		w.writeMany("doc", 3000)
		record := w.recorder("a")
		var mended atomic.Bool
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if !mended.Load() {
				return failOnPoison(record)(ctx, b)
			}
			return record(ctx, b)
		}, unending, withoutLogger))
		time.Sleep(time.Minute)
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(2 * time.Minute)
		if n := w.deliveryCount(); n > 3000+200 {
			t.Errorf("%d changes are handled, 3000 are new", n)
		}
		mended.Store(true)
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(200)
	})
}

// A key that waits for its retry does not keep the lease of a range that has split: its
// children are read at once.
func TestWaitingKeyDoesNotDelayASplit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.writeMany("doc", 10)
		stop := w.startHost(w.host("a", failOnPoison(w.recorder("a")), unending, withoutLogger))
		time.Sleep(62 * time.Second) // the next poll is 3 s later
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		w.writeMany("new", 10)
		time.Sleep(4 * time.Second)
		if n := len(w.leaseDocuments()); n != 2 {
			t.Errorf("%d leases, the range has 2 children", n)
		}
		if n := len(w.deliveries("new0", "new1", "new2", "new3", "new4", "new5", "new6", "new7", "new8", "new9")); n != 10 {
			t.Errorf("%d of 10 changes are handled 4 s after the split", n)
		}
		stop()
	})
}

// A sink keeps a change in memory that was set aside, and asks for a checkpoint after many
// more. On a merged range the lease holds no marks; reading continues all the same.
func TestBufferedRetryDoesNotStopReading(t *testing.T) {
	for name, ranges := range map[string]int{"one range": 1, "merged range": 2} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, ranges, func(t *testing.T, w *world) {
				if ranges > 1 {
					mergeRanges(t, w)
				}
				w.writeMany("doc", 100)
				record := w.recorder("a")
				var calls atomic.Int64 // a merged range has two leases
				_, err := w.host("a", func(ctx context.Context, b Batch) error {
					if n := calls.Add(1); b.Changes[0].ID() == "doc0" && b.Attempt == 1 {
						return errPoison
					} else if n%20 == 0 {
						b.Checkpoint()
					}
					return record(ctx, b)
				}, manualCheckpoints, func(f *Function, _ *Options) { f.MaxItemsPerInvocation, f.MaxAhead = 1, 5 }).Drain(t.Context())
				must(t, err)
				w.checkComplete(0)
			})
		})
	}
}

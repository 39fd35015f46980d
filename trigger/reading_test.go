package trigger

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

func TestIdleHostPollsAtPollDelay(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(time.Minute)
		oldCounts := w.countRequests()
		time.Sleep(10 * time.Minute)
		got := w.countRequests().minus(oldCounts)
		if limit := 4 * (10*60/5 + 1); got.feed > limit {
			t.Errorf("%d feed reads, at most %d", got.feed, limit)
		}
		if limit := 4 * (10*60/17 + 1); got.writes > limit {
			t.Errorf("%d lease writes, at most %d", got.writes, limit)
		}
		stop()
		synctest.Wait()
	})
}

// Idle ranges poll together, once in each period, and have no goroutines.
func TestIdleRangesPollTogether(t *testing.T) {
	inWorld(t, 20, func(t *testing.T, w *world) {
		before := runtime.NumGoroutine()
		var mu sync.Mutex
		polls := map[time.Time]int{}
		stop := w.startHost(w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if isFeedRead(r) {
				mu.Lock()
				defer mu.Unlock()
				polls[time.Now().Round(100*time.Millisecond)]++
			}
			return nil, nil, false
		}}, "a", w.recorder("a"), quietFromNow))
		time.Sleep(time.Minute + time.Second)
		if n := runtime.NumGoroutine() - before; n >= 40 { // 16 are kept for steps
			t.Errorf("%d goroutines for 20 idle ranges", n)
		}
		mu.Lock()
		clear(polls)
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		stop()
		for at, n := range polls {
			if n != 20 {
				t.Errorf("%d of 20 ranges poll at %v", n, at)
			}
		}
		if n := len(polls); n != 120 {
			t.Errorf("polls at %d moments in ten minutes, want 120", n)
		}
	})
}

// All ranges together read ahead at most the budget and one page for each range.
func TestReadAheadStaysWithinBudget(t *testing.T) {
	const limit, page = 20_000, 4_000
	inWorld(t, 4, func(t *testing.T, w *world) {
		padding := strings.Repeat("x", 1_000)
		for i := range 200 {
			id := "doc" + strings.Repeat("i", i)
			doc := map[string]any{"id": id, "player": id, "version": 1, "padding": padding}
			_, err := w.items.Upsert(t.Context(), cosmos.NewPartitionKey(id), doc)
			must(t, err)
			w.written[id] = 1
		}
		record := w.recorder("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if err := backoff.Sleep(ctx, time.Second); err != nil {
				return err
			}
			return record(ctx, b)
		}, func(f *Function, o *Options) { f.MaxItemsPerInvocation, f.PageItems, o.ReadAhead = 2, 2, limit })
		stop := w.startHost(h)
		peak := int64(0)
		for w.deliveryCount() < len(w.written) {
			time.Sleep(100 * time.Millisecond)
			peak = max(peak, h.host.pageBudget.UsedBytes())
		}
		stop()
		w.checkComplete(0)
		if peak > limit+4*page || peak < limit/2 {
			t.Errorf("%d bytes read ahead, want most of %d, and at most one page of each range more", peak, limit)
		}
		if used := h.host.pageBudget.UsedBytes(); used != 0 {
			t.Errorf("%d bytes are never released", used)
		}
	})
}

// A drain reads a page of a range before it acquires the lease. If the range's work ends
// before it delivers the page, the memory comes back.
func TestDrainReleasesMemoryOfUndeliveredPage(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		h := w.host("a", w.recorder("a"), blockKeysIn(&hangingStore{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s, err := h.Drain(ctx); s.Behind != 1 || w.deliveryCount() != 0 {
			t.Fatalf("%+v: %v; want a range that waits for the store", s, err)
		}
		if used := h.host.pageBudget.UsedBytes(); used != 0 {
			t.Errorf("%d bytes are never released", used)
		}
	})
}

// Ranges whose handler fails keep the pages that they have read. The other ranges of
// the host still read.
func TestFailingRangesLeaveMemoryToOthers(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		for i := range 200 {
			id := fmt.Sprint("doc", i)
			doc := map[string]any{"id": id, "player": id, "version": 1, "padding": strings.Repeat("x", 1000)}
			_, err := w.items.Upsert(t.Context(), cosmos.NewPartitionKey(id), doc)
			must(t, err)
			w.written[id] = 1
		}
		h := w.hostOf(t, Options{ReadAhead: 20_000},
			Function{FeedSource: FeedSource{Name: "broken"}, Handler: failAlways, BatchPolicy: BatchPolicy{MaxItemsPerInvocation: 2, PageItems: 2}},
			Function{FeedSource: FeedSource{Name: "working"}, Handler: func(ctx context.Context, b Batch) error {
				if err := backoff.Sleep(ctx, time.Second); err != nil { // long enough for others to fill the budget
					return err
				}
				return w.recorder("a")(ctx, b)
			}, BatchPolicy: BatchPolicy{MaxItemsPerInvocation: 2, PageItems: 2}})
		stop := w.startHost(h)
		time.Sleep(10 * time.Minute)
		stop()
		w.checkComplete(0)
		if used := h.host.pageBudget.UsedBytes(); used != 0 {
			t.Errorf("%d bytes are never released", used)
		}
	})
}

func TestFeedThatDoesNotAdvanceIsNotReadForever(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 150) // a page and a half
		feed := &repeatingFeed{w: w}
		stop := w.startHost(w.hostThrough("a", feed, w.recorder("a")))
		time.Sleep(10 * time.Minute)
		if reads := feed.answers.Load(); reads >= maxAnswers || w.deliveryCount() != 100 {
			t.Errorf("%d reads and %d deliveries of a feed that does not advance after 100 changes", reads, w.deliveryCount())
		}
		feed.isFixed.Store(true)
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(0)
	})
}

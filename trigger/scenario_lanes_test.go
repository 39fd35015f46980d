package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
)

func TestLanesKeepOrderOfKeys(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var mu sync.Mutex
		running, peak := 0, 0
		record := w.recorder("a")
		slow := func(ctx context.Context, b Batch) error {
			mu.Lock()
			running++
			peak = max(peak, running)
			mu.Unlock()
			err := backoff.Sleep(ctx, 10*time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			if err != nil {
				return err
			}
			return record(ctx, b)
		}
		stop := w.startHost(w.host("a", slow, func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation = 4, 5 }))
		for range 10 {
			w.writeMany("doc", 12)
			time.Sleep(7 * time.Second)
		}
		time.Sleep(time.Minute)
		stop()
		w.checkComplete(0)
		if peak < 3 || peak > 4 {
			t.Errorf("%d calls at a time on four lanes", peak)
		}
		if l := w.leaseDocuments()["0"]; l.continuation != w.newestContinuation() {
			t.Errorf("checkpoint %s, newest %s", l.continuation, w.newestContinuation())
		}
	})
}

func TestFailingLaneHoldsCheckpointButNotOtherLanes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		record := w.recorder("a")
		var mu sync.Mutex
		failing := true
		h := w.host("a", func(ctx context.Context, b Batch) error {
			mu.Lock()
			stop := failing && strings.Contains(string(b.Changes[0].Document), `"doc0"`)
			mu.Unlock()
			if stop {
				return errors.New("not yet")
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation = 8, 1 })
		stop := w.startHost(h)
		w.writeMany("doc", 40)
		time.Sleep(time.Minute)
		if got := w.deliveryCount(); got < 30 || got > 39 {
			t.Errorf("%d delivered while one key fails", got)
		}
		if l := w.leaseDocuments()["0"]; l.continuation != "" && lsnOf(t, l.continuation) >= 2 {
			t.Errorf("checkpoint %s is past the failing change", l.continuation)
		}
		mu.Lock()
		failing = false
		mu.Unlock()
		time.Sleep(time.Minute)
		stop()
		w.checkComplete(0)
	})
}

func TestBatchLimits(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 25)
		var sizes []int
		size := 0
		h := func(_ context.Context, b Batch) error {
			sizes, size = append(sizes, len(b.Changes)), len(b.Changes[0].Document)
			return nil
		}
		_, err := w.host("a", h, func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 10 }).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(sizes) != "[10 10 5]" {
			t.Errorf("batches of %v", sizes)
		}
		sizes = nil
		w.writeMany("big", 6)
		_, err = w.host("b", h, func(f *Function, _ *Options) { f.BatchBytes = 2*size + size/2 }).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(sizes) != "[2 2 2]" {
			t.Errorf("batches of %v by bytes", sizes)
		}
	})
}

func TestBatchWindow(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var sizes []int
		var times []time.Duration
		began := time.Now()
		stop := w.startHost(w.host("a", func(_ context.Context, b Batch) error {
			sizes = append(sizes, len(b.Changes))
			times = append(times, time.Since(began).Round(time.Second))
			return nil
		}, func(f *Function, _ *Options) { f.BatchWindow, f.FeedPollDelay = 20*time.Second, time.Second }))
		for i := range 10 {
			w.write("k", fmt.Sprint("doc", i))
			time.Sleep(6 * time.Second)
		}
		time.Sleep(time.Minute)
		stop()
		if slices.Max(sizes) < 3 || len(sizes) > 4 {
			t.Errorf("batches of %v at %v", sizes, times)
		}
	})
}

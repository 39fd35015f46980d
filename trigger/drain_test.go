package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
)

func TestDrain(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("doc", 100)
		h := w.host("a", w.record("a"))
		summary, err := h.Drain(t.Context())
		must(t, err)
		if summary.Changes != 100 || summary.Drained != 4 || summary.Behind != 0 {
			t.Errorf("first drain: %+v", summary)
		}
		w.complete(0)
		for token, l := range w.leaseDocuments() {
			if l.owner != "" || l.continuation == "" {
				t.Errorf("lease %s after the drain: %+v", token, l)
			}
		}
	})
}

func TestDrainWritesNothingForAnIdleRange(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("doc", 100)
		h := w.host("a", w.record("a"))
		_, err := h.Drain(t.Context())
		must(t, err)
		before := w.requests()
		for range 10 {
			time.Sleep(10 * time.Second)
			summary, err := h.Drain(t.Context())
			must(t, err)
			if summary.Idle != 4 || summary.Changes != 0 {
				t.Errorf("idle drain: %+v", summary)
			}
		}
		got := w.requests().minus(before)
		if got.writes != 0 || got.feed != 40 {
			t.Errorf("ten idle drains of four ranges made %d lease writes and %d feed reads", got.writes, got.feed)
		}
		w.write("doc1", "doc1")
		summary, err := h.Drain(t.Context())
		must(t, err)
		if summary.Idle != 3 || summary.Changes != 1 {
			t.Errorf("drain of one range: %+v", summary)
		}
	})
}

func TestDrainLeavesLeasesOfLiveHosts(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		time.Sleep(30 * time.Second)
		summary, err := w.host("b", w.record("b")).Drain(t.Context())
		must(t, err)
		if summary.Skipped != 2 {
			t.Errorf("summary %+v", summary)
		}
		stop()
	})
}

func TestDrainStopsInGoodOrder(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 1000)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		record := w.record("a")
		summary, err := w.host("a", func(ctx context.Context, b Batch) error {
			if err := backoff.Sleep(ctx, 7*time.Second); err != nil {
				return err
			}
			return record(ctx, b)
		}).Drain(ctx)
		must(t, err)
		if summary.Behind != 1 || summary.Changes != 500 {
			t.Errorf("summary %+v", summary)
		}
		if l := w.leaseDocuments()["0"]; l.owner != "" || l.continuation == "" {
			t.Errorf("lease %+v", l)
		}
		_, err = w.host("a", w.record("a")).Drain(t.Context())
		must(t, err)
		w.complete(0)
	})
}

func TestDrainFollowsASplit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 50)
		h := w.host("a", w.record("a"))
		_, err := h.Drain(t.Context())
		must(t, err)
		w.fill("doc", 50)
		_, err = w.account.Split("db", "items", "0")
		must(t, err)
		w.fill("more", 50)
		summary, err := h.Drain(t.Context())
		must(t, err)
		if summary.Changes != 100 || summary.Behind != 0 {
			t.Errorf("summary %+v", summary)
		}
		w.complete(0)
	})
}

func TestDrainRange(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("doc", 100)
		h := w.host("a", w.record("a"))
		changes := 0
		for i := range 4 {
			summary, err := h.DrainRange(t.Context(), "test", fmt.Sprint(i))
			must(t, err)
			if summary.Ranges != 1 || summary.Changes == 0 {
				t.Errorf("range %d: %+v", i, summary)
			}
			changes += summary.Changes
		}
		if changes != 100 {
			t.Errorf("%d changes in all ranges", changes)
		}
		if summary, err := h.DrainRange(t.Context(), "test", "77"); err != nil || summary.Ranges != 0 {
			t.Errorf("token without a lease: %+v, %v", summary, err)
		}
		if _, err := h.DrainRange(t.Context(), "other", "0"); err == nil {
			t.Error("unknown function accepted")
		}
	})
}

func TestDrainKeepsAFailingRangeAndGoesOn(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fill("doc", 40)
		record := w.record("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		summary, err := w.host("a", func(ctx context.Context, b Batch) error {
			if b.Range.ID == "0" {
				return errors.New("poison")
			}
			return record(ctx, b)
		}).Drain(ctx)
		must(t, err)
		if summary.Drained != 1 || summary.Behind != 1 || summary.Retries == 0 {
			t.Errorf("summary %+v", summary)
		}
		if l := w.leaseDocuments()["0"]; l.continuation != "" {
			t.Errorf("failing range was checkpointed at %s", l.continuation)
		}
	})
}

// TestDrainThatEndsWhileItAcquires leaves no lease behind that nobody works on.
func TestDrainThatEndsWhileItAcquires(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		h := w.host("a", w.record("a"))
		ctx, cancel := context.WithCancel(t.Context())
		remove := w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Delay: 2 * time.Second})
		w.mu.Lock()
		w.before = func(r *http.Request) {
			if r.Method == http.MethodPut {
				cancel() // the request is on its way
			}
		}
		w.mu.Unlock()
		summary, err := h.Drain(ctx)
		must(t, err)
		remove()
		if summary.Behind != 1 {
			t.Errorf("summary %+v", summary)
		}
		if l := w.leaseDocuments()["0"]; l.owner != "" {
			t.Errorf("lease is left with %q", l.owner)
		}
		_, err = h.Drain(t.Context())
		must(t, err)
		w.complete(0)
	})
}

package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
)

func TestDrainDeliversAllAndReleases(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("doc", 100)
		h := w.host("a", w.recorder("a"))
		summary, err := h.Drain(t.Context())
		must(t, err)
		if summary.Changes != 100 || summary.Drained != 4 || summary.Behind != 0 {
			t.Errorf("first drain: %+v", summary)
		}
		w.checkComplete(0)
		for token, l := range w.leaseDocuments() {
			if l.owner != "" || l.continuation == "" {
				t.Errorf("lease %s after the drain: %+v", token, l)
			}
		}
	})
}

func TestDrainRange(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("doc", 100)
		h := w.host("a", w.recorder("a"))
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
		if _, err := h.DrainRange(t.Context(), "other", "0"); !errors.Is(err, ErrNoFunction) || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("unknown function: %v", err)
		}
	})
}

func TestDrainWritesNothingForIdleRange(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("doc", 100)
		h := w.host("a", w.recorder("a"))
		_, err := h.Drain(t.Context())
		must(t, err)
		oldCounts := w.countRequests()
		for range 10 {
			time.Sleep(10 * time.Second)
			summary, err := h.Drain(t.Context())
			must(t, err)
			if summary.Idle != 4 || summary.Changes != 0 {
				t.Errorf("idle drain: %+v", summary)
			}
		}
		got := w.countRequests().minus(oldCounts)
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

func TestDrainSkipsLeasesOfLiveHosts(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(30 * time.Second)
		summary, err := w.host("b", w.recorder("b")).Drain(t.Context())
		must(t, err)
		if summary.Skipped != 2 {
			t.Errorf("summary %+v", summary)
		}
		stop()
	})
}

// A cooling range is counted as skipped, and the status does not show it after its
// cooldown.
func TestDrainSkipsCoolingRanges(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		release := make(chan struct{})
		h := w.host("a", func(context.Context, Batch) error { <-release; return nil }, func(f *Function, _ *Options) { f.HandlerTimeout = time.Second })
		summary, err := h.Drain(t.Context())
		must(t, err)
		if summary.Behind != 1 {
			t.Errorf("hung: %+v", summary)
		}
		close(release)
		summary, err = h.Drain(t.Context())
		must(t, err)
		if summary.Ranges != 1 || summary.Skipped != 1 {
			t.Errorf("cooling: %+v", summary)
		}
		_, err = w.host("b", w.recorder("b")).Drain(t.Context())
		must(t, err)
		time.Sleep(time.Minute)
		_, err = h.Drain(t.Context())
		must(t, err)
		if ranges := h.Status().Functions[0].Ranges; len(ranges) != 0 {
			t.Errorf("status still shows %+v", ranges)
		}
	})
}

func TestDrainCheckpointsAtDeadline(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 1000)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		record := w.recorder("a")
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
		_, err = w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
	})
}

// A drain that ends while it acquires a lease does not leave it with an owner.
func TestDrainThatEndsDuringAcquisitionReleasesLease(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		h := w.host("a", w.recorder("a"))
		ctx, cancel := context.WithCancel(t.Context())
		remove := w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Delay: 2 * time.Second})
		w.mu.Lock()
		w.onRequest = func(r *http.Request) {
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
			t.Errorf("the owner of the lease is %q", l.owner)
		}
		_, err = h.Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
	})
}

func TestDrainFollowsSplit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 50)
		h := w.host("a", w.recorder("a"))
		_, err := h.Drain(t.Context())
		must(t, err)
		w.writeMany("doc", 50)
		_, err = w.account.Split("db", "items", "0")
		must(t, err)
		w.writeMany("more", 50)
		summary, err := h.Drain(t.Context())
		must(t, err)
		if summary.Changes != 100 || summary.Behind != 0 {
			t.Errorf("summary %+v", summary)
		}
		w.checkComplete(0)
	})
}

// A range that cannot be read is not caught up.
func TestDrainCountsUnreadableRangeAsBehind(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		w.account.Inject(emulator.Fault{Header: map[string]string{"A-IM": "."}, Range: "1", Status: 400})
		summary, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		if summary.Behind != 1 || summary.Drained != 1 || summary.Idle != 0 {
			t.Errorf("summary %+v", summary)
		}
	})
}

func TestDrainServesOthersWhileOneRangeFails(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 40)
		record := w.recorder("a")
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
		if l := w.leaseDocuments()["0"]; !isFirstPosition(l.continuation) {
			t.Errorf("failing range was checkpointed at %s", l.continuation)
		}
	})
}

// A read that hangs does not keep its slot for a whole drain.
func TestDrainServesRangesWhileOthersCannotBeRead(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("doc", 80)
		var mu sync.Mutex
		served := map[string]int{}
		for range 5 {
			h := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
				if id := r.Header.Get("x-ms-documentdb-partitionkeyrangeid"); isFeedRead(r) && (id == "0" || id == "1") {
					return loseRequest(r)
				}
				return nil, nil, false
			}}, "a", func(_ context.Context, b Batch) error {
				mu.Lock()
				defer mu.Unlock()
				served[b.Range.ID] += len(b.Changes)
				return nil
			}, func(_ *Function, o *Options) { o.Parallel = 2 })
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			_, err := h.Drain(ctx)
			cancel()
			must(t, err)
			time.Sleep(time.Minute)
		}
		if len(served) != 2 {
			t.Errorf("after 5 drains of 4 minutes: served %v", served)
		}
	})
}

// Ranges that fail keep their slots until the end of a drain. The next drain begins
// with the other ranges.
func TestNextDrainServesRangesThatGotNoSlot(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("doc", 80)
		var mu sync.Mutex
		poison, served := map[string]bool{}, map[string]bool{}
		h := w.host("a", func(_ context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if len(poison) < 2 && !served[b.Range.ID] {
				poison[b.Range.ID] = true
			}
			if poison[b.Range.ID] {
				return errPoison
			}
			served[b.Range.ID] = true
			return nil
		}, func(_ *Function, o *Options) { o.Parallel = 2 })
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			_, err := h.Drain(ctx)
			cancel()
			must(t, err)
			time.Sleep(time.Minute)
		}
		if len(served) != 2 {
			t.Errorf("after 5 drains of 4 minutes: failing %v, served %v", poison, served)
		}
	})
}

// If every range of one function fails, a drain still serves the other functions.
func TestDrainServesOtherFunctionsWhileOneFails(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("doc", 40)
		w.onRequest = func(r *http.Request) {
			if strings.Contains(r.URL.Path, "/docs/working") && strings.HasSuffix(r.URL.Path, ".info") {
				time.Sleep(5 * time.Second) // the other function has begun by then
			}
		}
		h := w.hostOf(t, Options{Parallel: 2}, Function{FeedSource: FeedSource{Name: "broken"}, Handler: failAlways}, Function{FeedSource: FeedSource{Name: "working"}, Handler: w.recorder("a")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := h.Drain(ctx)
		must(t, err)
		w.checkComplete(0)
	})
}

// If one function cannot be prepared, the drain returns an error and drains the others.
func TestDrainServesOthersIfOneFunctionCannotStart(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 300)
		slow := func(ctx context.Context, b Batch) error {
			if err := backoff.Sleep(ctx, time.Second); err != nil {
				return err
			}
			return w.recorder("a")(ctx, b)
		}
		h := w.hostOf(t, Options{},
			Function{FeedSource: FeedSource{Name: "lost", Container: w.client().Container("db", "nowhere")}, Handler: failAlways}, Function{FeedSource: FeedSource{Name: "working"}, Handler: slow})
		if _, err := h.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), `"lost"`) {
			t.Errorf("error %v", err)
		}
		w.checkComplete(0)
	})
}

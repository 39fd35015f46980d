package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
)

// functions makes a host of several functions on the same container; their
// names are the keys.
func (w *world) functions(t *testing.T, o Options, functions ...Function) *Host {
	t.Helper()
	client := w.client()
	for i := range functions {
		if functions[i].Container == nil {
			functions[i].Container = client.Container("db", "items")
		}
		functions[i].StartFrom = FromBeginning()
	}
	o.Owner = "a"
	h, err := New(client.Container("db", "leases"), functions, &o)
	must(t, err)
	return h
}

func broken(context.Context, Batch) error { return errors.New("sink is down") }

// Ranges whose handler fails for ever hold what they have read. The others of
// the host go on reading.
func TestFailingRangesLeaveMemoryToTheOthers(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		for i := range 200 {
			id := fmt.Sprint("doc", i)
			doc := map[string]any{"id": id, "player": id, "version": 1, "padding": strings.Repeat("x", 1000)}
			_, err := w.items.Upsert(t.Context(), cosmos.NewPartitionKey(id), doc)
			must(t, err)
			w.written[id] = 1
		}
		h := w.functions(t, Options{ReadAhead: 20_000},
			Function{Name: "broken", Handler: broken, MaxItemsPerInvocation: 2},
			Function{Name: "sound", Handler: func(ctx context.Context, b Batch) error {
				if err := backoff.Sleep(ctx, time.Second); err != nil { // long enough for others to fill the budget
					return err
				}
				return w.record("a")(ctx, b)
			}, MaxItemsPerInvocation: 2})
		stop := w.running(h)
		time.Sleep(10 * time.Minute)
		stop()
		w.complete(0)
		if used := h.host.pageBudget.UsedBytes(); used != 0 {
			t.Errorf("%d bytes are never given back", used)
		}
	})
}

// A function whose ranges fail for ever does not keep a drain from others.
func TestDrainServesEachFunction(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("doc", 40)
		w.before = func(r *http.Request) {
			if strings.Contains(r.URL.Path, "/docs/sound") && strings.HasSuffix(r.URL.Path, ".info") {
				time.Sleep(5 * time.Second) // the other is at work by then
			}
		}
		h := w.functions(t, Options{Parallel: 2}, Function{Name: "broken", Handler: broken}, Function{Name: "sound", Handler: w.record("a")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := h.Drain(ctx)
		must(t, err)
		w.complete(0)
	})
}

// A function that cannot be prepared is an error, and the others are drained.
func TestDrainGoesOnWithoutAFunctionThatCannotStart(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fill("doc", 300)
		slow := func(ctx context.Context, b Batch) error {
			if err := backoff.Sleep(ctx, time.Second); err != nil {
				return err
			}
			return w.record("a")(ctx, b)
		}
		h := w.functions(t, Options{},
			Function{Name: "lost", Handler: broken, Container: w.client().Container("db", "nowhere")}, Function{Name: "sound", Handler: slow})
		if _, err := h.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), `"lost"`) {
			t.Errorf("error %v", err)
		}
		w.complete(0)
	})
}

// A range that rests is counted, and its Status forgets it when it is over.
func TestDrainCountsRestingRanges(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		release := make(chan struct{})
		h := w.host("a", func(context.Context, Batch) error { <-release; return nil }, func(f *Function, _ *Options) { f.HandlerTimeout = time.Second })
		summary, err := h.Drain(t.Context())
		must(t, err)
		if summary.Behind != 1 {
			t.Errorf("stuck: %+v", summary)
		}
		close(release)
		summary, err = h.Drain(t.Context())
		must(t, err)
		if summary.Ranges != 1 || summary.Skipped != 1 {
			t.Errorf("resting: %+v", summary)
		}
		_, err = w.host("b", w.record("b")).Drain(t.Context())
		must(t, err)
		time.Sleep(time.Minute)
		_, err = h.Drain(t.Context())
		must(t, err)
		if ranges := h.Status().Functions[0].Ranges; len(ranges) != 0 {
			t.Errorf("status still shows %+v", ranges)
		}
	})
}

// A handler that ends its goroutine has failed; it is not stuck.
func TestGoexitIsAFailedAttempt(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 1)
		record := w.record("a")
		began := time.Now()
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if b.Attempt == 1 {
				runtime.Goexit()
			}
			return record(ctx, b)
		})
		summary, err := h.Drain(t.Context())
		must(t, err)
		w.complete(0)
		if took := time.Since(began); summary.Retries != 1 || took > time.Minute {
			t.Errorf("%+v after %v", summary, took)
		}
	})
}

// slowLetters answers Holds after a time that is longer than a lease lasts.
type slowLetters struct {
	letters
	asked func()
}

func (s *slowLetters) Holds(context.Context, DeadLetterSource, string) (bool, error) {
	s.asked()
	time.Sleep(90 * time.Second)
	return false, nil
}

// No delivery begins on a lease that ran out while the store was asked whether
// a key is parked.
func TestNoDeliveryAfterTheStoreWasSlow(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &slowLetters{}
		must(t, store.Put(t.Context(), DeadLetter{ID: "x", Function: "test", Account: w.source().Account, Database: "db", Container: "items", Key: `["k"]`}))
		w.write("k", "doc")
		var mended atomic.Bool
		store.asked = func() {
			remove := w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Status: 503})
			time.AfterFunc(3*time.Minute, func() {
				mended.Store(true)
				remove()
			})
		}
		record := w.record("a")
		_, err := w.host("a", func(ctx context.Context, b Batch) error {
			if !mended.Load() {
				t.Error("delivered while no lease write arrived for longer than the lease lasts")
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.BlockKeys, f.DeadLetters = true, store }).Drain(t.Context())
		must(t, err)
		w.complete(0)
	})
}

// TestCooldownDoublesUpToABound: a host that gets nowhere with a range leaves it
// alone for longer each time in a row.
func TestCooldownDoublesUpToABound(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		r := w.host("a", w.record("a")).functionRunners[0]
		must(t, r.prepareLeases(t.Context()))
		leases, err := r.listCandidates(t.Context())
		must(t, err)
		l := leases[0]
		worker, err := r.acquireLease(t.Context(), l, false)
		must(t, err)
		for i, want := range []int{2, 4, 8, 8} {
			r.workerEnded(worker, &delivery.HungError{})
			rest := time.Until(r.coolingRanges["0"].retryAt)
			if rest != time.Duration(want)*r.host.options.LeaseAcquireInterval || !r.coolsDown(l) {
				t.Errorf("cooldown %d is %s, want %d acquire intervals", i+1, rest, want)
			}
			time.Sleep(rest)
			if r.coolsDown(l) {
				t.Errorf("cooldown %d does not end", i+1)
			}
		}
		r.workerEnded(worker, feed.ErrCaughtUp)
		if len(r.coolingRanges) > 0 {
			t.Error("a range that was caught up with still cools down")
		}
	})
}

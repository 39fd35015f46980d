package trigger

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
)

// stopTime stops a host after the given time and returns how long Run took to end.
func (w *world) stopTime(h *Host, delay time.Duration) time.Duration {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	time.Sleep(delay)
	stopped := time.Now()
	cancel()
	if err := <-done; err != nil {
		w.t.Errorf("run: %v", err)
	}
	return time.Since(stopped)
}

// hungStore is a dead letter store whose calls return only when it is closed.
type hungStore struct{ closed chan struct{} }

func (s hungStore) Put(context.Context, DeadLetter) error {
	<-s.closed
	return errors.New("closed")
}
func (s hungStore) Holds(context.Context, DeadLetterSource, string) (bool, error) { return false, nil }
func (s hungStore) Query(context.Context, DeadLetterQuery) (DeadLetterPage, error) {
	return DeadLetterPage{}, nil
}
func (s hungStore) Delete(context.Context, DeadLetter) error { return nil }

func TestStopIsPromptInEveryState(t *testing.T) {
	const grace = 10 * time.Second
	tests := map[string]struct {
		ranges int
		after  time.Duration // time of the stop
		script func(w *world, f *Function, o *Options) (cleanUp func())
		limit  time.Duration
	}{
		"64 ranges with lease writes of 1 s": {64, 8 * time.Second, func(w *world, _ *Function, _ *Options) func() {
			return w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/docs/", Delay: time.Second})
		}, 4 * time.Second},
		"lease container throttled": {8, time.Minute, func(w *world, _ *Function, _ *Options) func() {
			timer := time.AfterFunc(50*time.Second, func() {
				w.account.Inject(emulator.Fault{Path: "/colls/leases", Status: 429, RetryAfter: 2 * time.Second})
			})
			return func() { timer.Stop() }
		}, grace + time.Second},
		"dead letter store hangs": {1, time.Minute, func(w *world, f *Function, _ *Options) func() {
			store := hungStore{make(chan struct{})}
			f.DeadLetters, f.Handler = store, func(context.Context, Batch) error { return Skip(errors.New("refused")) }
			w.writeMany("doc", 3)
			return func() { close(store.closed) }
		}, grace + time.Second},
		"handler hangs": {2, time.Minute, func(w *world, f *Function, o *Options) func() {
			end := make(chan struct{})
			f.Handler = func(context.Context, Batch) error { <-end; return nil }
			o.StuckGrace = time.Hour
			w.writeMany("doc", 20)
			return func() { close(end) }
		}, grace + time.Second},
		"handler obeys its context": {2, time.Minute, func(w *world, f *Function, _ *Options) func() {
			f.Handler = func(ctx context.Context, _ Batch) error { <-ctx.Done(); return ctx.Err() }
			w.writeMany("doc", 20)
			return func() {}
		}, grace},
		"bootstrap lock held by another host": {2, 5 * time.Second, func(w *world, _ *Function, _ *Options) func() {
			w.createStamp(".lock")
			return func() {}
		}, time.Second},
		"audit under way": {2, 302 * time.Second, func(w *world, _ *Function, _ *Options) func() {
			timer := time.AfterFunc(280*time.Second, func() {
				w.account.Inject(emulator.Fault{Method: http.MethodGet, Path: "/pkranges", Delay: time.Hour})
			})
			return func() { timer.Stop() }
		}, grace + time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.ranges, func(t *testing.T, w *world) {
				var cleanUp func()
				h := w.host("a", w.recorder("a"), func(f *Function, o *Options) {
					o.StopGrace, o.Logger = grace, slog.New(slog.DiscardHandler)
					cleanUp = test.script(w, f, o)
				})
				defer func() { cleanUp() }()
				if took := w.stopTime(h, test.after); took > test.limit {
					t.Errorf("Run returned %v after the stop, want at most %v", took, test.limit)
				}
			})
		})
	}
}

func TestNothingIsAcquiredAfterStop(t *testing.T) {
	inWorld(t, 64, func(t *testing.T, w *world) {
		w.writeMany("doc", 64)
		var stopped atomic.Bool
		var late atomic.Int64
		transport := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if isLeaseReplace(r) {
				if stopped.Load() && !strings.Contains(bodyOf(t, r), `"Owner":null`) {
					late.Add(1)
				}
				time.Sleep(time.Second)
			}
			return nil, nil, false
		}}
		var calls atomic.Int64
		h := w.hostOn(transport, "a", func(context.Context, Batch) error {
			if stopped.Load() {
				calls.Add(1)
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond)
		stopped.Store(true)
		cancel()
		must(t, <-done)
		if late.Load() > 0 || calls.Load() > 0 {
			t.Errorf("%d leases acquired and %d handler calls begun after the stop", late.Load(), calls.Load())
		}
		if n := w.leasesByOwner()["a"]; n > 0 {
			t.Errorf("%d leases not released", n)
		}
	})
}

func TestDrainStopsWithinItsGrace(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		end := make(chan struct{})
		defer close(end)
		w.writeMany("doc", 20)
		h := w.host("a", func(context.Context, Batch) error { <-end; return nil }, func(_ *Function, o *Options) {
			o.Logger = slog.New(slog.DiscardHandler)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := h.Drain(ctx)
		must(t, err)
		if took := time.Since(began) - time.Minute; took > 11*time.Second {
			t.Errorf("Drain returned %v after its deadline", took)
		}
	})
}

func TestCallLeftBehindAtStopIsNamedAndCounted(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		end := make(chan struct{})
		w.writeMany("doc", 1)
		logger, logged := recordLog(slog.LevelInfo)
		h := w.host("a", func(context.Context, Batch) error { <-end; return nil }, func(_ *Function, o *Options) {
			o.Logger, o.StuckGrace = logger, time.Hour
		})
		w.stopTime(h, 30*time.Second)
		found := logged.FilterMessageSnippet("left behind").All()
		if len(found) != 1 {
			t.Fatalf("%d log records name the call", len(found))
		}
		fields := found[0].ContextMap()
		if fields["range"] != "0" || fields["running"].(time.Duration).Round(time.Millisecond) != 40*time.Second || fields["abandoned"] != int64(1) {
			t.Errorf("logged %v", fields)
		}
		if n := h.host.abandonedCalls.callCount.Load(); n != 1 {
			t.Errorf("%d calls counted", n)
		}
		if l := w.leaseDocuments()["0"]; l.owner != "" || !strings.Contains(l.properties[retriesProperty], `"tries":1`) || strings.Contains(l.properties[retriesProperty], "attempts") {
			t.Errorf("lease after the stop: owner %q, properties %v", l.owner, l.properties)
		}
		close(end)
	})
}

// After a stop the host holds nothing and has no problem, whatever the stop interrupted.
func TestStatusAfterStopIsEmpty(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"idle":                       {Delay: time.Millisecond},
		"list of leases interrupted": {Method: http.MethodPost, Path: "/colls/leases/docs$", Delay: time.Hour},
		"list of leases fails":       {Method: http.MethodPost, Path: "/colls/leases/docs$", Status: 503},
		"range cools down":           {Header: map[string]string{"A-IM": ".+"}, Status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 4, func(t *testing.T, w *world) {
				w.writeMany("doc", 20)
				h := w.host("a", w.recorder("a"), withoutLogger)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- h.Run(ctx) }()
				time.Sleep(time.Minute)
				if l := h.Status().Functions[0].Leases; l.Held != 4 {
					t.Errorf("leases while it runs: %+v", l)
				}
				defer w.account.Inject(fault)()
				time.Sleep(50 * time.Second)
				cancel()
				must(t, <-done)
				if f := h.Status().Functions[0]; f.Problem != "" || f.Leases != (LeaseCounts{}) || len(f.Ranges) > 0 {
					t.Errorf("status after Run has returned nil: %+v", f)
				}
			})
		})
	}
}

// bodyOf returns the body of a request, which can still be sent.
func bodyOf(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	must(t, err)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body)
}

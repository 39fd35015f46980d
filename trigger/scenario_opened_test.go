package trigger

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
	"halley/trigger/stall"
)

// openings records calls of Opened and Closed, and checks that they do not overlap with
// each other, nor with deliveries.
type openings struct {
	t *testing.T

	mu      sync.Mutex
	opening map[string]bool // owner and range: the call runs
	causes  []error         // of calls whose context ended
	opened  int
	closed  []CloseReason
}

// watch has a function's Opened take d, or ignore the end of its context until ignored is
// closed.
func (o *openings) watch(owner string, d time.Duration, ignored <-chan struct{}) func(*Function, *Options) {
	return func(f *Function, _ *Options) {
		f.Opened = func(ctx context.Context, r RangeInfo) {
			o.set(owner+r.Range.ID, true)
			if ignored != nil {
				<-ignored
			}
			err := backoff.Sleep(ctx, d)
			o.set(owner+r.Range.ID, false)
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.opened++; err != nil {
				o.causes = append(o.causes, err)
			}
		}
		f.Closed = func(r RangeInfo, reason CloseReason, _ error) {
			o.check("Closed", owner+r.Range.ID)
			o.mu.Lock()
			defer o.mu.Unlock()
			o.closed = append(o.closed, reason)
		}
		handle := f.Handler
		f.Handler = func(ctx context.Context, b Batch) error {
			o.check("delivery", owner+b.Range.ID)
			return handle(ctx, b)
		}
	}
}

func (o *openings) set(key string, runs bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opening == nil {
		o.opening = map[string]bool{}
	}
	o.opening[key] = runs
}

func (o *openings) check(call, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opening[key] {
		o.t.Errorf("%s of %s while Opened runs", call, key)
	}
}

// Opened takes longer than a lease lasts without a write: its host keeps the range, and
// delivers afterwards.
func TestLongOpenedKeepsTheRange(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		calls := &openings{t: t}
		stopA := w.startHost(w.host("a", w.recorder("a"), calls.watch("a", 75*time.Second, nil)))
		stopB := w.startHost(w.host("b", w.recorder("b"), calls.watch("b", 75*time.Second, nil)))
		time.Sleep(74 * time.Second)
		if n := w.deliveryCount(); n > 0 {
			t.Errorf("%d changes delivered before Opened has returned", n)
		}
		time.Sleep(3 * time.Minute)
		w.checkComplete(0)
		time.Sleep(time.Hour)
		if n := w.eventCount(EventAcquired); n > 4 {
			t.Errorf("2 ranges were acquired %d times", n)
		}
		stopA()
		stopB()
		if closed := w.eventCount(EventReleased); len(calls.closed) != closed || calls.opened != closed {
			t.Errorf("%d calls of Opened and %d of Closed for %d releases", calls.opened, len(calls.closed), closed)
		}
	})
}

func TestStopEndsOpened(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		calls := &openings{t: t}
		if took := w.stopTime(w.host("a", w.recorder("a"), calls.watch("a", time.Hour, nil)), time.Minute); took > time.Second {
			t.Errorf("Run returned %v after the stop", took)
		}
		if len(calls.causes) != 2 || !slices.Equal(calls.closed, []CloseReason{ClosedStopped, ClosedStopped}) {
			t.Errorf("contexts ended with %v, Closed with %v", calls.causes, calls.closed)
		}
		if n := w.deliveryCount(); n > 0 || w.leasesByOwner()["a"] > 0 {
			t.Errorf("%d changes delivered, leases %v", n, w.leasesByOwner())
		}
	})
}

// Opened ignores the end of its context. The stop takes no longer than its grace, and Closed
// is not called next to it.
func TestStopLeavesOpenedBehind(t *testing.T) {
	for name, stuckGrace := range map[string]time.Duration{"grace of the stop": time.Hour, "grace of stuck calls": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(t *testing.T, w *world) {
				w.writeMany("doc", 20)
				calls, ignored := &openings{t: t}, make(chan struct{})
				defer close(ignored)
				h := w.host("a", w.recorder("a"), calls.watch("a", 0, ignored), withoutLogger, func(_ *Function, o *Options) { o.StuckGrace = stuckGrace })
				if took := w.stopTime(h, time.Minute); took > min(stuckGrace, 10*time.Second)+time.Second {
					t.Errorf("Run returned %v after the stop", took)
				}
				if len(calls.closed) > 0 || w.deliveryCount() > 0 || w.leasesByOwner()["a"] > 0 {
					t.Errorf("Closed with %v, %d delivered, leases %v", calls.closed, w.deliveryCount(), w.leasesByOwner())
				}
			})
		})
	}
}

// Another host gets its share while Opened runs, and a call that is left behind then
// counts against MaxStuck.
func TestHandoverEndsOpened(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		calls := &openings{t: t}
		stopA := w.startHost(w.host("a", w.recorder("a"), calls.watch("a", time.Hour, nil)))
		time.Sleep(time.Minute)
		stopB := w.startHost(w.host("b", w.recorder("b")))
		time.Sleep(time.Minute)
		if got := w.leasesByOwner(); got["a"] != 1 || got["b"] != 1 {
			t.Errorf("owners %v", got)
		}
		stopA()
		stopB()
		if len(calls.closed) != 2 || calls.closed[0] != ClosedHandedOver {
			t.Errorf("Closed with %v", calls.closed)
		}
	})
	inWorld(t, 2, func(t *testing.T, w *world) {
		calls, ignored := &openings{t: t}, make(chan struct{})
		defer close(ignored)
		h := w.host("a", w.recorder("a"), calls.watch("a", 0, ignored), withoutLogger, func(_ *Function, o *Options) { o.MaxStuck = 1 })
		done := make(chan error, 1)
		go func() { done <- h.Run(t.Context()) }()
		time.Sleep(time.Minute)
		for token := range w.leaseDocuments() {
			w.takeLease(token, "thief")
		}
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "do not return") {
				t.Errorf("Run returned %v", err)
			}
		default:
			t.Error("two calls are left behind, at most one is allowed, and Run has not returned")
		}
	})
}

func TestLostLeaseEndsOpened(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		calls := &openings{t: t}
		stop := w.startHost(w.host("a", w.recorder("a"), calls.watch("a", time.Hour, nil)))
		time.Sleep(time.Minute)
		w.takeLease("0", "thief")
		time.Sleep(20 * time.Second)
		if calls.mu.Lock(); !slices.Equal(calls.closed, []CloseReason{ClosedLeaseLost}) {
			t.Errorf("Closed with %v", calls.closed)
		}
		calls.mu.Unlock()
		stop()
	})
}

// takeLease makes another host the owner of a lease, whoever has it.
func (w *world) takeLease(token, owner string) {
	w.t.Helper()
	l := w.leaseDocuments()[token]
	l.owner, l.properties[incarnationProperty] = owner, owner
	w.replaceLease(l)
}

// Pages are read while Opened runs, and the status says that the range waits for it.
func TestStatusShowsLongOpened(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		calls := &openings{t: t}
		h := w.host("a", w.recorder("a"), calls.watch("a", 10*time.Minute, nil), withoutLogger)
		stop := w.startHost(h)
		time.Sleep(30 * time.Second)
		if r := h.Status().Functions[0].Ranges[0]; len(r.Stalls) != 1 || r.Stalls[0].Kind != stall.Opening || !strings.Contains(r.Problem, "waiting for Opened for 30s") {
			t.Errorf("after 30 s: %+v", r)
		}
		time.Sleep(9 * time.Minute)
		if stalled, recovered := w.eventCount(EventStalled), w.eventCount(EventRecovered); stalled != 1 || recovered != 0 {
			t.Errorf("%d events say that the range is stalled, %d that it has recovered", stalled, recovered)
		}
		time.Sleep(time.Minute)
		if r := h.Status().Functions[0].Ranges[0]; r.Problem != "" || w.eventCount(EventRecovered) != 1 {
			t.Errorf("after Opened: %+v", r)
		}
		stop()
		w.checkComplete(0)
	})
}

package trigger

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
	"halley/trigger/stall"
)

// flushes are a function's calls of Flush on a sink that asks for no checkpoint before.
type flushes struct {
	*bufferingSink
	do func(ctx context.Context) error // the sink flushes if it returns nil; nil returns nil at once

	mu     sync.Mutex
	began  []time.Time
	causes []error // of calls whose context had ended when they returned
	closed []CloseReason
}

func newFlushes(do func(ctx context.Context) error) *flushes {
	return &flushes{bufferingSink: &bufferingSink{flushed: map[string]bool{}}, do: do}
}

// use has a function keep its changes in memory until Flush.
func (s *flushes) use(f *Function, _ *Options) {
	f.Checkpoint = Checkpoint{Manual: true}
	f.Flush = s.flush
	f.Closed = func(_ RangeInfo, reason CloseReason, _ error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = append(s.closed, reason)
	}
}

func (s *flushes) handle(_ context.Context, b Batch) error {
	s.keep(b)
	return nil
}

func (s *flushes) flush(ctx context.Context, _ RangeInfo) error {
	s.mu.Lock()
	s.began = append(s.began, time.Now())
	s.mu.Unlock()
	var err error
	if s.do != nil {
		err = s.do(ctx)
	}
	if ctx.Err() != nil {
		s.mu.Lock()
		s.causes = append(s.causes, context.Cause(ctx))
		s.mu.Unlock()
	}
	if err == nil {
		s.flushAll()
	}
	return err
}

func (s *flushes) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.began)
}

// drainRest drains what is left with another sink, and returns the changes that were
// delivered again.
func (w *world) drainRest() (repeats int) {
	w.t.Helper()
	handled := w.changesIn(EventDelivered)
	_, err := w.host("next", w.recorder("next"), manualCheckpoints).Drain(w.t.Context())
	must(w.t, err)
	return w.changesIn(EventDelivered) - handled
}

// A sink keeps everything in memory, and the work on its range ends in good order. Flush is
// called while the host still has the lease, and nothing is delivered again.
func TestFlushIsCalledBeforeTheEnd(t *testing.T) {
	mend := func() {}
	for reason, end := range map[CloseReason]func(t *testing.T, w *world){
		ClosedStopped: func(*testing.T, *world) {},
		ClosedHandedOver: func(_ *testing.T, w *world) {
			w.requestHandover(w.leaseDocuments()["0"], "b")
		},
		ClosedPaused: func(t *testing.T, w *world) {
			c := w.control(nil)
			plan, err := c.PlanPause(t.Context(), "sink is being moved")
			w.apply(c, plan, err)
		},
		ClosedBroken: func(_ *testing.T, w *world) {
			mend = w.account.Inject(emulator.Fault{Method: http.MethodGet, Header: map[string]string{"A-IM": "."}, Status: 403})
		},
	} {
		t.Run(string(reason), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.writeMany("doc", 20)
				s := newFlushes(func(context.Context) error {
					if l := w.leaseDocuments()["0"]; l == nil || l.owner != "a" {
						t.Errorf("lease %+v while Flush runs", l)
					}
					return nil
				})
				stop := w.startHost(w.host("a", s.handle, s.use, withoutLogger))
				time.Sleep(time.Minute)
				if n := w.eventCount(EventCheckpointed); n > 0 || s.calls() > 0 {
					t.Errorf("%d checkpoints and %d calls of Flush before the end", n, s.calls())
				}
				end(t, w)
				for range 600 {
					if time.Sleep(time.Second); reason == ClosedStopped || w.eventCount(EventReleased) > 0 {
						break
					}
				}
				stop()
				mend()
				if len(s.closed) == 0 || s.closed[0] != reason || s.calls() != 1 {
					t.Errorf("closed %v, %d calls of Flush", s.closed, s.calls())
				}
				if got := w.eventsOf(EventFlushed); len(got) != 1 || got[0].Err != nil {
					t.Errorf("events %+v", got)
				}
				if reason == ClosedPaused {
					c := w.control(nil)
					plan, err := c.PlanResume(t.Context())
					w.apply(c, plan, err)
				}
				if repeats := w.drainRest(); repeats > 0 || len(s.flushed) != 20 {
					t.Errorf("%d flushed, %d delivered again", len(s.flushed), repeats)
				}
			})
		})
	}
}

// A drain flushes each range that had changes, and no other. The release saves the position:
// a flush costs no lease write.
func TestDrainFlushesRangesWithChanges(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var writes atomic.Int64
		w.onRequest = func(r *http.Request) {
			if r.Method == http.MethodPut {
				writes.Add(1)
			}
		}
		s := newFlushes(nil)
		h := w.host("a", s.handle, s.use)
		for i := range 3 {
			w.write("player", "doc")
			oldWrites := writes.Load()
			_, err := h.Drain(t.Context())
			must(t, err)
			if got := s.calls(); got != i+1 {
				t.Errorf("%d calls of Flush after %d drains of a range with changes", got, i+1)
			}
			if n := writes.Load() - oldWrites; i > 0 && n != 2 {
				t.Errorf("%d lease writes for a drain of one range, want the acquisition and the release", n)
			}
		}
		if repeats := w.drainRest(); repeats > 0 {
			t.Errorf("%d delivered again", repeats)
		}
	})
}

// Flush comes before the children of a split: they begin behind the flushed changes.
func TestFlushIsCalledBeforeASplit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		s := newFlushes(func(ctx context.Context) error {
			if n := len(w.leaseDocuments()); n != 1 && w.eventCount(EventSplit) == 0 {
				t.Errorf("%d leases while Flush of the parent runs", n)
			}
			return backoff.Sleep(ctx, time.Second)
		})
		stop := w.startHost(w.host("a", s.handle, s.use))
		time.Sleep(time.Minute)
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		if s.calls() != 1 || w.eventCount(EventSplit) != 1 {
			t.Errorf("%d calls of Flush, %d splits", s.calls(), w.eventCount(EventSplit))
		}
		w.writeMany("more", 20)
		time.Sleep(time.Minute)
		stop()
		if n := w.changesIn(EventDelivered); n != 40 || s.calls() != 3 {
			t.Errorf("%d of 40 changes delivered, %d calls of Flush for 3 ranges", n, s.calls())
		}
		if repeats := w.drainRest(); repeats > 0 {
			t.Errorf("%d delivered again", repeats)
		}
	})
}

// Flush fails: its changes are delivered again, and the event, the lease and the summary of
// the drain say why.
func TestFailedFlushIsToldAndLosesNothing(t *testing.T) {
	for name, do := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("disk is full, key=?sig=secret") },
		"panic": func(context.Context) error { panic("disk is full") },
		"the end of its goroutine": func(context.Context) error {
			runtime.Goexit()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.writeMany("doc", 20)
				s := newFlushes(do)
				summary, err := w.host("a", s.handle, s.use, withoutLogger).Drain(t.Context())
				must(t, err)
				want := "Flush: "
				if name != "the end of its goroutine" {
					want = "disk is full"
				}
				if !strings.Contains(summary.Problem, "changes not flushed: ") || !strings.Contains(summary.Problem, want) || summary.Drained != 1 {
					t.Errorf("summary %+v", summary)
				}
				if got := w.eventsOf(EventFlushed); len(got) != 1 || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), want) {
					t.Errorf("events %+v", got)
				}
				if l := w.leaseDocuments()["0"]; l.continuation != "" || l.owner != "" {
					t.Errorf("lease %+v", l)
				}
				kinds, lag := w.stallsOf("0")
				if !slices.Equal(kinds, []stall.Kind{stall.Flushing}) || !strings.Contains(lag.Stalls[0].Describe(time.Now()), "changes not flushed") || strings.Contains(lag.Stalls[0].Text, "secret") {
					t.Errorf("lag %+v", lag)
				}
				s.do = nil
				must(t, errors.Join(w.drainWith(s)))
				if kinds, _ := w.stallsOf("0"); len(kinds) > 0 || w.changesIn(EventDelivered) != 40 {
					t.Errorf("after a good flush: stalls %v, %d delivered", kinds, w.changesIn(EventDelivered))
				}
				if repeats := w.drainRest(); repeats > 0 || len(s.flushed) != 20 {
					t.Errorf("%d flushed, %d delivered again", len(s.flushed), repeats)
				}
			})
		})
	}
}

func (w *world) drainWith(s *flushes) error {
	_, err := w.host("a", s.handle, s.use).Drain(w.t.Context())
	return err
}

// The release after a failed flush takes longer than StallAfter, in a function with a rate.
func TestFailedFlushIsTheStallOfALimitedFunction(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		s := newFlushes(func(context.Context) error {
			w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/docs/", Delay: 3 * time.Second})
			return errors.New("disk is full")
		})
		_, err := w.host("a", s.handle, s.use, withoutLogger, func(f *Function, _ *Options) { f.Rate, f.StallAfter = 100, time.Second }).Drain(t.Context())
		must(t, err)
		if got := w.eventsOf(EventStalled); len(got) != 1 || got[0].Stall.Kind != stall.Flushing {
			t.Errorf("stalls %+v", got)
		}
	})
}

// A host stops while Flush takes its time. Its context ends with the grace of the stop, and
// the stop takes no longer, also if Flush ignores that.
func TestStopEndsFlush(t *testing.T) {
	ignored := make(chan struct{})
	for name, test := range map[string]struct {
		do     func(ctx context.Context) error
		took   [2]time.Duration
		closed int
	}{
		"waits for the end":      {func(ctx context.Context) error { return backoff.Sleep(ctx, time.Hour) }, [2]time.Duration{9 * time.Second, 10 * time.Second}, 1},
		"nil after the end":      {func(ctx context.Context) error { <-ctx.Done(); return nil }, [2]time.Duration{9 * time.Second, 10 * time.Second}, 1},
		"is quick":               {nil, [2]time.Duration{0, time.Second}, 1},
		"ignores its context":    {func(context.Context) error { <-ignored; return nil }, [2]time.Duration{10 * time.Second, 11 * time.Second}, 0},
		"ignores it for a while": {func(context.Context) error { time.Sleep(9500 * time.Millisecond); return nil }, [2]time.Duration{9500 * time.Millisecond, 10500 * time.Millisecond}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				ignored = make(chan struct{})
				defer func() { close(ignored) }()
				w.writeMany("doc", 20)
				s := newFlushes(test.do)
				h := w.host("a", s.handle, s.use, withoutLogger, func(_ *Function, o *Options) { o.StuckGrace = time.Hour })
				if took := w.stopTime(h, time.Minute); took < test.took[0] || took > test.took[1] {
					t.Errorf("Run returned %v after the stop", took)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if len(s.closed) != test.closed || w.leaseDocuments()["0"].owner != "" {
					t.Errorf("closed %v, lease %+v", s.closed, w.leaseDocuments()["0"])
				}
				failed := w.eventsOf(EventFlushed)[0].Err != nil
				if repeats := w.drainRest(); repeats != map[bool]int{true: 20}[failed] || failed == s.flushed["doc0"] {
					t.Errorf("Flush failed: %v; flushed: %v; %d delivered again", failed, s.flushed["doc0"], repeats)
				}
			})
		})
	}
}

// A handler call takes all of its time at a stop. A tenth of the grace is left for Flush.
func TestFlushFollowsALateCall(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		s := newFlushes(func(ctx context.Context) error { return backoff.Sleep(ctx, 500*time.Millisecond) })
		h := w.host("a", func(ctx context.Context, b Batch) error {
			<-ctx.Done()
			s.keep(b)
			return nil
		}, s.use, func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 20 })
		if took := w.stopTime(h, 20*time.Second); took > 9*time.Second {
			t.Errorf("Run returned %v after the stop", took)
		}
		if repeats := w.drainRest(); repeats > 0 || len(s.flushed) != 20 {
			t.Errorf("%d flushed, %d delivered again", len(s.flushed), repeats)
		}
	})
}

// Flush hangs at the end of a drain: it is left behind, and the range is told as stuck.
func TestHungFlushIsLeftBehind(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		end := make(chan struct{})
		defer close(end)
		s := newFlushes(func(context.Context) error { <-end; return nil })
		began := time.Now()
		summary, err := w.host("a", s.handle, s.use, withoutLogger, func(f *Function, _ *Options) { f.HandlerTimeout = time.Minute }).Drain(t.Context())
		must(t, err)
		if took := time.Since(began).Round(time.Second); took != 70*time.Second || summary.Behind != 1 || !strings.Contains(summary.Problem, "Flush: ") {
			t.Errorf("the drain took %v: %+v", took, summary)
		}
		if got := w.eventsOf(EventReleased); len(got) != 1 || got[0].Reason != ClosedStuck || len(s.closed) > 0 {
			t.Errorf("released %+v, Closed with %v", got, s.closed)
		}
		if repeats := w.drainRest(); repeats != 20 {
			t.Errorf("%d delivered again", repeats)
		}
	})
}

// Another host requests an idle range whose Flush takes three minutes. The lease outlasts its
// expiration, and the other host gets it behind the flushed changes.
func TestLongFlushKeepsTheLease(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 40)
		s := newFlushes(func(ctx context.Context) error { return backoff.Sleep(ctx, 3*time.Minute) })
		long := func(_ *Function, o *Options) { o.StopGrace = 10 * time.Minute }
		hostA := w.host("a", s.handle, s.use, long, withoutLogger, func(f *Function, _ *Options) { f.StallAfter = 2 * time.Minute })
		stopA := w.startHost(hostA)
		time.Sleep(time.Minute)
		stopB := w.startHost(w.host("b", w.recorder("b"), manualCheckpoints))
		time.Sleep(119 * time.Second)
		if got := w.leasesByOwner(); got["a"] != 2 || s.calls() != 1 {
			t.Errorf("owners %v after %d calls of Flush", got, s.calls())
		}
		var problems string
		var told []EventKind
		for _, r := range hostA.Status().Functions[0].Ranges {
			problems += r.Problem
		}
		if !strings.Contains(problems, "changes not flushed for 1m") {
			t.Errorf("status says %q", problems)
		}
		time.Sleep(21 * time.Second) // the stall is told
		mend := w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/docs/", Status: 429, RetryAfter: time.Second})
		time.Sleep(20 * time.Second)
		mend() // a lease write that succeeds again does not end the stall
		time.Sleep(50 * time.Second)
		if got := w.leasesByOwner(); got["a"] != 1 || got["b"] != 1 {
			t.Errorf("owners %v", got)
		}
		for _, e := range slices.Concat(w.eventsOf(EventStalled), w.eventsOf(EventRecovered)) {
			if e.Stall.Kind == stall.Flushing {
				told = append(told, e.Kind)
				if e.Kind == EventRecovered && e.Lasting < 3*time.Minute {
					t.Errorf("recovered after %v", e.Lasting)
				}
			}
		}
		if !slices.Equal(told, []EventKind{EventStalled, EventRecovered}) {
			t.Errorf("events %v", told)
		}
		stopA()
		stopB()
		if repeats := w.drainRest(); repeats > 0 || w.changesIn(EventDelivered) != 40 {
			t.Errorf("%d delivered, %d again", w.changesIn(EventDelivered), repeats)
		}
	})
}

package trigger

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/stall"
)

// changesIn returns the sum of the changes of events of a kind.
func (w *world) changesIn(kind EventKind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			n += e.Changes
		}
	}
	return n
}

// A range is acquired, delivers, retries, gives up, postpones, filters, stalls, recovers,
// catches up and splits, and its children are released: each kind of event tells its step.
func TestEventsTellTheLifeOfARange(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var mended atomic.Bool
		record := w.recorder("a")
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			switch c := b.Changes[0]; {
			case c.ID() == "poison":
				return Skip(errPoison)
			case c.ID() == "later" && b.Attempt == 1:
				return RetryAfter(errors.New("not yet"), 10*time.Second)
			case c.ID() == "broken" && !mended.Load():
				return errors.New("sink is down")
			}
			return record(ctx, b)
		}, withoutLogger, func(f *Function, _ *Options) {
			f.DeadLetters, f.MaxItemsPerInvocation, f.MaxAttempts, f.StallAfter = &memoryStore{}, 1, -1, 20*time.Second
			f.Filter = Filter{`{"player": [{"anything-but": ["filtered"]}]}`}
		}))
		for _, id := range []string{"good", "filtered", "poison", "later"} {
			w.write(id, id)
		}
		time.Sleep(time.Minute)
		w.write("broken", "broken")
		time.Sleep(time.Minute)
		mended.Store(true)
		time.Sleep(time.Minute)
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		stop()
		for kind, want := range map[EventKind]int{
			EventAcquired: 3, EventReleased: 3, EventCaughtUp: 3, EventSplit: 1, EventStalled: 1, EventRecovered: 1,
			EventDeadLettered: 1, EventPostponed: 1, EventFiltered: 1, EventDelivered: 3,
		} {
			if n := w.eventCount(kind); n != want {
				t.Errorf("%d events of kind %q, want %d", n, kind, want)
			}
		}
		for _, kind := range []EventKind{EventDelivered, EventDeadLettered, EventPostponed, EventFiltered} {
			if n := w.changesIn(kind); n != w.eventCount(kind) {
				t.Errorf("%d changes in %d events of kind %q", n, w.eventCount(kind), kind)
			}
		}
		if failed, saved := w.eventCount(EventDeliveryFailed), w.eventCount(EventCheckpointed); failed < 5 || saved < 2 {
			t.Errorf("%d failures and %d checkpoints are told", failed, saved)
		}
		for _, e := range w.events {
			switch {
			case e.Function != "test" || e.Range == "" || e.Epoch == 0 || e.Time.IsZero():
				t.Errorf("event %+v does not name its range", e)
			case e.Kind == EventSplit && len(e.Children) != 2, e.Kind == EventDeliveryFailed && e.Err == nil, e.Kind == EventCheckpointed && e.Continuation == "",
				(e.Kind == EventStalled || e.Kind == EventRecovered) && (e.Stall == nil || e.Stall.Kind != stall.HandlerFails), e.Kind == EventPostponed && e.Due.IsZero():
				t.Errorf("event %+v says too little", e)
			}
		}
	})
}

// Function.Closed and the event tell why a host stopped working on a range.
func TestClosedTellsItsReason(t *testing.T) {
	for _, test := range []struct {
		reason  CloseReason
		orderly bool
		end     func(t *testing.T, w *world, h *Host)
		change  func(*Function, *Options)
	}{
		{reason: ClosedStopped, orderly: true, end: func(*testing.T, *world, *Host) {}},
		{reason: ClosedGone, orderly: true, end: func(t *testing.T, w *world, _ *Host) {
			_, err := w.account.Split("db", "items", "0")
			must(t, err)
		}},
		{reason: ClosedHandedOver, orderly: true, end: func(_ *testing.T, w *world, _ *Host) {
			w.requestHandover(w.leaseDocuments()["0"], "b")
		}},
		{reason: ClosedPaused, orderly: true, end: func(t *testing.T, w *world, _ *Host) {
			c := w.control(nil)
			plan, err := c.PlanPause(t.Context(), "sink is being moved")
			w.apply(c, plan, err)
		}},
		{reason: ClosedLeaseLost, end: func(_ *testing.T, w *world, _ *Host) {
			l := w.leaseDocuments()["0"]
			l.owner = "b"
			w.replaceLease(l)
		}},
		{reason: ClosedStuck, end: func(_ *testing.T, w *world, _ *Host) { w.write("hangs", "hangs") },
			change: func(f *Function, _ *Options) { f.HandlerTimeout = time.Second }},
		{reason: ClosedBroken, end: func(t *testing.T, w *world, _ *Host) {
			mend := w.account.Inject(emulator.Fault{Method: http.MethodGet, Header: map[string]string{"A-IM": "."}, Status: 403})
			t.Cleanup(mend)
		}},
	} {
		t.Run(string(test.reason), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				release := make(chan struct{})
				record := w.recorder("a")
				var mu sync.Mutex // ranges close at once
				var reasons []CloseReason
				var causes []error
				h := w.host("a", func(ctx context.Context, b Batch) error {
					if b.Changes[0].ID() == "hangs" {
						<-release
					}
					return record(ctx, b)
				}, withoutLogger, func(f *Function, _ *Options) {
					f.Closed = func(_ RangeInfo, reason CloseReason, err error) {
						mu.Lock()
						defer mu.Unlock()
						reasons, causes = append(reasons, reason), append(causes, err)
					}
				}, func(f *Function, o *Options) {
					if test.change != nil {
						test.change(f, o)
					}
				})
				w.write("doc", "doc")
				stop := w.startHost(h)
				time.Sleep(time.Minute)
				test.end(t, w, h)
				if test.reason != ClosedStopped {
					for range 300 {
						if time.Sleep(time.Second); w.eventCount(EventReleased) > 0 {
							break
						}
					}
				}
				close(release)
				stop()
				if len(reasons) == 0 || reasons[0] != test.reason || (causes[0] == nil) != test.orderly {
					t.Errorf("closed because of %q: %v", reasons, causes)
				}
				if hung := (*HungError)(nil); errors.As(causes[0], &hung) != (test.reason == ClosedStuck) || errors.Is(causes[0], ErrLeaseLost) != (test.reason == ClosedLeaseLost) {
					t.Errorf("closed with %v", causes[0])
				}
				for _, e := range w.events {
					if e.Kind == EventReleased {
						if e.Reason != test.reason {
							t.Errorf("released because of %q", e.Reason)
						}
						break
					}
				}
			})
		})
	}
}

// A range that cannot be read is a stall of its own kind, and not one of the throttled
// container.
func TestUnreadableFeedIsNamed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"), withoutLogger)
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		mend := w.account.Inject(emulator.Fault{Method: http.MethodGet, Header: map[string]string{"A-IM": "."}, Status: 500})
		w.write("doc", "doc")
		found := false
		for range 60 {
			time.Sleep(time.Second)
			for _, r := range h.Status().Functions[0].Ranges {
				found = found || len(r.Stalls) == 1 && r.Stalls[0].Kind == stall.FeedFails && strings.Contains(r.Problem, "feed not readable for")
			}
		}
		if !found {
			t.Error("the status does not name the feed")
		}
		mend()
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(0)
	})
}

// Changes wait, and no host has the range: other machines say so when the oldest change
// is older than an expiration.
func TestRangeWithoutOwnerIsNamed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		w.write("doc", "doc")
		time.Sleep(50 * time.Second)
		if kinds, l := w.stallsOf("0"); len(kinds) != 0 {
			t.Errorf("after 50 s: %v, %q", kinds, l.Problem)
		}
		time.Sleep(time.Minute)
		if kinds, l := w.stallsOf("0"); len(kinds) != 1 || kinds[0] != stall.NoOwner || !strings.Contains(l.Problem, "without an owner for 1m") {
			t.Errorf("after 110 s: %v, %q", kinds, l.Problem)
		}
	})
}

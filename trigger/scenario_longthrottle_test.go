package trigger

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/stall"
)

// The service throttles all reads for ten minutes and answers so slowly that a read's
// time ends during an attempt; some answers get lost. The ranges keep their leases, their
// status says throttled, and they continue when the throttle ends.
func TestLongThrottleKeepsItsRanges(t *testing.T) {
	for _, test := range []struct {
		status      int
		delay, wait time.Duration
		lost        float64 // share of the answers
	}{
		{429, 5 * time.Second, 0, 0}, {429, 20 * time.Second, 2 * time.Second, 0}, {429, 100 * time.Millisecond, time.Second, 0.5},
		{449, 5 * time.Second, 2 * time.Second, 0}, {503, 5 * time.Second, 0, 0}, {503, 100 * time.Millisecond, 0, 0.5},
	} {
		for _, functions := range []int{1, 2} { // two share their reads
			t.Run(fmt.Sprintf("%+v %d", test, functions), func(t *testing.T) {
				inWorld(t, 2, func(t *testing.T, w *world) {
					all := []Function{{FeedSource: FeedSource{Name: "test"}, Handler: w.recorder("a")}, {FeedSource: FeedSource{Name: "other"}, Handler: w.recorder("b")}}
					h := w.hostOf(t, Options{Observers: []func(Event){w.recordEvent}}, all[:functions]...)
					stop := w.startHost(h)
					time.Sleep(time.Minute)
					lost := emulator.Fault{Method: http.MethodGet, Drop: emulator.DropAfter, Probability: test.lost}
					if test.lost > 0 {
						defer w.account.Inject(lost)()
					}
					throttled := emulator.Fault{Method: http.MethodGet, Status: test.status, RetryAfter: test.wait, Delay: test.delay}
					endThrottle := w.account.Inject(throttled)
					w.writeMany("doc", 20)
					time.Sleep(2 * time.Minute)
					for range 16 {
						time.Sleep(30 * time.Second)
						w.checkThrottled(h)
					}
					endThrottle()
					lost.Probability = 1 // one read fails otherwise
					endLoss := w.account.Inject(lost)
					time.Sleep(40 * time.Second)
					endLoss()
					time.Sleep(time.Minute)
					if n := w.eventCount(EventReleased); n > 0 {
						t.Errorf("%d ranges released", n)
					}
					if n := w.deliveryCount(); n != functions*20 {
						t.Errorf("%d delivered", n)
					}
					stop()
				})
			})
		}
	}
}

// checkThrottled checks that the two ranges of each function are held and throttled.
func (w *world) checkThrottled(h *Host) {
	w.t.Helper()
	for _, f := range h.Status().Functions {
		if len(f.Ranges) != 2 {
			w.t.Errorf("function %s has the ranges %+v", f.Name, f.Ranges)
		}
		for _, r := range f.Ranges {
			if r.Cooldown || len(r.Stalls) != 1 || r.Stalls[0].Kind != stall.FeedThrottled {
				w.t.Errorf("range %s of %s: %+v, %s", r.Range, f.Name, r.Stalls, r.Problem)
			}
		}
	}
}

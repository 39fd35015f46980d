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
		loss        bool // every second answer about a range is lost
	}{
		{429, 5 * time.Second, 0, false}, {429, 20 * time.Second, 2 * time.Second, false}, {429, 100 * time.Millisecond, time.Second, true},
		{449, 5 * time.Second, 2 * time.Second, false}, {503, 5 * time.Second, 0, false}, {503, 100 * time.Millisecond, 0, true},
	} {
		for _, functions := range []int{1, 2} { // two share their reads
			t.Run(fmt.Sprintf("%+v %d", test, functions), func(t *testing.T) {
				inWorld(t, 2, func(t *testing.T, w *world) {
					all := []Function{{FeedSource: FeedSource{Name: "test"}, Handler: w.recorder("a")}, {FeedSource: FeedSource{Name: "other"}, Handler: w.recorder("b")}}
					h := w.hostOf(t, Options{Observers: []func(Event){w.recordEvent}}, all[:functions]...)
					stop := w.startHost(h)
					time.Sleep(time.Minute)
					if test.loss {
						defer w.account.Inject(emulator.Fault{Method: http.MethodGet, Drop: emulator.DropAfter, Match: everySecondOfRange()})()
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
					endLoss := w.account.Inject(emulator.Fault{Method: http.MethodGet, Drop: emulator.DropAfter}) // one read fails otherwise
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

// everySecondOfRange matches every second request about each range, so that the answers in
// between say that the service throttles.
func everySecondOfRange() func(*http.Request) bool {
	seen := map[string]int{}
	return func(r *http.Request) bool { // the account's faults are matched one request at a time
		name := r.Header.Get("X-Ms-Documentdb-Partitionkeyrangeid")
		seen[name]++
		return seen[name]%2 == 0
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

package trigger

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
)

// A host that gets no work because of its lease container says what it waits for, whether the
// container throttles, refuses or does not answer, and whether that began before the host
// started or later.
func TestHostSaysThatItWaitsForItsLeaseContainer(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, 0} {
		for _, healthy := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprint(status, " after ", healthy), func(t *testing.T) {
				inWorld(t, 1, func(t *testing.T, w *world) {
					var broken atomic.Bool
					h := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
						if status == 0 && broken.Load() && strings.Contains(r.URL.Path, "/colls/leases") {
							return loseRequest(r)
						}
						return nil, nil, false
					}}, "a", w.recorder("a"), withoutLogger)
					mend := func() {}
					fail := func() {
						broken.Store(true)
						if status != 0 {
							mend = w.account.Inject(emulator.Fault{Path: "/colls/leases", Status: status, RetryAfter: time.Second})
						}
					}
					if healthy == 0 {
						fail()
					}
					stop := w.startHost(h)
					time.Sleep(healthy)
					if healthy > 0 {
						fail()
					}
					for second := range 300 {
						time.Sleep(time.Second)
						if p := h.Status().Functions[0].Problem; second >= 25 && !strings.Contains(p, "leases") {
							t.Errorf("problem %q after %d s", p, second)
							break
						}
					}
					mend()
					broken.Store(false)
					time.Sleep(3 * time.Minute)
					if p := h.Status().Functions[0].Problem; p != "" {
						t.Errorf("problem %q after the recovery", p)
					}
					stop()
				})
			})
		}
	}
}

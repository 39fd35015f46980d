package trigger

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/emulator"
)

// Lease writes are refused for longer than trust lasts. The leases are kept, no
// delivery begins meanwhile, and work resumes in the same epoch.
func TestRefusedLeaseWritesKeepTheLeases(t *testing.T) {
	for _, status := range []int{429, 449, 503} {
		inWorld(t, 4, func(t *testing.T, w *world) {
			logger, logged := recordLog(slog.LevelInfo)
			h := w.host("a", w.recorder("a"), func(_ *Function, o *Options) { o.Logger = logger })
			stop := w.startHost(h)
			time.Sleep(time.Minute)
			acquired := w.eventCount(EventAcquired)
			remove := w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/docs/", Status: status, RetryAfter: 2 * time.Second})
			time.Sleep(20 * time.Second)
			for _, r := range h.Status().Functions[0].Ranges {
				if !strings.Contains(r.Problem, "lease writes refused since 2000-01-01T00:01") {
					t.Errorf("%d: range %s has the problem %q", status, r.Range, r.Problem)
				}
			}
			time.Sleep(70 * time.Second)
			w.writeMany("doc", 40)
			time.Sleep(9 * time.Minute)
			if w.deliveryCount() > 0 {
				t.Errorf("%d: %d delivered without trust", status, w.deliveryCount())
			}
			remove()
			time.Sleep(15 * time.Second)
			w.checkComplete(0)
			if n := w.eventCount(EventAcquired) - acquired; n > 0 {
				t.Errorf("%d: %d new acquisitions", status, n)
			}
			for message, limit := range map[string]int{"lease writes refused": 1, "lease writes accepted": 1, "lease write failed": 0} {
				if n := logged.FilterMessageSnippet(message).Len(); n > limit || limit == 1 && n == 0 {
					t.Errorf("%d: %q logged %d times", status, message, n)
				}
			}
			for _, r := range h.Status().Functions[0].Ranges {
				if r.Problem != "" {
					t.Errorf("%d: range %s still has the problem %q", status, r.Range, r.Problem)
				}
			}
			stop()
		})
	}
}

// While lease writes are throttled, renewals go before checkpoints: busy ranges do
// not use up what idle ones need to be renewed. One write a second is accepted.
func TestRenewalsGoBeforeCheckpoints(t *testing.T) {
	inWorld(t, 8, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var limited bool
		var window time.Time
		written := map[string]time.Time{} // by path of the lease
		transport := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			mu.Lock()
			defer mu.Unlock()
			if !isLeaseReplace(r) {
				return nil, nil, false
			}
			if limited && time.Since(window) < time.Second {
				return &http.Response{
					StatusCode: http.StatusTooManyRequests, Header: http.Header{"X-Ms-Retry-After-Ms": {"100"}}, Body: http.NoBody, Request: r,
				}, nil, true
			}
			window, written[r.URL.Path] = time.Now(), time.Now()
			return nil, nil, false
		}}
		stop := w.startHost(w.hostOn(transport, "a", w.recorder("a"), func(_ *Function, o *Options) { o.Logger = slog.New(slog.DiscardHandler) }))
		time.Sleep(time.Minute)
		acquired := w.eventCount(EventAcquired)
		mu.Lock()
		limited = true
		mu.Unlock()
		for range 300 {
			w.write("busy", "a")
			w.write("other", "b")
			time.Sleep(time.Second)
			mu.Lock()
			for path, writeTime := range written {
				if age := time.Since(writeTime); age > 30*time.Second {
					t.Errorf("%s was not written for %v", path, age)
				}
			}
			mu.Unlock()
		}
		mu.Lock()
		limited = false
		mu.Unlock()
		time.Sleep(time.Minute)
		w.checkComplete(0)
		if n := w.eventCount(EventAcquired) - acquired; n > 0 {
			t.Errorf("%d new acquisitions", n)
		}
		stop()
	})
}

func TestThrottledFeedKeepsItsRanges(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a"), withoutLogger))
		time.Sleep(time.Minute)
		acquired := w.eventCount(EventAcquired)
		remove := w.account.Inject(emulator.Fault{Method: http.MethodGet, Header: map[string]string{"A-IM": "."}, Status: 429, RetryAfter: 2 * time.Second})
		w.writeMany("doc", 20)
		time.Sleep(30 * time.Minute)
		remove()
		time.Sleep(20 * time.Second)
		stop()
		w.checkComplete(0)
		if n := w.eventCount(EventAcquired) - acquired; n > 0 {
			t.Errorf("%d new acquisitions", n)
		}
	})
}

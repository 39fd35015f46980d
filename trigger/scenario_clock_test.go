package trigger

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

func TestOneWrongDateTakesNoLease(t *testing.T) {
	inWorld(t, 8, func(t *testing.T, w *world) {
		var wrong atomic.Int64 // answers left
		stopA := w.startHost(w.hostOn(hostNetwork{w: w}, "a", w.recorder("a")))
		time.Sleep(time.Second)
		stopB := w.startHost(w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			resp, err := w.account.Do(r)
			if err == nil && wrong.Add(-1) >= 0 {
				resp.Header.Set("Date", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
			}
			return resp, err, true
		}}, "b", w.recorder("b")))
		time.Sleep(5 * time.Minute)
		oldCount := w.eventCount(EventAcquired)
		for range 20 {
			wrong.Store(1)
			time.Sleep(14*time.Second + 300*time.Millisecond)
		}
		if n := w.eventCount(EventAcquired) - oldCount; n > 0 {
			t.Errorf("%d leases changed their owner", n)
		}
		stopA()
		stopB()
		w.checkComplete(0)
	})
}

package trigger

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/stall"
)

// A lease write that the service fails, or that gets no answer, is a problem of its range at once,
// with its cause, although the lease is read back and is still held.
func TestFailedLeaseWriteIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		says   string
	}{
		"500": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 500, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"code":"InternalServerError","message":"broken"}`)), Request: r}, nil
		}, "500"},
		"a lost connection": {func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") }, "connection reset"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				var fails atomic.Bool
				h := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
					if fails.Load() && isLeaseReplace(r) {
						resp, err := test.answer(r)
						return resp, err, true
					}
					return nil, nil, false
				}}, "a", w.recorder("a"), withoutLogger)
				stop := w.startHost(h)
				time.Sleep(time.Minute)
				fails.Store(true)
				time.Sleep(45 * time.Second) // a renewal and its retries
				stalls := h.Status().Functions[0].Ranges[0].Stalls
				if len(stalls) != 1 || stalls[0].Kind != stall.LeaseFails || !strings.Contains(stalls[0].Text, test.says) {
					t.Errorf("the status says %+v", stalls)
				}
				fails.Store(false)
				time.Sleep(30 * time.Second)
				if stalls := h.Status().Functions[0].Ranges[0].Stalls; len(stalls) > 0 {
					t.Errorf("the status still says %+v", stalls)
				}
				stop()
			})
		})
	}
}

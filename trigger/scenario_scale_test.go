package trigger

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"
)

// A cold start of 1,000 ranges, or 250 in the short form, with requests of 15 ms, in virtual
// time.
func TestColdStartOfManyRangesIsQuick(t *testing.T) {
	ranges := shortOrLong(250, 1000)
	inWorld(t, ranges, func(t *testing.T, w *world) {
		w.writeMany("doc", 8*ranges)
		var mu sync.Mutex
		delivered := map[string]time.Duration{}
		began := time.Now()
		transport := hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
			time.Sleep(15 * time.Millisecond)
			return nil, nil, false
		}}
		first := time.Duration(0)
		h := w.hostOn(transport, "a", func(_ context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if len(delivered) == 0 {
				first = time.Since(began)
			}
			delivered[b.Range.ID] = time.Since(began)
			return nil
		}, func(_ *Function, o *Options) { o.Logger = slog.New(slog.DiscardHandler) })
		stop := w.startHost(h)
		time.Sleep(5 * time.Second)
		mu.Lock()
		got := len(delivered)
		mu.Unlock()
		if first == 0 || first > 2*time.Second || got < ranges*99/100 {
			t.Errorf("first delivery after %v; %d of %d ranges after 5 s", first, got, ranges)
		}
		stop()
	})
}

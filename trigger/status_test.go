package trigger

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"halley/trigger/emulator"
)

func TestWaitingRangeSaysSo(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("p", "poison")
		record := w.record("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if strings.Contains(b.Changes[0].ID(), "poison") {
				return Skip(errPoison)
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.Lanes, f.BatchItems = 8, 1 })
		stop := w.running(h)
		time.Sleep(time.Minute)
		w.fill("doc", 1)
		time.Sleep(time.Hour)
		if r := h.Status().Functions[0].Ranges[0]; r.Problem == "" {
			t.Errorf("the range waits for a store and its status says nothing: %+v", r)
		}
		stop()
	})
}

func TestProblemThatIsOver(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 5)
		h := w.host("a", w.record("a"))
		stop := w.running(h)
		time.Sleep(time.Minute)
		w.account.Inject(emulator.Fault{Method: http.MethodGet, Header: map[string]string{"A-IM": "."}, Status: 408, Count: 30})
		problem := func() string { return h.Status().Functions[0].Ranges[0].Problem }
		for waited := 0; problem() == ""; waited++ {
			if waited > 300 {
				t.Fatal("a range that cannot be read says nothing")
			}
			time.Sleep(time.Second)
		}
		time.Sleep(24 * time.Hour)
		if p := problem(); p != "" {
			t.Errorf("a caught-up range still says after 24 h: %q", p)
		}
		stop()
	})
}

package trigger

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"halley/trigger/emulator"
)

func TestStatusShowsWhyRangeWaits(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("p", "poison")
		record := w.recorder("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if strings.Contains(b.Changes[0].ID(), "poison") {
				return Skip(errPoison)
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation = 8, 1 })
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		w.writeMany("doc", 1)
		time.Sleep(time.Hour)
		if r := h.Status().Functions[0].Ranges[0]; r.Problem == "" {
			t.Errorf("the range waits for a store, and its status has no problem: %+v", r)
		}
		stop()
	})
}

func TestStatusForgetsSolvedProblem(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		h := w.host("a", w.recorder("a"))
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		w.account.Inject(emulator.Fault{Method: http.MethodGet, Header: map[string]string{"A-IM": "."}, Status: 408, Count: 30})
		problem := func() string { return h.Status().Functions[0].Ranges[0].Problem }
		for waited := 0; problem() == ""; waited++ {
			if waited > 300 {
				t.Fatal("the status of a range that cannot be read has no problem")
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		if p := problem(); p != "" {
			t.Errorf("a caught-up range has a problem after an hour: %q", p)
		}
		stop()
	})
}

// A feed that answers 400 is not read again at once, and the status says why.
func TestStatusShowsCoolingRange(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		remove := w.account.Inject(emulator.Fault{Header: map[string]string{"A-IM": ".+"}, Path: "/items/docs$", Status: 400})
		h := w.host("a", w.recorder("a"))
		stop := w.startHost(h)
		w.writeMany("doc", 5)
		time.Sleep(time.Minute)
		status := h.Status().Functions[0].Ranges
		if len(status) != 1 || !status[0].Cooldown || !strings.Contains(status[0].Problem, "400") {
			t.Errorf("status %+v", status)
		}
		remove()
		time.Sleep(time.Minute)
		if status := h.Status().Functions[0].Ranges; len(status) != 1 || status[0].Cooldown || status[0].Problem != "" {
			t.Errorf("status after the fault: %+v", status)
		}
		stop()
		w.checkComplete(0)
	})
}

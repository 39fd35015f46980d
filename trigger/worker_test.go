package trigger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
)

func TestStopWaitsForRunningHandler(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		record := w.recorder("a")
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if err := backoff.Sleep(ctx, 8*time.Second); err != nil {
				return err
			}
			return record(ctx, b)
		}))
		time.Sleep(5 * time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("stop took %s", took)
		}
		w.checkComplete(0)
		if got := w.leaseDocuments()["0"]; got.continuation == "" || got.owner != "" {
			t.Errorf("lease after the stop: %+v", got)
		}
	})
}

func TestStopCancelsHandlerAfterGrace(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		stop := w.startHost(w.host("a", func(ctx context.Context, _ Batch) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		time.Sleep(5 * time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took < 8*time.Second || took > 11*time.Second {
			t.Errorf("stop took %s", took)
		}
		if got := w.leaseDocuments()["0"]; got.continuation != "" || got.owner != "" {
			t.Errorf("a cancelled batch is not handled: %+v", got)
		}
	})
}

func TestOpenedAndClosedAreCalled(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		var mu sync.Mutex
		var seen []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf(format, args...))
		}
		h := w.host("a", func(context.Context, Batch) error { note("deliver"); return nil }, func(f *Function, _ *Options) {
			f.Opened = func(_ context.Context, r RangeInfo) { note("open %s %d %q", r.Range.ID, r.Epoch, r.Continuation) }
			f.Closed = func(r RangeInfo, reason CloseReason, err error) {
				note("close %s %s %v %v", r.Range.ID, reason, r.Continuation != "", err)
			}
		})
		_, err := h.Drain(t.Context())
		must(t, err)
		want := []string{fmt.Sprintf(`open 0 %d ""`, firstEpoch+1), "deliver", "close 0 caught up true <nil>"}
		if !slices.Equal(seen, want) {
			t.Errorf("saw %q", seen)
		}
	})
}

package trigger

import (
	"context"
	"testing"
	"time"

	"halley/trigger/stall"
)

// A call fails, and the next one postpones its change: the failure is over.
func TestFailureIsOverWhenItsChangeIsPostponed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		calls := 0
		h := w.host("a", func(_ context.Context, b Batch) error {
			if calls++; b.Attempt == 1 {
				return errLater
			}
			return RetryAfter(errLater, time.Hour)
		}, withoutLogger, withStore(&memoryStore{}))
		stop := w.startHost(h)
		defer stop()
		w.write("player", "doc")
		time.Sleep(30 * time.Minute)
		if s := h.Status().Functions[0].Ranges[0]; s.Problem != "" || s.PostponedKeys != 1 || calls != 2 {
			t.Errorf("after %d calls %d keys are postponed, with the problem %q", calls, s.PostponedKeys, s.Problem)
		}
	})
}

// A handler postpones more keys than a range may have: the others fail, and status says so
// at any time.
func TestPostponingWithoutRoomIsAProblem(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 1100)
		h := w.host("a", func(context.Context, Batch) error { return RetryAfter(errLater, 10*time.Hour) }, withoutLogger, withStore(&memoryStore{}))
		stop := w.startHost(h)
		defer stop()
		for range 10 {
			time.Sleep(time.Minute)
			s := h.Status().Functions[0].Ranges[0]
			if len(s.Stalls) != 1 || s.Stalls[0].Kind != stall.HandlerFails || s.PostponedKeys != 1000 || s.WaitingKeys != 100 {
				t.Errorf("%d keys are postponed and %d wait, with the problem %q", s.PostponedKeys, s.WaitingKeys, s.Problem)
			}
		}
		if s := h.Status().Functions[0].Ranges[0].Stalls; len(s) == 1 && time.Since(s[0].Since) < 9*time.Minute {
			t.Errorf("fails since %s, want since the beginning", s[0].Since)
		}
	})
}

package hosting

import (
	"testing"
	"time"

	"halley/trigger"
	"halley/trigger/stall"
)

// A range that waits for a limit of its function is as it should be, however long it waits.
func TestLimitIsNoStall(t *testing.T) {
	now := time.Now()
	a := &App{Opened: map[string]trigger.Function{"orders": {}}}
	for kind, stalled := range map[stall.Kind]bool{
		stall.HandlerFails: true, stall.Paused: false, stall.RateLimited: false, stall.ReadsLimited: false,
	} {
		stalls := []stall.Stall{{Kind: kind, Since: now.Add(-time.Hour)}}
		if _, got := a.stalledFor("orders", trigger.RangeStatus{Stalls: stalls}, now); got != stalled {
			t.Errorf("not ready because of %s: %v, want %v", kind, got, stalled)
		}
	}
}

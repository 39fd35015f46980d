package operate

import (
	"testing"
	"time"

	"halley/trigger"
	"halley/trigger/stall"
)

// Status takes a range that waits for a limit of its function for no stall.
func TestStatusTakesNoLimitForStall(t *testing.T) {
	now := time.Now()
	l := FunctionLag{stallAfter: time.Minute}
	for kind, stalled := range map[stall.Kind]bool{
		stall.HandlerFails: true, stall.Paused: true, stall.RateLimited: false, stall.ReadsLimited: false,
	} {
		stalls := []stall.Stall{{Kind: kind, Since: now.Add(-time.Hour)}}
		if got := l.isStalled(trigger.Lag{Stalls: stalls}, now); got != stalled {
			t.Errorf("status takes %s for a stall: %v, want %v", kind, got, stalled)
		}
	}
}

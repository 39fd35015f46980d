package stall_test

import (
	"strings"
	"testing"

	"halley/trigger/stall"
)

// Each stall says what an operator can do, and only the last kind has no advice of its
// own. The package knows no command.
func TestEachStallHasItsAdvice(t *testing.T) {
	general := stall.Stall{Kind: stall.RangeWaits}.Advice()
	for kind, word := range map[stall.Kind]string{
		stall.HandlerFails: "repair the handler", stall.CallRuns: "HANDLER_TIMEOUT", stall.StorePending: "dead letter store", stall.Breaker: "sink", stall.FeedFails: "network",
		stall.FeedThrottled: "throughput", stall.LeaseFails: "lease container", stall.OwnerSilent: "owner's process", stall.NoOwner: "start a host", stall.Paused: "resume",
		stall.RateLimited: "raise the limit", stall.ReadsLimited: "raise the limit", stall.RangeWaits: "see the text",
	} {
		advice := stall.Stall{Kind: kind}.Advice()
		if !strings.Contains(advice, word) || (advice == general) != (kind == stall.RangeWaits) || strings.Contains(advice, "halley") {
			t.Errorf("advice on %s: %q", kind, advice)
		}
	}
}

package stall_test

import (
	"strings"
	"testing"
	"time"

	"halley/trigger/stall"
)

// Each stall says what an operator can do, and only the last kind has no advice of its
// own. The package knows no command.
func TestEachStallHasItsAdvice(t *testing.T) {
	general := stall.Stall{Kind: stall.RangeWaits}.Advice()
	for kind, word := range map[stall.Kind]string{
		stall.HandlerFails: "repair the handler", stall.CallRuns: "HANDLER_TIMEOUT", stall.StorePending: "dead letter store", stall.Breaker: "sink", stall.Removing: "SnapshotRead", stall.RetentionMissed: "new snapshot", stall.FeedFails: "network",
		stall.FeedThrottled: "throughput", stall.LeaseFails: "lease container", stall.OwnerSilent: "owner's process", stall.NoOwner: "start a host", stall.Paused: "resume",
		stall.PositionAhead: "LOST_POSITION", stall.RateLimited: "raise the limit", stall.ReadsLimited: "raise the limit", stall.RangeWaits: "see the text",
	} {
		advice := stall.Stall{Kind: kind}.Advice()
		if !strings.Contains(advice, word) || (advice == general) != (kind == stall.RangeWaits) || strings.Contains(advice, "halley") {
			t.Errorf("advice on %s: %q", kind, advice)
		}
	}
}

// The description counts no attempt beyond the limit, and tells of no attempt that has begun
// since: a lease may be some seconds old.
func TestDescriptionOfAttempts(t *testing.T) {
	now := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	for want, s := range map[string]stall.Stall{
		"handler has failed for 9s, attempt 2 of 5, next in 3s": {Attempt: 2, Attempts: 5, Next: now.Add(3 * time.Second)},
		"handler has failed for 9s, attempt 2 of 5":             {Attempt: 2, Attempts: 5, Next: now.Add(-time.Second)},
		"handler has failed for 9s, attempt 7, no limit":        {Attempt: 7},
		"handler has failed for 9s, its 5 attempts are spent":   {Attempt: 6, Attempts: 5},
	} {
		s.Kind, s.Since = stall.HandlerFails, now.Add(-9*time.Second)
		if got := s.Describe(now); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

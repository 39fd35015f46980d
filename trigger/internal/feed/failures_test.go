package feed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Positions ahead of the feed say nothing about the connection of this host: another failure after many of
// them does not end the reader. A drain ends, as the next one tries again.
func TestPositionsAheadAreNoFailuresOfTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, isDrain := range []bool{false, true} {
			r := &Reader{
				Source: &Source{}, PollDelay: 5 * time.Second, UntilCaughtUp: isDrain,
				IsFinal: func(error) bool { return false }, ReportProblem: func(error, int) {},
			}
			var failed readFailures
			hasEnded := false
			for range 2 * maxReadFailures {
				hasEnded = hasEnded || r.afterFailure(context.Background(), &AheadError{Position: 7, Newest: 5}, &failed) != nil
			}
			hasEnded = hasEnded || r.afterFailure(context.Background(), ErrStale, &failed) != nil
			if hasEnded != isDrain {
				t.Errorf("a drain %t: ended %t", isDrain, hasEnded)
			}
		}
	})
}

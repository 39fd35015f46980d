package simulation

import (
	"testing"

	"halley/trigger"
)

// TestQuietRangesEndWithoutPostponedChanges: with manual checkpoints a postponed change that
// was handled stays in the store until a request covers it. Ranges without further changes
// have no call for a request, so the run writes once more to them, and the judge finds the
// store empty.
func TestQuietRangesEndWithoutPostponedChanges(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("one seed is asked for: see TestSeed")
	}
	s := calmSwarm()
	s.hosts, s.ranges, s.writes, s.quick = 2, 16, 20, false
	s.function.Checkpoint = trigger.Checkpoint{Manual: true}
	s.rates[postponing] = 0.5
	run := simulate(t, s.seed, options{swarm: s})
	for _, v := range run.Violations {
		t.Error(v)
	}
	if n := run.Figures.Uses["writes for requests"]; n == 0 {
		t.Errorf("%d changes were postponed, and none waited for a request in a quiet range", run.Figures.Postponed)
	}
}

package simulation

import (
	"testing"
	"time"
)

// TestBacklogOfSmallPagesIsDelivered: a range reads a few changes, and its batch waits 30 s for
// more, which the limit of memory does not let it read. More changes are written than it
// handles in that way. The run ends when all of them are handled.
func TestBacklogOfSmallPagesIsDelivered(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("one seed is asked for: see TestSeed")
	}
	s := calmSwarm()
	s.ranges, s.writes, s.quick = 1, 700, false
	s.function.BatchWindow, s.options.ReadAhead = 30*time.Second+907, 4<<10
	run := simulate(t, s.seed, options{swarm: s})
	for _, v := range run.Violations {
		t.Error(v)
	}
	if n := run.Figures.Uses["minutes of backlog"]; n < 2 {
		t.Errorf("the backlog was handled in %d minutes: there was none", n)
	}
}

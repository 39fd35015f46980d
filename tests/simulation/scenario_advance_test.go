package simulation

import (
	"testing"
	"time"

	"halley/tests/history"
)

// TestShortDrainsOfMergedRangesAdvance: ranges merge, so that no position inside a page can be
// saved, and a drain has less time than a page takes. No two drains in a row repeat the same
// work.
func TestShortDrainsOfMergedRangesAdvance(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("one seed is asked for: see TestSeed")
	}
	s := calmSwarm()
	s.hours, s.hosts, s.ranges, s.writes, s.quick, s.companion, s.deletes = 3*time.Hour, 2, 3, 600, false, false, true
	s.tick, s.drain, s.callTime = time.Minute+19, 20*time.Second+23, 4*time.Second
	s.function.MaxItemsPerInvocation, s.options.StopGrace = 1, 5*time.Second
	s.rates = map[class]float64{merge: 6}
	run := simulate(t, s.seed, options{swarm: s})
	for _, v := range run.Violations {
		t.Error(v)
	}
	if n := run.Report.Tallies[history.Advances].Judged; n == 0 {
		t.Error("no drain left a page unfinished")
	}
	t.Logf("%d merges, advances %+v", run.Figures.Merges, run.Report.Tallies[history.Advances])
}

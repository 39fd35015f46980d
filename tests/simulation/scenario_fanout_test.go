package simulation

import (
	"strconv"
	"testing"
	"time"

	"halley/tests/history"
	"halley/tests/long"
)

// In the mode fanout hosts are killed at any moment: between the mark of a lease and its
// message, between the message and the acquisition, during a drain. A range with work is
// drained within the interval of the timer and the ten minutes of a mark.
func TestRangeWithWorkIsDrainedInTimeWhateverIsKilled(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("one seed is asked for: see TestSeed")
	}
	seeds := uint64(1)
	if long.Wanted() {
		seeds = 3
	}
	var lost time.Duration
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			s := calmSwarm()
			s.seed, s.hours, s.hosts, s.ranges, s.writes = seed, 4*time.Hour, 4, 16, 300
			s.tick, s.drain, s.fanout = 79*time.Second, 270*time.Second, true
			s.rates = map[class]float64{kill: 1, stop: 1, split: 1, killedBefore: 0.0003, killedAfter: 0.0003}
			slowest := time.Duration(0)
			run := simulate(t, s.seed, options{swarm: s, after: func(w *world) { slowest = longestWait(w.history) }})
			for _, v := range run.Violations {
				t.Error(v)
			}
			limit := s.tick + 10*time.Minute + time.Minute // a message needs up to 20 s, and a drain some seconds
			if slowest > limit {
				t.Errorf("a range with work waited for %s, at most %s", slowest, limit)
			}
			t.Logf("%d kills, longest wait %s", run.Figures.Kills, slowest)
			lost = max(lost, slowest)
		})
	}
	if lost < 9*time.Minute {
		t.Errorf("no message was lost: the longest wait is %s", lost)
	}
}

// A message is useless if an operator has paused its range since, or if the owner of the lease
// is dead by the sender's clock and alive by that of the host that gets the message. Its mark does
// not keep the next message back: [markEnded] judges each.
func TestUselessMessageLeavesNoMark(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("one seed is asked for: see TestSeed")
	}
	s := calmSwarm()
	s.seed, s.hours, s.hosts, s.ranges, s.writes = 1, 20*time.Minute, 4, 16, 3000
	if long.Wanted() {
		s.hours = time.Hour
	}
	s.tick, s.drain, s.fanout = 5*time.Second, 4*time.Second, true
	s.rates = map[class]float64{kill: 20, clockStep: 20, pausing: 60}
	run := simulate(t, s.seed, options{swarm: s})
	for _, v := range run.Violations {
		t.Error(v)
	}
}

// longestWait returns the longest time from a change, or from the last kill after it, to
// the call that handled it or a later version of its document.
func longestWait(events []history.Event) (longest time.Duration) {
	waiting := map[string]map[int64]time.Time{} // by document and sequence number
	calls := map[int64][]history.Event{}
	for _, e := range events {
		switch {
		case e.Kind == history.Write:
			if waiting[e.ID] == nil {
				waiting[e.ID] = map[int64]time.Time{}
			}
			waiting[e.ID][e.Seq] = e.Time
		case e.Kind == history.Host && e.Op == history.Killed:
			for _, changes := range waiting {
				for seq := range changes {
					changes[seq] = e.Time
				}
			}
		case e.Kind == history.Delivery:
			calls[e.Call] = append(calls[e.Call], e)
		case e.Kind == history.End && e.Verdict == history.Handled:
			for _, d := range calls[e.Call] {
				for seq, since := range waiting[d.ID] {
					if seq <= d.Seq {
						longest = max(longest, e.Time.Sub(since))
						delete(waiting[d.ID], seq)
					}
				}
			}
		}
	}
	return longest
}

package simulation

import (
	"testing"
	"time"

	"halley/tests/history"
	"halley/tests/long"
	"halley/trigger"
)

// TestPoison runs four hosts while ranges split. One change in a thousand always
// fails, and one call in twenty fails at random. Every good change is handled,
// every poison one is dead-lettered once, no range is blocked for longer than the
// attempts take, and when the letters are replayed with a handler that succeeds,
// the store is empty.
func TestPoison(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("one seed is asked for: see TestSeed")
	}
	const attempts, longest = 5, 2 * time.Second
	s := newSwarm(1)
	s.hours, s.hosts, s.ranges, s.most = 2*time.Hour, 4, 4, 12
	s.keys, s.documents, s.writes = 500, 40, 6000
	s.splitting, s.options, s.tick, s.companion, s.buffers = 3*time.Second, trigger.Options{}, 0, false, false
	s.deadLetters, s.incurable = true, true
	s.function = trigger.Function{
		FeedSource: trigger.FeedSource{Name: processor, StartFrom: trigger.FromBeginning()}, BatchPolicy: trigger.BatchPolicy{BatchWindow: 1}, GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: attempts}, RetryPolicy: trigger.RetryPolicy{RetryMax: longest},
	}
	s.rates = map[class]float64{poison: 0.001, failing: 0.05, split: 4}
	if raceEnabled || !long.Wanted() {
		s.hours = 30 * time.Minute
	}

	var w *world
	run := simulate(t, s.seed, options{swarm: s, after: func(done *world) { w = done }})
	for _, v := range run.Violations {
		t.Error(v)
	}
	began, dead, poisoned := map[history.Ref]time.Time{}, map[history.Ref]int{}, map[history.Ref]bool{}
	slowest := time.Duration(0)
	for _, e := range w.history {
		switch {
		case e.Kind == history.Delivery:
			ref := history.Ref{Key: e.Key, Seq: e.Seq}
			if _, known := began[ref]; !known {
				began[ref] = e.Time
				poisoned[ref] = s.poisonous(e)
			}
		case e.Kind == history.End && e.Verdict == history.DeadLettered:
			dead[e.Failed[0]]++
			slowest = max(slowest, e.Time.Sub(began[e.Failed[0]]))
		}
	}
	wanted := 0
	for ref, is := range poisoned {
		if is {
			wanted++
		}
		if is && dead[ref] != 1 || !is && dead[ref] != 0 {
			t.Errorf("%v: poison %v, dead-lettered %d times", ref, is, dead[ref])
		}
	}
	if least := int(2 * s.hours.Hours()); wanted < least {
		t.Errorf("only %d poison changes of %d: too few to tell", wanted, run.Report.Written)
	}
	// A batch of a hundred is halved seven times before the poison is alone.
	if policy := (attempts + 7 + 1) * (longest + time.Second); slowest > policy {
		t.Errorf("a poison change blocked its range for %s, the policy allows %s", slowest, policy)
	}
	t.Logf("%d changes delivered, %d poison ones, the slowest given up after %s; %d splits, %d calls failed by chance",
		run.Report.Delivered, wanted, slowest.Round(time.Millisecond), run.Figures.Splits, run.Figures.Faults[string(failing)])
}

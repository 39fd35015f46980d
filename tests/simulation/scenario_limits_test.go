package simulation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"halley/tests/history"
	"halley/trigger"
	"halley/trigger/stall"
)

// told is the rule that a host's status names the limit that holds a range back.
const told history.Rule = "limit told"

// TestRateIsKeptAndTold runs two hosts that get more changes than their rate allows,
// without faults. Each keeps the rate, and a range without a call for two seconds
// although a change of it has been read says why.
func TestRateIsKeptAndTold(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("one seed is asked for: see TestSeed")
	}
	for _, lanes := range []int{1, 2} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			t.Parallel()
			s := calmSwarm()
			s.hosts, s.writes, s.hours = 2, 1000, 20*time.Minute
			s.function.Rate, s.function.Lanes, s.function.MaxItemsPerInvocation = 0.3, lanes, 1
			waits := 0
			run := simulate(t, s.seed, options{swarm: s, script: func(w *world) {
				before := map[string]trigger.RangeStatus{}
				for at := time.Minute; at < s.hours; at += 2 * time.Second {
					w.after(at, "asks for status", func() { waits += w.checkTold(before) })
				}
			}})
			for _, v := range run.Violations {
				t.Error(v)
			}
			if run.Report.Tallies[history.RateKept].Judged == 0 || waits < 100 {
				t.Errorf("judged %+v, seen %d waits", run.Report.Tallies[history.RateKept], waits)
			}
		})
	}
}

// checkTold checks that ranges without a call since the last status tell why. It returns how
// many there are.
func (w *world) checkTold(before map[string]trigger.RangeStatus) (waits int) {
	for _, p := range w.living() {
		for _, r := range p.host.Status().Functions[0].Ranges {
			name := p.name + "/" + r.Range
			last := before[name]
			before[name] = r
			if r.BehindSeconds == 0 || last.BehindSeconds == 0 || last.Epoch != r.Epoch || last.Changes != r.Changes {
				continue
			}
			waits++
			if !slices.ContainsFunc(r.Stalls, func(s stall.Stall) bool { return s.Kind == stall.RateLimited }) {
				w.violations = append(w.violations, history.Violation{Rule: told, Text: fmt.Sprintf("%s waits and says %q", name, r.Problem), Time: time.Now()})
			}
		}
	}
	return waits
}

package simulation

import (
	"testing"
	"time"

	"halley/tests/history"
	"halley/tests/long"
	"halley/trigger"
)

// calmSwarm is a run with default settings and without faults.
func calmSwarm() *swarm {
	s := newSwarm(1)
	s.hours, s.hosts, s.ranges, s.most = 20*time.Minute, 1, 4, 64
	s.keys, s.documents, s.writes, s.quick = 60, 4, 1000, true
	s.splitting, s.options, s.tick, s.companion, s.buffers = 3*time.Second, trigger.Options{}, 0, false, false
	s.retry.MaxRetries = 2
	s.deadLetters = true
	s.function = trigger.Function{FeedSource: trigger.FeedSource{Name: processor, StartFrom: trigger.FromBeginning()}, BatchPolicy: trigger.BatchPolicy{BatchWindow: 1}}
	s.rates = map[class]float64{}
	return s
}

// failAlways makes a share of the changes of one busy range fail, for an hour, in the short
// form for a third of it.
func (s *swarm) failAlways(c class, share float64) {
	s.ranges, s.hours, s.rates[c] = 1, time.Hour, share
	if !long.Wanted() {
		s.hours /= 3
	}
	s.writes = 100 * int(s.hours.Minutes())
	s.function.BreakerLimit = -1
}

// after adds an action to the world, some time after its begin.
func (w *world) after(d time.Duration, id string, do func()) {
	w.items = append(w.items, item{id, w.began.Add(d + 37), do})
}

// begins starts a fault of the world, as the swarm does.
func (w *world) begins(c class) { w.act(c, "scripted", w.swarm.dice(string(c))) }

// TestTransitionsArePrompt tells the story of each promise about time once, with
// nothing else that could excuse a host. The short form has the first quick story of each rule.
func TestTransitionsArePrompt(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("one seed is asked for: see TestSeed")
	}
	shown := map[history.Rule]bool{}
	for _, test := range []struct {
		name string
		rule history.Rule
		set  func(s *swarm)
		tell func(w *world)
	}{
		{"a host is stopped while 64 leases are acquired with slow writes", history.PromptStop,
			func(s *swarm) { s.ranges, s.hours, s.lasting = 64, 8*time.Minute, true },
			func(w *world) {
				w.succeeds()
				w.after(155*time.Second, "slows", func() { w.slowLeases(7 * time.Minute) })
				w.after(4*time.Minute, "stops", func() { w.stop(w.living()[0]) })
			}},
		{"a host is stopped while the lease container is throttled", history.PromptStop,
			func(s *swarm) { s.hours = 10 * time.Minute },
			func(w *world) {
				w.after(2*time.Minute, "throttles", func() { w.throttleLeases(5 * time.Minute) })
				w.after(2*time.Minute+10*time.Second, "stops", func() { w.stop(w.living()[0]) })
			}},
		{"a host is stopped while its acquisitions are throttled", history.PromptStop,
			func(s *swarm) { s.ranges, s.hours, s.lasting = 64, 10*time.Minute, true },
			func(w *world) {
				w.succeeds()
				w.after(155*time.Second, "slows", func() { w.slowLeases(80 * time.Second) })
				w.after(235*time.Second, "throttles", func() { w.throttleLeases(5 * time.Minute) })
				w.after(4*time.Minute, "stops", func() { w.stop(w.living()[0]) })
			}},
		{"a host is stopped while handler calls ignore their context", history.PromptStop,
			func(s *swarm) { s.rates[outliving], s.quick = 1, false },
			func(w *world) { w.after(3*time.Minute, "stops", func() { w.stop(w.living()[0]) }) }},
		{"a host joins while calls outlast the expiration", history.NoRobbery,
			func(s *swarm) { s.callTime, s.quick, s.writes = 4*time.Minute, false, 100 },
			func(w *world) { w.after(6*time.Minute, "joins", func() { w.start("second") }) }},
		{"a host joins while calls are short", history.PromptHandover, func(*swarm) {},
			func(w *world) { w.after(5*time.Minute, "joins", func() { w.start("second") }) }},
		{"the feed is throttled for 10 s", history.ThrottleWaited, func(*swarm) {}, throttleAfter(10*time.Second, 5*time.Second, 0)},
		{"the feed is throttled for 10 s, short waits", history.ThrottleWaited, func(*swarm) {}, throttleAfter(10*time.Second, 100*time.Millisecond, 0)},
		{"the feed is throttled for 10 min", history.ThrottleWaited, func(*swarm) {}, throttleAfter(10*time.Minute, time.Second, 0)},
		{"the feed is throttled for 10 min, with slow answers", history.ThrottleWaited, func(s *swarm) { s.retry.MaxRetries = 9 }, throttleAfter(10*time.Minute, time.Second, 7*time.Second)},
		{"all leases are deleted", history.LeaseReturns, func(*swarm) {},
			func(w *world) { w.after(5*time.Minute, "deletes", func() { w.begins(allDeleted) }) }},
		{"all leases are deleted as a host joins", history.LeaseReturns, func(*swarm) {},
			func(w *world) {
				w.after(5*time.Minute, "deletes", func() { w.begins(allDeleted) })
				w.after(5*time.Minute+time.Second, "joins", func() { w.start("second") })
			}},
		{"some feed answers have an older etag", history.ForwardOnly, func(s *swarm) { s.rates[olderEtag] = 0.05 }, func(*world) {}},
		{"some answers have a wrong date", history.ForwardOnly, func(s *swarm) { s.hosts, s.rates[wrongDate] = 2, 0.005 }, func(*world) {}},
		{"one change in a hundred always fails", history.OtherKeysPrompt,
			func(s *swarm) { s.failAlways(poison, 0.01) }, func(*world) {}},
		{"one change in a hundred always fails, and reading is five changes ahead", history.KeysApart,
			func(s *swarm) {
				s.failAlways(poison, 0.01)
				s.function.MaxAhead = 5
			}, func(*world) {}},
		{"a tenth of the keys have changes that always fail", history.KeysApart,
			func(s *swarm) {
				s.failAlways(poisonKey, 0.1)
				s.function.MaxAhead = 50
			}, func(*world) {}},
		{"a host dies with a handover request pending", history.DeadRequest,
			func(s *swarm) { s.callTime, s.quick, s.writes, s.lasting = 40*time.Second, false, 100, true },
			func(w *world) {
				w.after(5*time.Minute, "joins", func() { w.start("second") })
				w.after(5*time.Minute+5*time.Second, "dies", func() { w.kill(w.living()[0]) })
			}},
	} {
		s := calmSwarm()
		test.set(s)
		hasStory := shown[test.rule] || s.ranges == 64 // 64 leases take seconds
		shown[test.rule] = shown[test.rule] || !hasStory
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if hasStory {
				long.Only(t, "another story of its rule is quicker")
			}
			run := simulate(t, s.seed, options{swarm: s, script: test.tell})
			tally := run.Report.Tallies[test.rule]
			if tally.Judged == 0 {
				t.Errorf("%s: not judged", test.rule)
			}
			for _, v := range run.Violations {
				t.Error(v)
			}
			t.Logf("%s: judged %d times, broken %d times; slowest stop %s, other keys %+v", test.rule, tally.Judged, tally.Broken, run.Report.SlowestStop, run.Report.OtherKeys)
		})
	}
}

// succeeds kills the only host after two minutes and starts another one, which
// acquires all its leases a minute later.
func (w *world) succeeds() {
	w.after(2*time.Minute, "dies", func() { w.kill(w.living()[0]) })
	w.after(150*time.Second, "succeeds", func() { w.start("second") })
}

// slowLeases makes all writes of leases slow.
func (w *world) slowLeases(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowWrites = time.Now().Add(d)
	w.record(history.Event{Kind: history.Fault, Op: history.Op(slowWrites), Host: "all", Until: w.slowWrites})
}

// throttleLeases makes the lease container fail for all hosts.
func (w *world) throttleLeases(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowDown = time.Now().Add(d)
	w.record(history.Event{Kind: history.Fault, Op: history.Op(throttled), Host: "all", Until: w.slowDown})
}

// throttleAfter throttles the feed once, with a Retry-After, and answers after a delay.
func throttleAfter(length, wait, delay time.Duration) func(w *world) {
	return func(w *world) {
		w.after(5*time.Minute, "throttles", func() {
			w.refuseFeed("scripted", length, fate{class: feedSlow, status: status{code: 429, sub: 3200, wait: true}, retryAfter: wait, before: delay})
			w.fault = history.Event{Kind: history.Fault, Op: history.FeedThrottled, Host: "all", Until: w.feedSlow, Wait: wait + delay}
			w.record(w.fault)
		})
	}
}

package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDecide reads as the documentation of the retry policy.
func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	long := now.Add(-time.Hour)
	bad := errors.New("sink is down")
	policy := Policy{
		GiveUpPolicy: GiveUpPolicy{MaxAttempts: 3, BreakerLimit: 2, BreakerPause: 5 * time.Minute}, RetryPolicy: RetryPolicy{RetryMin: time.Second, RetryMax: time.Minute}, DeadLetters: true, HungAfter: 10 * time.Second,
	}
	policyWith := func(change func(*Policy)) Policy {
		p := policy
		change(&p)
		return p
	}
	failed := Verdict{Outcome: Failed, Err: bad}
	alone := groupOf(1, RetryState{})
	tried := func(attempts int) *group { return groupOf(1, RetryState{Attempts: attempts, Since: long}) }
	crashed := func(crashes int) *group {
		return &group{items: make([]*Item, 1), suspect: true, retry: RetryState{Crashes: crashes, Since: long}}
	}
	tests := []struct {
		name    string
		group   *group
		verdict Verdict
		lane    LaneState
		policy  Policy
		want    string // step, wait rounded up to its ceiling, attempts; then the reason
	}{
		{"a group is delivered", groupOf(5, RetryState{}), Verdict{}, LaneState{}, policy, "deliver"},
		{"a suspect is delivered in isolation", crashed(0), Verdict{}, LaneState{}, policy, "isolate"},
		{"a suspect with few crashes still is", crashed(4), Verdict{}, LaneState{}, policy, "isolate"},
		{"a crasher is given up without a call", crashed(5), Verdict{}, LaneState{}, policy, "give up: it may crash the process"},
		{"however many attempts it has", crashed(5), Verdict{}, LaneState{}, policyWith(func(p *Policy) { p.MaxAttempts = 100 }), "give up: it may crash the process"},
		{"with unlimited attempts and age it is delivered again", crashed(99), Verdict{}, LaneState{}, policyWith(func(p *Policy) { p.MaxAttempts = -1 }), "isolate"},
		{"an old crasher is given up by its age", crashed(5), Verdict{}, LaneState{},
			policyWith(func(p *Policy) { p.MaxAttempts, p.RetryMaxAge = -1, time.Minute }), "give up: it may crash the process"},
		{"without a store a crasher is delivered again", crashed(50), Verdict{}, LaneState{}, policyWith(func(p *Policy) { p.DeadLetters = false }), "isolate"},
		{"a change that hung too often is given up without a call", groupOf(1, RetryState{Attempts: 3, Hung: true}), Verdict{}, LaneState{},
			policy, "give up: handler has not returned"},
		{"a change that hung once is delivered again", groupOf(1, RetryState{Attempts: 1, Hung: true}), Verdict{}, LaneState{}, policy, "deliver"},

		{"a failed group is halved, which uses up no attempt", groupOf(4, RetryState{Attempts: 2}), failed, LaneState{}, policy, "split after 1s"},
		{"without bisection it is delivered again", groupOf(4, RetryState{}), failed, LaneState{}, policyWith(func(p *Policy) { p.NoBisection = true }), "deliver after 1s, attempt 1"},
		{"a single change is delivered again", alone, failed, LaneState{}, policy, "deliver after 1s, attempt 1"},
		{"the wait doubles with each failure in a row", alone, failed, LaneState{Failures: 3}, policy, "deliver after 8s, attempt 1"},
		{"up to its bound", alone, failed, LaneState{Failures: 30}, policy, "deliver after 1m0s, attempt 1"},
		{"failures of the key count apart from those of the sink", groupOf(1, RetryState{Failures: 3}), failed, LaneState{Succeeded: true}, policy,
			"deliver after 8s, attempt 1"},
		{"a part of a group that has failed does not count for the sink again", alone, failed, LaneState{Failures: 3, Repeated: true}, policy,
			"deliver after 4s, attempt 1"},
		{"and the longer wait of the two holds", groupOf(1, RetryState{Failures: 2}), failed, LaneState{Failures: 4}, policy, "deliver after 16s, attempt 1"},
		{"the last attempt is followed by a dead letter", tried(2), failed, LaneState{}, policy, "give up, attempt 3: sink is down"},
		{"a call after the last attempt is not an attempt", tried(3), failed, LaneState{}, policy, "give up, attempt 3: sink is down"},
		{"so is the last moment of its age", tried(1), failed, LaneState{},
			policyWith(func(p *Policy) { p.MaxAttempts, p.RetryMaxAge = -1, time.Minute }), "give up, attempt 2: sink is down"},
		{"unlimited attempts never end", tried(99), failed, LaneState{}, policyWith(func(p *Policy) { p.MaxAttempts = -1 }), "deliver after 1s, attempt 100"},
		{"without a store the range waits and says so", tried(2), failed, LaneState{}, policyWith(func(p *Policy) { p.DeadLetters = false }),
			"deliver after 1s, attempt 3: no dead letter store"},
		{"if everything fails, the range pauses", tried(2), failed, LaneState{GivenUp: 2, GaveUpAt: now}, policy, "deliver after 5m0s, attempt 3: everything fails"},
		{"and then gives one up", tried(3), failed, LaneState{GivenUp: 2, GaveUpAt: now.Add(-5 * time.Minute)}, policy, "give up, attempt 3: sink is down"},
		{"a breaker without a limit never pauses", tried(2), failed, LaneState{GivenUp: 99}, policyWith(func(p *Policy) { p.BreakerLimit = -1 }), "give up, attempt 3: sink is down"},
		{"a failure clears crashes: the call returned", crashed(4), failed, LaneState{}, policy, "deliver after 1s, attempt 1"},

		{"the handler gives a group up", groupOf(4, RetryState{}), Verdict{Outcome: GivenUp, Err: bad}, LaneState{}, policy, "give up, attempt 1: sink is down"},
		{"if it gives up changes without a name, the group is halved at once", groupOf(4, RetryState{}), Verdict{Outcome: Halved, Err: bad}, LaneState{}, policy, "split"},
		{"a hung call ends the worker and counts as an attempt", alone, Verdict{Outcome: Hung}, LaneState{}, policy, "release, attempt 1, hung"},
		{"unless the group can be halved", groupOf(4, RetryState{}), Verdict{Outcome: Hung}, LaneState{}, policy, "release"},
		{"a call that ends with its owner is not an attempt", tried(1), Verdict{Outcome: Interrupted, Err: bad}, LaneState{}, policy, "release, attempt 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := Decide(test.group, test.verdict, test.lane, test.policy, now)
			want, reason, _ := strings.Cut(test.want, ": ")
			if got := describeAction(a, test.verdict.Outcome); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := fmt.Sprint(a.Reason); (reason == "") != (a.Reason == nil) || !strings.Contains(got, reason) && a.Reason != nil {
				t.Errorf("reason %q, want %q", got, reason)
			}
			if test.verdict.Outcome == Failed && a.Retry.Crashes != 0 {
				t.Errorf("%d crashes after a call that returned", a.Retry.Crashes)
			}
		})
	}
}

func groupOf(size int, r RetryState) *group { return &group{items: make([]*Item, size), retry: r} }

// describeAction words an action. Of a wait it tells the ceiling: the jitter takes
// up to half of it away.
func describeAction(a Action, outcome Outcome) string {
	text := stepName(a.Step)
	if a.Wait > 0 {
		ceiling := time.Second
		for ceiling < a.Wait {
			ceiling = min(2*ceiling, max(time.Minute, a.Wait))
		}
		text += " after " + ceiling.String()
	}
	if outcome != NotCalled && a.Retry.Attempts > 0 {
		text += fmt.Sprint(", attempt ", a.Retry.Attempts)
	}
	if outcome != NotCalled && a.Retry.Hung {
		text += ", hung"
	}
	return text
}

func stepName(s Step) string {
	return [...]string{"deliver", "isolate", "split", "give up", "release"}[s]
}

// TestFirstHalfKeepsTriesAndAge: attempts count for exactly one group, tries and the
// time of the first failure for all its parts.
func TestFirstHalfKeepsTriesAndAge(t *testing.T) {
	now := time.Now()
	since := now.Add(-time.Minute)
	g := groupOf(2, RetryState{Tries: 7, Attempts: 3, Since: since, Hung: true})
	a := Decide(g, Verdict{Outcome: Failed, Err: errors.New("bad")}, LaneState{}, Policy{RetryPolicy: RetryPolicy{RetryMin: 1, RetryMax: 1}}, now)
	if want := (RetryState{Tries: 7, Since: since}); a.Step != Split || a.Retry != want {
		t.Errorf("%s with %+v, want split with %+v", stepName(a.Step), a.Retry, want)
	}
}

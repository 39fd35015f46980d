package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// prompt judges the limits of all transitions.
var prompt = Limits{
	Expiration: time.Minute, AcquireInterval: 13 * time.Second, StopGrace: 10 * time.Second, StuckGrace: 10 * time.Second, Poll: 5 * time.Second, Window: 2, MaxAhead: 2,
}

// pair is a fleet of x, which owns lease "0" in epoch 1, and y.
func pair() *story {
	return newStory().host(Started, "x").host(Started, "y").lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0)
}

// working is a history in which host x works on, half a minute after its lease was deleted.
func working() *story {
	s := pair().tamper(Deleted, 1, 0)
	for seq := range int64(5) {
		s = s.wait(3*time.Second).write(seq+1, "a").call("x", 1, Handled, seq+1)
	}
	return s
}

func (s *story) reads(host string) *story { return s.add(Event{Kind: Reading, Host: host, Range: "0"}) }

// fault adds a fault of some duration to a host, or to all.
func (s *story) fault(op Op, host string, d time.Duration) *story {
	return s.add(Event{Kind: Fault, Op: op, Host: host, Until: s.now.Add(time.Second + d), Wait: 2 * time.Second, Range: "0"})
}

// of moves the last call to another range.
func (s *story) of(token string) *story {
	for i := range s.events {
		if e := &s.events[i]; e.Kind == Delivery && e.Call == s.calls {
			e.Range = token
		}
	}
	return s
}

// at moves the last event of the story to some time after the one before it.
func (s *story) at(d time.Duration) *story {
	last := &s.events[len(s.events)-1]
	s.now = s.now.Add(d - time.Second)
	last.Time = s.now
	if last.Kind == Lease {
		last.Sent = s.now
	}
	return s
}

// sent moves the departure of the last event.
func (s *story) sent(before time.Duration) *story {
	last := &s.events[len(s.events)-1]
	last.Sent = last.Time.Add(-before)
	return s
}

func (s *story) later(d time.Duration) *story {
	return s.wait(d).add(Event{Kind: Held, Host: "x", Bytes: 1})
}

func TestTransitionsArePrompt(t *testing.T) {
	released := func() *story { return pair().lease(Request, "y", 1, 0).lease(Release, "x", 1, 0) }
	// Host "y", whose name is "b", requests the lease; "z" acquires it.
	shared := func(name string) *story {
		s := newStory().host(Started, "x").add(Event{Kind: Host, Op: Started, Host: "y", Owner: "b"})
		s.add(Event{Kind: Host, Op: Started, Host: "z", Owner: name})
		s.lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0).lease(Request, "y", 1, 0).lease(Release, "x", 1, 0)
		return s.lease(Acquire, "z", 2, 0).at(200 * time.Millisecond)
	}
	throttled := func() *story { return pair().fault(FeedThrottled, "all", 20*time.Second) }
	merged := func() *story {
		return pair().fault(Merge, "ranges", time.Second).wait(5*time.Minute).lease(Renew, "x", 1, 0)
	}
	failing := func(n int64) *story {
		s, written := pair(), []int64{}
		for seq := range n {
			s.write(seq+1, fmt.Sprint("d", seq))
			written = append(written, seq+1)
		}
		return s.call("x", 1, Failed, written...).fault(FeedThrottled, "all", 20*time.Second).later(time.Minute)
	}
	for _, test := range []struct {
		name string
		s    *story
		want []Rule
	}{
		{"stopped in time", pair().host(Stopping, "x").host(Stopped, "x").at(11 * time.Second), nil},
		{"stopped late", pair().host(Stopping, "x").host(Stopped, "x").at(12 * time.Second), []Rule{PromptStop}},
		{"does not stop", pair().host(Stopping, "x").later(20 * time.Second), []Rule{PromptStop}},
		{"killed while it stops", pair().host(Stopping, "x").wait(time.Minute).host(Killed, "x"), nil},
		{"acquires after the stop", pair().lease(Release, "x", 1, 0).host(Stopping, "y").lease(Acquire, "y", 2, 0).host(Stopped, "y"), []Rule{PromptStop}},
		{"acquires with a request that had left", pair().lease(Release, "x", 1, 0).host(Stopping, "y").lease(Acquire, "y", 2, 0).sent(2*time.Second).host(Stopped, "y"), nil},

		{"requester reads at once", released().lease(Acquire, "y", 2, 0).at(200 * time.Millisecond).reads("y").at(800 * time.Millisecond), nil},
		{"requester reads late", released().lease(Acquire, "y", 2, 0).at(10 * time.Second).reads("y"), []Rule{PromptHandover}},
		{"requester never reads", released().later(time.Minute), []Rule{PromptHandover}},
		{"requester was cut off", pair().fault("partition", "y", 10*time.Second).lease(Request, "y", 1, 0).lease(Release, "x", 1, 0).later(time.Minute), nil},
		{"requester was cut off afterwards", released().fault("partition", "y", 10*time.Second).at(100 * time.Millisecond).later(time.Minute), nil},
		{"another process of the requester's name reads at once", shared("b").reads("z").at(500 * time.Millisecond).later(time.Minute), nil},
		{"a host of another name reads at once", shared("c").reads("z").at(500 * time.Millisecond).later(time.Minute), []Rule{PromptHandover}},
		{"requester died", released().host(Killed, "y").at(100 * time.Millisecond).later(time.Minute), nil},
		{"paused before the release", pair().lease(Request, "y", 1, 0).lease(Pause, "operator", 1, 0).lease(Release, "x", 1, 0).later(time.Minute), nil},
		{"paused and resumed before the release", pair().lease(Request, "y", 1, 0).lease(Pause, "operator", 1, 0).lease(Resume, "operator", 1, 0).
			lease(Release, "x", 1, 0).later(time.Minute), nil},
		{"paused after the release", released().lease(Pause, "operator", 1, 0).at(100 * time.Millisecond).later(time.Minute), nil},
		{"an operator replaces the request", pair().lease(Request, "y", 1, 0).lease(Request, "operator", 1, 0).lease(Release, "x", 1, 0).later(time.Minute), nil},
		{"released without a request", pair().lease(Release, "x", 1, 0).later(time.Minute), nil},

		{"throttle waited out", throttled().wait(20 * time.Second).reads("x"), nil},
		{"lease released at a throttle", throttled().lease(Release, "x", 1, 0).lease(Acquire, "x", 2, 0).wait(20 * time.Second).reads("x"), []Rule{ThrottleWaited}},
		{"lease released after a throttle", throttled().wait(20*time.Second).reads("x").wait(20*time.Second).lease(Release, "x", 1, 0), []Rule{ThrottleWaited}},
		{"lease released long after a throttle", throttled().wait(20*time.Second).reads("x").wait(10*time.Minute).lease(Release, "x", 1, 0), nil},
		{"lease paused at a throttle", throttled().lease(Pause, "operator", 1, 0).lease(Release, "x", 1, 0), nil},
		{"lease handed over at a throttle", throttled().lease(Request, "y", 1, 0).lease(Release, "x", 1, 0).lease(Acquire, "y", 2, 0), nil},
		{"read late after a throttle", throttled().wait(40 * time.Second).reads("x"), []Rule{ThrottleWaited}},
		{"never read after a throttle", throttled().later(time.Minute), []Rule{ThrottleWaited}},
		{"read ahead full while a call runs", throttled().write(1, "a").begin("x", 1, 1).later(time.Minute), nil},
		{"cut off at a throttle", throttled().fault("partition", "x", time.Minute).later(time.Minute), nil},
		{"released because of a call that hangs", pair().write(1, "a").begin("x", 1, 1).fault(FeedThrottled, "all", 20*time.Second).
			lease(Release, "x", 1, 0).end("x", Handled), nil},

		{"paused before a throttle ends", throttled().wait(10*time.Second).lease(Pause, "operator", 1, 0).later(time.Minute), nil},
		{"paused after a throttle has ended", throttled().wait(21*time.Second).lease(Pause, "operator", 1, 0).later(time.Minute), nil},
		{"paused and resumed before a throttle begins", pair().lease(Pause, "operator", 1, 0).lease(Resume, "operator", 1, 0).
			fault(FeedThrottled, "all", 20*time.Second).later(time.Minute), []Rule{ThrottleWaited}},
		{"expired before a throttle ends", throttled().fault(FeedThrottled, "all", 2*time.Minute).later(3 * time.Minute), nil},
		{"renewed before a throttle ends", throttled().fault(FeedThrottled, "all", 2*time.Minute).wait(time.Minute+30*time.Second).lease(Renew, "x", 1, 0).
			later(2 * time.Minute), []Rule{ThrottleWaited}},
		{"read ahead full behind a change that waits in a merged range", merged().write(1, "a").write(2, "b").call("x", 1, Failed, 1).
			fault(FeedThrottled, "all", 20*time.Second).later(time.Minute), []Rule{NoLoss, NoLoss}},
		{"read ahead not full in a merged range", merged().write(1, "a").call("x", 1, Failed, 1).fault(FeedThrottled, "all", 20*time.Second).later(time.Minute),
			[]Rule{NoLoss, ThrottleWaited}},
		{"as many groups have failed as a range may have", failing(16), slices.Repeat([]Rule{NoLoss}, 16)},
		{"fewer groups have failed", failing(15), append(slices.Repeat([]Rule{NoLoss}, 15), ThrottleWaited)},
		{"nothing waits in a merged range", merged().write(1, "a").write(2, "b").call("x", 1, Handled, 1, 2).
			fault(FeedThrottled, "all", 20*time.Second).later(time.Minute), []Rule{ThrottleWaited}},
		{"a change waits in a range that has not merged", pair().write(1, "a").write(2, "b").call("x", 1, Failed, 1).
			fault(FeedThrottled, "all", 20*time.Second).later(time.Minute), []Rule{NoLoss, NoLoss, ThrottleWaited}},

		{"deleted and created again", pair().tamper(Deleted, 1, 0).lease(Create, "x", 2, 0).at(26 * time.Second), nil},
		{"deleted and created late", pair().tamper(Deleted, 1, 0).lease(Create, "x", 2, 0).at(5 * time.Minute), []Rule{LeaseReturns}},
		{"deleted while a call ignores its context", pair().write(1, "a").begin("x", 1, 1).tamper(Deleted, 1, 0).wait(30*time.Second).lease(Create, "y", 2, 0).
			lease(Acquire, "y", 3, 0).call("y", 3, Handled, 1), nil},
		{"deleted while a call never ends", pair().write(1, "a").begin("x", 1, 1).tamper(Deleted, 1, 0).wait(40*time.Second).lease(Create, "y", 2, 0).
			lease(Acquire, "y", 3, 0).call("y", 3, Handled, 1), []Rule{LeaseReturns}},
		{"deleted shortly before a call ends", pair().write(1, "a").begin("x", 1, 1).tamper(Deleted, 1, 0).wait(20*time.Second).end("x", Handled).
			wait(9*time.Second).lease(Create, "x", 2, 0), nil},
		{"deleted long before a call ends", pair().write(1, "a").begin("x", 1, 1).tamper(Deleted, 1, 0).wait(10*time.Second).end("x", Handled).
			wait(20*time.Second).lease(Create, "x", 2, 0), []Rule{LeaseReturns}},
		{"deleted while calls go on", working(), []Rule{LeaseReturns}},
		{"deleted under a host that is killed after its calls have gone on", working().host(Killed, "x").later(time.Minute), []Rule{LeaseReturns}},
		{"deleted for good", pair().tamper(Deleted, 1, 0).later(5 * time.Minute), []Rule{LeaseReturns}},
		{"created again at the beginning", pair().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).tamper(Deleted, 1, 1).
			lease(Create, "x", 2, 0), []Rule{LeaseReturns}},
		{"deleted below a parent that was restored", pair().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).
			add(Event{Kind: Tamper, Op: Restored, Range: "parent", Max: "FF", Epoch: 1}).tamper(Deleted, 1, 1).lease(Create, "x", 2, 0), nil},
		{"created again at now", pair().tamper(Deleted, 1, 0).write(1, "a").lease(Create, "x", 2, 1).call("y", 2, Handled, 1),
			[]Rule{Checkpoints, Ownership}},
		{"deleted under a host that stops", pair().tamper(Deleted, 1, 0).host(Stopping, "x").host(Stopped, "x").later(5 * time.Minute), nil},
		{"deleted while it is paused", pair().lease(Pause, "operator", 1, 0).tamper(Deleted, 1, 0).later(5 * time.Minute), nil},
		{"deleted without an owner", pair().lease(Release, "x", 1, 0).tamper(Deleted, 1, 0).later(5 * time.Minute), nil},

		{"back after an older etag", pair().write(1, "a").call("x", 1, Handled, 1).fault(OlderEtag, "x", 0).call("x", 1, Handled, 1), []Rule{ForwardOnly}},
		{"position falls after an older etag", pair().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).
			fault(OlderEtag, "x", 0).lease(Checkpoint, "x", 1, 0), []Rule{ForwardOnly}},
		{"older etag of another host", pair().write(1, "a").call("x", 1, Handled, 1).fault(OlderEtag, "y", 0).call("x", 1, Handled, 1), []Rule{Order}},
		{"taken because of a wrong date", pair().fault(WrongDate, "y", 0).lease(Acquire, "y", 2, 0), []Rule{ForwardOnly}},
		{"taken with no wrong date", pair().fault(WrongDate, "x", 0).lease(Acquire, "y", 2, 0), []Rule{Ownership}},

		{"dead owner, in time in spite of a request", pair().lease(Request, "y", 1, 0).host(Killed, "x").lease(Acquire, "y", 2, 0).at(60 * time.Second), nil},
		{"dead owner lives on by a request", pair().wait(40*time.Second).lease(Request, "y", 1, 0).host(Killed, "x").lease(Acquire, "y", 2, 0).at(80 * time.Second),
			[]Rule{DeadRequest}},
		{"dead owner lives on for long", pair().host(Killed, "x").wait(40*time.Second).lease(Request, "y", 1, 0).lease(Acquire, "y", 2, 0).at(60 * time.Second),
			[]Rule{DeadRequest, Takeover}},

		{"two redelivered after a release", pair().write(1, "a").write(2, "b").call("x", 1, Handled, 1, 2).lease(Release, "x", 1, 0).
			lease(Acquire, "y", 2, 0).call("y", 2, Handled, 1, 2), nil},
		{"three redelivered after a release", pair().write(1, "a").write(2, "b").write(3, "c").call("x", 1, Handled, 1, 2, 3).lease(Release, "x", 1, 0).
			lease(Acquire, "y", 2, 0).call("y", 2, Handled, 1, 2, 3), []Rule{Window}},
		{"three redelivered after all leases were created again", pair().write(1, "a").write(2, "b").write(3, "c").call("x", 1, Handled, 1, 2, 3).
			lease(Release, "x", 1, 0).tamper(Deleted, 1, 0).wait(10*time.Minute).
			part("9", "", "FF", Create, "x", 5, 0).part("9", "", "FF", Acquire, "x", 6, 0).part("9", "", "FF", Release, "x", 6, 0).
			part("9", "", "FF", Acquire, "y", 7, 0).call("y", 7, Handled, 1, 2, 3).of("9"), nil},
		{"three redelivered after a crash", pair().write(1, "a").write(2, "b").write(3, "c").call("x", 1, Handled, 1, 2, 3).host(Killed, "x").
			lease(Acquire, "y", 2, 0).call("y", 2, Handled, 1, 2, 3), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := prompt.Check(test.s.events)
			got := rulesOf(r)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s%v", diff, r.Violations)
			}
		})
	}
}

func TestAttemptsOfDeadLettersAreExact(t *testing.T) {
	letter := func(attempts int) []Event {
		return begun().write(1, "a").call("x", 1, Failed, 1).
			add(Event{Kind: End, Verdict: DeadLettered, Failed: []Ref{{"k", 1}}, Attempt: attempts}).events
	}
	for _, test := range []struct {
		name   string
		limits Limits
		got    int
		want   []Rule
	}{
		{"as configured", Limits{Attempts: 10}, 10, nil},
		{"more", Limits{Attempts: 10}, 17, []Rule{ExactAttempts}},
		{"fewer", Limits{Attempts: 10}, 3, []Rule{ExactAttempts}},
		{"fewer because the handler gave it up", Limits{Attempts: 10, AttemptsVary: true}, 3, nil},
		{"not configured", Limits{}, 3, nil},
	} {
		if diff := cmp.Diff(test.want, rulesOf(test.limits.Check(letter(test.got)))); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestChangeThatEndsItsProcessHasAnAttemptForEachDeath(t *testing.T) {
	for attempts, want := range map[int][]Rule{2: nil, 3: {ExactAttempts}} {
		s := begun().write(1, "a").host(Started, "x").begin("x", 1, 1).host(Killed, "x")
		s.host(Started, "y").lease(Acquire, "y", 2, 0).begin("y", 2, 1).host(Killed, "y")
		s.add(Event{Kind: End, Verdict: DeadLettered, Failed: []Ref{{"k", 1}}, Attempt: attempts})
		if diff := cmp.Diff(want, rulesOf(Limits{Attempts: 1}.Check(s.events))); diff != "" {
			t.Errorf("%d attempts: %s", attempts, diff)
		}
	}
}

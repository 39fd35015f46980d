package history

import (
	"fmt"
	"testing"
)

// A sink buffers three changes of one range. The first one fails, the others are handled; a
// request flushes them, and the retry of the first one comes after it.
func bufferedHistory() *story {
	s := newStory().add(Event{Kind: Host, Op: Started, Host: "a"}).add(Event{Kind: Host, Op: Started, Host: "b"})
	s.lease(Create, "a", 1, 0).lease(Marker, "a", 0, 0)
	for seq := int64(1); seq <= 3; seq++ {
		s.add(Event{Kind: Write, Key: fmt.Sprint("k", seq), Seq: 1, ID: fmt.Sprint("d", seq), LSN: seq, Hash: "10"})
	}
	return s.lease(Acquire, "a", 2, 0)
}

// deliver is one call with changes, which ends with a verdict.
func (s *story) deliver(host string, epoch int64, end Event, changes ...int64) *story {
	s.calls++
	for _, n := range changes {
		s.add(Event{Kind: Delivery, Key: fmt.Sprint("k", n), Seq: 1, ID: fmt.Sprint("d", n), LSN: n, Host: host, Range: "0", Epoch: epoch, Call: s.calls})
	}
	end.Kind, end.Call, end.Host, end.Range, end.Epoch = End, s.calls, host, "0", epoch
	return s.add(end)
}

func TestSinksAreJudged(t *testing.T) {
	buffered, failed := Event{Verdict: Handled, Op: Buffered}, Event{Verdict: Failed}
	flush := Event{Kind: Flush, Host: "a", Range: "0"}
	tests := []struct {
		name   string
		run    func() *story
		limits Limits
		want   Rule // "" is none
	}{
		{"a position passes flushed changes", func() *story {
			s := bufferedHistory().deliver("a", 2, buffered, 1, 2, 3).add(flush)
			return s.lease(Checkpoint, "a", 2, 3)
		}, Limits{}, ""},
		{"a position passes a change that was handled after the request", func() *story {
			s := bufferedHistory().deliver("a", 2, failed, 1).deliver("a", 2, buffered, 2, 3).add(flush)
			return s.deliver("a", 2, buffered, 1).lease(Checkpoint, "a", 2, 3).add(flush)
		}, Limits{}, Checkpoints},
		{"a host dies with what it has buffered", func() *story {
			return bufferedHistory().deliver("a", 2, buffered, 1, 2, 3).add(Event{Kind: Host, Op: Killed, Host: "a"})
		}, Limits{}, NoLoss},
		{"the next owner handles what a host has buffered", func() *story {
			s := bufferedHistory().deliver("a", 2, buffered, 1, 2, 3).add(Event{Kind: Host, Op: Killed, Host: "a"})
			s.lease(Acquire, "b", 3, 0).deliver("b", 3, Event{Verdict: Handled}, 1, 2, 3)
			return s.lease(Checkpoint, "b", 3, 3)
		}, Limits{}, ""},
		{"an operator skips what a host has buffered, goes back, and skips it again", func() *story {
			s := bufferedHistory().deliver("a", 2, buffered, 1, 2, 3).lease(Release, "a", 2, 0)
			s.lease(Seek, "operator", 3, 3).lease(Seek, "operator", 4, 0).lease(Seek, "operator", 5, 3)
			return s.add(Event{Kind: Host, Op: Killed, Host: "a"})
		}, Limits{}, ""},
		{"an owner passes what another host has buffered, and an operator has skipped once", func() *story {
			s := bufferedHistory().deliver("a", 2, buffered, 1, 2, 3).lease(Release, "a", 2, 0)
			s.lease(Seek, "operator", 3, 3).lease(Seek, "operator", 4, 0)
			return s.lease(Acquire, "b", 5, 0).lease(Checkpoint, "b", 5, 3)
		}, Limits{}, Checkpoints},
		{"a sink never flushes", func() *story { return bufferedHistory().deliver("a", 2, buffered, 1, 2, 3) }, Limits{}, NoLoss},
		{"a call is not in feed order", func() *story {
			return bufferedHistory().deliver("a", 2, Event{Verdict: Handled}, 1, 3, 2)
		}, Limits{}, FeedOrder},
		{"a batch is given up whole", func() *story {
			s := bufferedHistory().deliver("a", 2, Event{Verdict: Failed, Op: GaveUpAll}, 1, 2, 3)
			return s.add(Event{Kind: End, Verdict: DeadLettered, Range: "0", Epoch: 2, Failed: []Ref{{"k1", 1}, {"k2", 1}, {"k3", 1}}})
		}, Limits{Halves: true}, GivenUpAlone},
		{"a batch is halved until a change that is given up is alone", func() *story {
			s := bufferedHistory().deliver("a", 2, Event{Verdict: Failed, Op: GaveUpAll}, 1, 2, 3).deliver("a", 2, Event{Verdict: Failed, Op: GaveUpAll}, 1)
			s.deliver("a", 2, Event{Verdict: Handled}, 2, 3)
			return s.add(Event{Kind: End, Verdict: DeadLettered, Range: "0", Epoch: 2, Failed: []Ref{{"k1", 1}}})
		}, Limits{Halves: true}, ""},
		{"a batch is halved, and a change that is given up has hung alone", func() *story {
			s := bufferedHistory().deliver("a", 2, Event{Verdict: Failed, Op: GaveUpAll}, 1, 2, 3).deliver("a", 2, Event{Verdict: Handled}, 2, 3)
			s.add(Event{Kind: Delivery, Key: "k1", Seq: 1, ID: "d1", LSN: 1, Host: "a", Range: "0", Epoch: 2, Call: s.calls + 1})
			return s.add(Event{Kind: End, Verdict: DeadLettered, Range: "0", Epoch: 2, Failed: []Ref{{"k1", 1}}})
		}, Limits{Halves: true}, ""},
		{"a batch is given up, and a change of it that is given up has hung with another", func() *story {
			s := bufferedHistory().deliver("a", 2, Event{Verdict: Failed, Op: GaveUpAll}, 1, 2, 3)
			for seq := range 2 {
				s.add(Event{Kind: Delivery, Key: fmt.Sprint("k", seq+1), Seq: 1, ID: fmt.Sprint("d", seq+1), LSN: int64(seq + 1), Host: "a", Range: "0", Epoch: 2, Call: s.calls + 1})
			}
			return s.add(Event{Kind: End, Verdict: DeadLettered, Range: "0", Epoch: 2, Failed: []Ref{{"k1", 1}}})
		}, Limits{Halves: true}, GivenUpAlone},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			report := test.limits.Check(test.run().events)
			rules := map[Rule]bool{}
			for _, v := range report.Violations {
				rules[v.Rule] = true
			}
			if test.want == "" && len(rules) > 0 || test.want != "" && !rules[test.want] {
				t.Errorf("violations %v, want rule %q", report.Violations, test.want)
			}
		})
	}
}

// An owner that has flushed at its end releases the lease with its position. One that has
// not, or whose sink has refused, leaves its changes to the next owner.
func TestReleasesAfterAFlushAreJudged(t *testing.T) {
	limits := Limits{Window: 2, Requests: true}
	buffered, flush := Event{Verdict: Handled, Op: Buffered}, Event{Kind: Flush, Host: "a", Range: "0", Epoch: 2}
	refused, request := flush, flush
	refused.Verdict, request.Epoch = Failed, 0
	for name, test := range map[string]struct {
		events []Event
		want   int // violations
	}{
		"flushed": {[]Event{flush}, 1}, "refused": {[]Event{refused}, 0}, "asked before": {[]Event{request}, 0}, "not flushed": {nil, 0},
	} {
		s := bufferedHistory().deliver("a", 2, buffered, 1, 2, 3)
		for _, e := range test.events {
			s.add(e)
		}
		s.lease(Release, "a", 2, 0).lease(Acquire, "b", 3, 0).deliver("b", 3, Event{Verdict: Handled}, 1, 2, 3)
		found := 0
		for _, v := range limits.Check(s.events).Violations {
			if v.Rule == Window {
				found++
			}
		}
		if found != test.want {
			t.Errorf("%s: %d violations of %q, want %d", name, found, Window, test.want)
		}
	}
}

package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// story is a small history: each of its methods adds an event, one second after
// the last one.
type story struct {
	now    time.Time
	events []Event
	calls  int64
}

func newStory() *story { return &story{now: time.Unix(0, 0)} }

func (s *story) add(e Event) *story {
	s.now = s.now.Add(time.Second)
	e.Time = s.now
	if e.Kind == Lease && e.Sent.IsZero() {
		e.Sent = s.now
	}
	s.events = append(s.events, e)
	return s
}

func (s *story) wait(d time.Duration) *story {
	s.now = s.now.Add(d)
	return s
}

// write adds change seq of key "k", document id, at position seq.
func (s *story) write(seq int64, id string) *story {
	return s.add(Event{Kind: Write, Key: "k", Seq: seq, ID: id, LSN: seq, Hash: "80"})
}

// lease adds a write of lease "0" of the whole key space.
func (s *story) lease(op Op, host string, epoch, position int64) *story {
	return s.part("0", "", "FF", op, host, epoch, position)
}

func (s *story) part(token, lo, hi string, op Op, host string, epoch, position int64) *story {
	owner := host
	if op == Create || op == Release || op == Tombstone {
		owner = ""
	}
	return s.add(Event{Kind: Lease, Op: op, Range: token, Min: lo, Max: hi, Host: host, Owner: owner, Epoch: epoch, Position: position})
}

func (s *story) tamper(op Op, epoch, position int64) *story {
	return s.add(Event{Kind: Tamper, Op: op, Range: "0", Max: "FF", Epoch: epoch, Position: position})
}

// second adds a write of a second document for the range of lease "0".
func (s *story) second(op Op, host string, epoch, position int64) *story {
	s.lease(op, host, epoch, position)
	s.events[len(s.events)-1].ID = "second"
	return s
}

func (s *story) planted(epoch, position int64) *story {
	s.tamper(Duplicated, epoch, position)
	s.events[len(s.events)-1].ID = "second"
	return s
}

func (s *story) marker() *story { return s.add(Event{Kind: Lease, Op: Marker}) }

// begun creates lease "0", which x owns in epoch 1.
func begun() *story { return newStory().lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0) }

// call adds a handler call by host with some changes, and its verdict.
func (s *story) call(host string, epoch int64, v Verdict, seqs ...int64) *story {
	return s.begin(host, epoch, seqs...).end(host, v)
}

func (s *story) begin(host string, epoch int64, seqs ...int64) *story {
	s.calls++
	for _, seq := range seqs {
		id := ""
		for _, e := range s.events {
			if e.Kind == Write && e.Seq == seq {
				id = e.ID
			}
		}
		s.add(Event{Kind: Delivery, Key: "k", Seq: seq, ID: id, LSN: seq, Host: host, Range: "0", Epoch: epoch, Attempt: 1, Call: s.calls})
	}
	return s
}

func (s *story) end(host string, v Verdict, failed ...int64) *story {
	e := Event{Kind: End, Host: host, Range: "0", Call: s.calls, Verdict: v}
	for _, seq := range failed {
		e.Failed = append(e.Failed, Ref{"k", seq})
	}
	return s.add(e)
}

func (s *story) host(op Op, name string) *story { return s.add(Event{Kind: Host, Op: op, Host: name}) }

var minute = Limits{Expiration: time.Minute, AcquireInterval: 13 * time.Second, Memory: 1000}

func TestCheckOfLeasesAndCalls(t *testing.T) {
	for _, test := range []struct {
		name string
		s    *story
		want []Rule
	}{
		{"no violation", begun().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).lease(Release, "x", 1, 1), nil},
		{"delivered and never handled", begun().write(1, "a").call("x", 1, Failed, 1), []Rule{NoLoss}},
		{"superseded after a failure", begun().write(1, "a").call("x", 1, Failed, 1).write(2, "a").call("x", 1, Handled, 2), nil},
		{"dead letter is handled", begun().write(1, "a").call("x", 1, Failed, 1).
			add(Event{Kind: End, Verdict: DeadLettered, Failed: []Ref{{"k", 1}}}).lease(Checkpoint, "x", 1, 1), nil},

		{"dead letter that was never delivered", begun().write(1, "a").add(Event{Kind: End, Verdict: DeadLettered, Failed: []Ref{{"k", 1}}}), []Rule{Untried}},
		{"dead letter of a blocked key", begun().write(1, "a").add(Event{Kind: End, Op: BlockedKey, Verdict: DeadLettered, Failed: []Ref{{"k", 1}}}), nil},

		{"checkpoint before the handler ends", begun().write(1, "a").begin("x", 1, 1).lease(Checkpoint, "x", 1, 1).end("x", Handled), []Rule{Checkpoints}},
		{"checkpoint past a failed change", begun().write(1, "a").write(2, "b").begin("x", 1, 1, 2).end("x", PartlyFailed, 1).
			lease(Checkpoint, "x", 1, 2).call("x", 1, Handled, 1), []Rule{Checkpoints}},
		{"checkpoint before a newer version", begun().write(1, "a").write(2, "a").lease(Checkpoint, "x", 1, 1).call("x", 1, Handled, 2), nil},
		{"release past what is handled", begun().write(1, "a").lease(Release, "x", 1, 1).lease(Acquire, "y", 2, 0).call("y", 2, Handled, 1),
			[]Rule{Checkpoints, Monotone}},
		{"child past what is handled", begun().write(1, "a").part("1", "", "80", Create, "x", 2, 1).part("2", "80", "FF", Create, "x", 2, 1).
			call("x", 1, Handled, 1), []Rule{Checkpoints}},

		{"position falls", begun().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).lease(Renew, "x", 1, 0), []Rule{Monotone}},
		{"epoch falls", begun().lease(Acquire, "y", 5, 0).lease(Acquire, "z", 4, 0), []Rule{Monotone, Monotone}},
		{"epoch rises without an acquisition", begun().lease(Renew, "x", 2, 0), []Rule{Monotone, Ownership}},
		{"child below its parent", begun().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).
			part("1", "", "80", Create, "x", 2, 0).part("2", "80", "FF", Create, "x", 1, 1).lease(Retire, "x", 1, 1), []Rule{Monotone, Monotone}},

		{"delivery without a lease", begun().write(1, "a").call("y", 1, Handled, 1), []Rule{Ownership}},
		{"delivery after the lease ran out", begun().write(1, "a").wait(2*time.Minute).call("x", 1, Handled, 1), []Rule{Ownership}},
		{"write by a superseded owner", begun().lease(Acquire, "y", 2, 0).lease(Renew, "x", 1, 0), []Rule{Monotone, Monotone}},
		{"one epoch, two hosts", begun().lease(Release, "x", 1, 0).lease(Acquire, "y", 2, 0).lease(Acquire, "z", 2, 0), []Rule{Monotone, Ownership}},
		{"a copy of an earlier acquisition with the epoch of its owner", begun().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).
			tamper(Restored, 0, 0).lease(Acquire, "x", 1, 0).tamper(Restored, 1, 1).lease(Renew, "x", 1, 0), nil},
		{"position falls after one restore", begun().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).
			tamper(Restored, 1, 1).lease(Renew, "x", 1, 0), []Rule{Monotone}},
		{"one epoch twice after a restore", begun().tamper(Restored, 0, 0).lease(Acquire, "y", 1, 0), nil},

		{"handled again by the same owner", begun().write(1, "a").call("x", 1, Handled, 1).call("x", 1, Handled, 1), []Rule{Order}},
		{"redelivered after a failure", begun().write(1, "a").call("x", 1, Failed, 1).call("x", 1, Handled, 1), nil},
		{"handled again after a takeover", begun().write(1, "a").call("x", 1, Handled, 1).lease(Acquire, "y", 2, 0).call("y", 2, Handled, 1), nil},
		{"handled again although checkpointed", begun().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).
			lease(Acquire, "y", 2, 1).call("y", 2, Handled, 1), []Rule{Duplicates}},

		{"child by a request that left before its parent was acquired", begun().lease(Release, "x", 1, 0).lease(Acquire, "y", 2, 0).
			part("1", "", "80", Create, "x", 2, 0).sent(5*time.Second).part("2", "80", "FF", Create, "y", 3, 0).lease(Retire, "y", 2, 0), nil},
		{"split", begun().part("1", "", "80", Create, "x", 2, 0).part("2", "80", "FF", Create, "x", 2, 0).lease(Retire, "x", 1, 0).
			add(Event{Kind: Calm}), nil},
		{"parent first", begun().lease(Retire, "x", 1, 0).part("1", "", "80", Create, "x", 2, 0), []Rule{Coverage, Coverage, Coverage}},
		{"one child missing", begun().part("1", "", "80", Create, "x", 2, 0).lease(Retire, "x", 1, 0), []Rule{Coverage}},
		{"parent stays", begun().part("1", "", "80", Create, "x", 2, 0).add(Event{Kind: Calm}), []Rule{Coverage}},
		{"deleted by tampering and created again", begun().tamper(Deleted, 1, 0).lease(Create, "x", 0, 0).add(Event{Kind: Calm}), nil},
		{"deleted by tampering for good", begun().tamper(Deleted, 1, 0).add(Event{Kind: Calm}), []Rule{Coverage}},
		{"created twice", begun().lease(Create, "y", 2, 0), []Rule{Coverage, Coverage}},

		{"new owner while calm", begun().add(Event{Kind: Calm}).lease(Acquire, "y", 2, 0), []Rule{Churn}},
		{"takeover in time", newStory().host(Started, "x").host(Started, "y").lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0).
			host(Killed, "x").wait(80*time.Second).lease(Acquire, "y", 2, 0), nil},
		{"takeover too late", newStory().host(Started, "x").host(Started, "y").lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0).
			host(Killed, "x").wait(2*time.Minute).lease(Acquire, "y", 2, 0), []Rule{Takeover}},
		{"no takeover", newStory().host(Started, "x").host(Started, "y").lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0).
			host(Killed, "x").wait(2 * time.Minute).add(Event{Kind: Held, Host: "y", Bytes: 1}), []Rule{Takeover}},
		{"two hosts die one after the other", newStory().host(Started, "x").host(Started, "y").host(Started, "z").
			lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0).
			host(Killed, "x").wait(time.Minute).host(Killed, "z").wait(80*time.Second).lease(Acquire, "y", 2, 0), nil},
		{"takeover late because of a fault", newStory().host(Started, "x").host(Started, "y").lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0).
			host(Killed, "x").add(Event{Kind: Fault, Op: "network"}).wait(2*time.Minute).lease(Acquire, "y", 2, 0), nil},
		{"takeover by a host that started late", newStory().host(Started, "x").lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0).
			host(Killed, "x").wait(time.Hour).host(Started, "y").wait(time.Minute).lease(Acquire, "y", 2, 0), nil},

		// y has read 1 before it was superseded, and x reads after.
		{"two documents, two owners, out of order", begun().host(Started, "x").host(Started, "y").planted(1, 0).second(Acquire, "y", 2, 0).
			write(1, "a").write(2, "a").call("x", 1, Handled, 2).call("y", 2, Handled, 1).call("y", 2, Handled, 2), nil},
		{"two documents, one owner after the other, out of order", begun().host(Started, "x").host(Started, "y").planted(1, 0).
			wait(2*time.Minute).lease(Renew, "x", 1, 0).write(1, "a").write(2, "a").call("x", 1, Handled, 2).lease(Release, "x", 1, 0).
			second(Acquire, "y", 2, 0).call("y", 2, Handled, 1).call("y", 2, Handled, 2), []Rule{Order}},
		{"two documents while calm, two owners", begun().host(Started, "x").host(Started, "y").planted(1, 0).second(Acquire, "y", 2, 0).
			add(Event{Kind: Calm}), []Rule{Ownership}},
		{"two documents while calm, one owner", begun().host(Started, "x").host(Started, "y").planted(1, 0).second(Acquire, "y", 2, 0).
			lease(Release, "x", 1, 0).add(Event{Kind: Calm}), nil},
		{"two documents while calm, one owner gone", begun().host(Started, "x").host(Started, "y").planted(1, 0).second(Acquire, "y", 2, 0).
			host(Killed, "x").wait(time.Hour).add(Event{Kind: Calm}), nil},
		{"two documents while calm, one expired", begun().host(Started, "x").host(Started, "y").planted(1, 0).second(Acquire, "y", 2, 0).
			wait(time.Hour).second(Renew, "y", 2, 0).add(Event{Kind: Calm}), nil},
		{"taken from a working owner", begun().host(Started, "x").lease(Renew, "x", 1, 0).lease(Acquire, "y", 2, 0), []Rule{Ownership}},
		{"taken from a working owner, by a wrong clock, out of order", begun().host(Started, "x").add(Event{Kind: Fault, Op: ClockStep, Host: "y"}).
			lease(Renew, "x", 1, 0).lease(Acquire, "y", 2, 0).
			write(1, "a").write(2, "a").call("x", 1, Handled, 2).call("y", 2, Handled, 1).call("y", 2, Handled, 2), nil},
		{"taken from an owner that does not answer", begun().host(Started, "x").lease(Request, "y", 1, 0).wait(time.Minute).
			lease(Renew, "x", 1, 0).lease(Acquire, "y", 2, 0), []Rule{NoRobbery}},
		{"taken from an owner that has just got a request", begun().host(Started, "x").lease(Request, "y", 1, 0).lease(Acquire, "y", 2, 0), []Rule{Ownership}},
		{"taken from a dead owner", begun().host(Started, "x").host(Started, "y").host(Killed, "x").lease(Acquire, "y", 2, 0), nil},

		{"child of a copy, no epoch of its own", begun().planted(0, 0).part("1", "", "80", Create, "x", 1, 0), []Rule{Monotone}},
		{"child of a corrupted lease", begun().tamper(Corrupted, 7, 0).part("1", "", "80", Create, "x", 7, 0), nil},
		{"child of an old copy", begun().write(1, "a").call("x", 1, Handled, 1).lease(Checkpoint, "x", 1, 1).planted(1, 0).
			part("1", "", "80", Create, "x", 2, 0), nil},

		{"memory", begun().add(Event{Kind: Held, Host: "x", Bytes: 1000}).add(Event{Kind: Held, Host: "x", Bytes: 1001}), []Rule{Memory}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := minute.Check(test.s.events)
			got := rulesOf(r)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s%v", diff, r.Violations)
			}
		})
	}
}

func rulesOf(r Report) (list []Rule) {
	for _, v := range r.Violations {
		list = append(list, v.Rule)
	}
	return list
}

func TestTakeoversAreMeasured(t *testing.T) {
	s := newStory().host(Started, "x").host(Started, "y").lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0).
		host(Killed, "x").wait(70*time.Second).lease(Acquire, "y", 2, 0)
	r := minute.Check(s.events)
	if r.Takeovers != 1 || r.Slowest != 71*time.Second {
		t.Errorf("%d takeovers, the slowest took %s", r.Takeovers, r.Slowest)
	}
}

func TestViolationsAreSentences(t *testing.T) {
	r := minute.Check(begun().write(1, "a").begin("x", 1, 1).lease(Checkpoint, "x", 1, 1).end("x", Handled).events)
	want := `checkpoint: "x": checkpoint of lease "0" at 1, but k/1 at 1 is not handled at 00:00:06.000`
	if len(r.Violations) != 1 || r.Violations[0].String() != want {
		t.Errorf("got %v, want %s", r.Violations, want)
	}
	if s := (Violation{Rule: NoLoss, Key: "k", Text: "lost"}).String(); !strings.HasPrefix(s, `no loss: key "k"`) {
		t.Error(s)
	}
}

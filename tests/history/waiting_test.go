package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fiveHandled is a story in which x has handled five changes and saved none of them.
func fiveHandled() *story {
	s := newStory().host(Started, "x").host(Started, "y").lease(Create, "x", 0, 0).marker().lease(Acquire, "x", 1, 0)
	for seq := int64(1); seq <= 5; seq++ {
		s.write(seq, fmt.Sprint("d", seq))
	}
	return s.call("x", 1, Handled, 1, 2, 3, 4, 5)
}

// dies ends x and lets y acquire the lease at the beginning.
func (s *story) dies() *story { return s.host(Killed, "x").lease(Acquire, "y", 2, 0) }

// loses lets the lease of x expire, although x runs, and y acquire it at the beginning.
func (s *story) loses() *story {
	return s.lease(Renew, "x", 1, 0).lease(Renew, "x", 1, 0).wait(2*time.Minute).lease(Acquire, "y", 2, 0)
}

// inMemory changes the end of the last call: its changes are in the memory of the sink.
func (s *story) inMemory() *story {
	s.events[len(s.events)-1].Op = Buffered
	return s
}

func TestRepeatsAfterAKillAreJudged(t *testing.T) {
	limits := minute
	limits.Window = 3
	for _, test := range []struct {
		name string
		s    *story
		want []Rule
	}{
		{"saved and within the window", fiveHandled().lease(Renew, "x", 1, 0).lease(Renew, "x", 1, 0).dies().call("y", 2, Handled, 3, 4, 5), nil},
		{"saved and beyond the window", fiveHandled().lease(Renew, "x", 1, 0).lease(Renew, "x", 1, 0).dies().call("y", 2, Handled, 1, 2, 3, 4, 5), []Rule{Repeats}},
		{"handled since the write before the last", fiveHandled().lease(Renew, "x", 1, 0).dies().call("y", 2, Handled, 1, 2, 3, 4, 5), nil},
		{"after a merge", fiveHandled().lease(Renew, "x", 1, 0).lease(Renew, "x", 1, 0).
			add(Event{Kind: Fault, Op: Merge, Until: time.Unix(60, 0)}).dies().call("y", 2, Handled, 1, 2, 3, 4, 5), nil},
		{"after a foreign owner", fiveHandled().lease(Renew, "x", 1, 0).lease(Renew, "x", 1, 0).host(Killed, "x").
			lease(ForeignTake, "net", 1, 0).lease(ForeignRelease, "net", 1, 0).lease(Acquire, "y", 2, 0).call("y", 2, Handled, 1, 2, 3, 4, 5), nil},
		{"a sink that has not flushed", fiveHandled().inMemory().loses().call("y", 2, Handled, 1, 2, 3, 4, 5), nil},
		{"a sink that has flushed", fiveHandled().inMemory().add(Event{Kind: Flush, Host: "x", Range: "0"}).loses().
			call("y", 2, Handled, 1, 2, 3, 4, 5), []Rule{Repeats}},
		{"a sink that has flushed, and the next that has not", fiveHandled().inMemory().add(Event{Kind: Flush, Host: "x", Range: "0"}).dies().
			call("y", 2, Handled, 1, 2, 3, 4, 5).inMemory().lease(Renew, "y", 2, 0).lease(Renew, "y", 2, 0).
			host(Killed, "y").host(Started, "z").lease(Acquire, "z", 3, 0).call("z", 3, Handled, 1, 2, 3, 4, 5), nil},
		{"a second owner that is killed", fiveHandled().lease(Renew, "x", 1, 0).lease(Renew, "x", 1, 0).dies().call("y", 2, Handled, 4, 5).
			host(Killed, "y").host(Started, "z").lease(Acquire, "z", 3, 0).call("z", 3, Handled, 3, 4, 5), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := limits.Check(test.s.events)
			if diff := cmp.Diff(test.want, rulesOf(r)); diff != "" {
				t.Errorf("%s%v", diff, r.Violations)
			}
			silent := limits
			silent.SilentRequests = true
			if r := silent.Check(test.s.events); len(r.Violations) > 0 {
				t.Errorf("with requests that the history does not tell: %v", r.Violations)
			}
		})
	}
}

func TestSeeksAreFollowedByDeliveries(t *testing.T) {
	free := func(op Op, epoch, position int64) *story {
		s := fiveHandled().lease(Checkpoint, "x", 1, 3).lease(Release, "x", 1, 3)
		return s.add(Event{Kind: Lease, Op: op, Range: "0", Max: "FF", Host: "operator", Epoch: epoch, Position: position})
	}
	for _, test := range []struct {
		name string
		s    *story
		want []Rule
	}{
		{"all are repeated", free(Seek, 2, 0).lease(Acquire, "y", 3, 0).call("y", 3, Handled, 1, 2, 3, 4, 5), nil},
		{"a finished change is passed over", free(Seek, 2, 0).lease(Acquire, "y", 3, 0).call("y", 3, Handled, 1, 2, 3, 4), []Rule{NewestLast, SeekRepeats}},
		{"to the same position", free(Seek, 2, 3).lease(Acquire, "y", 3, 3).call("y", 3, Handled, 4, 5), nil},
		{"to the same position, and passed over", free(Seek, 2, 3).lease(Acquire, "y", 3, 3), []Rule{SeekRepeats}},
		{"a release wants nothing again", free(Free, 2, 3).lease(Acquire, "y", 3, 3), nil},
		{"a later seek decides", free(Seek, 2, 0).add(Event{Kind: Lease, Op: Seek, Range: "0", Max: "FF", Host: "operator", Epoch: 3, Position: 5}), nil},
		{"the lease is restored since", free(Seek, 2, 0).tamper(Restored, 1, 3), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := minute.Check(test.s.events)
			got := rulesOf(r)
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s%v", diff, r.Violations)
			}
		})
	}
}

func TestForeignOwnersAreJudged(t *testing.T) {
	taken := func() *story { return fiveHandled().lease(ForeignTake, "net", 1, 0) }
	for _, test := range []struct {
		name string
		s    *story
		want []Rule
	}{
		{"moves the position and frees the lease", taken().call("net", 1, Handled, 1, 2, 3, 4, 5).lease(ForeignMove, "net", 1, 5).
			lease(ForeignRelease, "net", 1, 5).lease(Acquire, "y", 2, 5), nil},
		{"moves past an unhandled change", taken().write(6, "d6").lease(ForeignMove, "net", 1, 6).lease(Acquire, "y", 2, 6), []Rule{Checkpoints, NoLoss, Checkpoints}},
		{"is followed by an owner that passes over what the key needs", taken().call("net", 1, Handled, 1, 2).lease(ForeignMove, "net", 1, 2).
			lease(ForeignRelease, "net", 1, 2).lease(Acquire, "y", 2, 2), []Rule{NewestLast}},
		{"and an operator moves the position ahead", taken().call("net", 1, Handled, 1, 2).lease(ForeignMove, "net", 1, 2).lease(ForeignRelease, "net", 1, 2).
			add(Event{Kind: Lease, Op: Seek, Range: "0", Max: "FF", Host: "operator", Epoch: 2, Position: 5}), nil},
		{"is followed by an owner at the place before", taken().call("net", 1, Handled, 1, 2).lease(ForeignMove, "net", 1, 2).lease(ForeignMove, "net", 1, 0).
			lease(ForeignRelease, "net", 1, 0).lease(Acquire, "y", 2, 0).call("y", 2, Handled, 1, 2, 3, 4, 5), nil},
		{"passes a change in the store", fiveHandled().write(6, "d6").write(7, "d6").
			add(Event{Kind: End, Verdict: Postponed, Op: BlockedKey, Host: "x", Range: "0", Epoch: 1, Failed: []Ref{{Key: "k", Seq: 6}}}).lease(ForeignTake, "net", 1, 0).
			call("net", 1, Handled, 7).lease(ForeignRelease, "net", 1, 0).wait(10*time.Minute).lease(Acquire, "y", 2, 0).call("y", 2, Handled, 1, 2, 3, 4, 5, 6, 7), nil},
		{"writes a lease that is deleted", fiveHandled().lease(Retire, "x", 1, 0).lease(ForeignTake, "net", 1, 0), []Rule{Coverage, Ownership}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := minute.Check(test.s.events)
			got := rulesOf(r)
			slices.Sort(got)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s%v", diff, r.Violations)
			}
		})
	}
}

// A change of another key may not wait for a failing key, whether it has been read or not.
func TestKeysApartAreJudgedFromTheWrite(t *testing.T) {
	for _, test := range []struct {
		name string
		tell func(p *poisonStory)
		want []Rule
	}{
		{"read late and called at once", func(p *poisonStory) {
			p.add(Event{Kind: Write, Key: "late", Seq: 1, ID: "late", LSN: 9, Hash: "80"})
			for range 2 {
				p.fails()
				p.wait(10 * time.Second)
			}
			p.lsn = 9
			p.readPage()
			p.call("late", 9, Handled)
			p.fails()
			p.deadLetter()
		}, []Rule{KeysApart}},
		{"called soon after the poll", func(p *poisonStory) {
			p.fails()
			p.add(Event{Kind: Write, Key: "soon", Seq: 1, ID: "soon", LSN: 9, Hash: "80"})
			p.wait(4 * time.Second)
			p.fails()
			p.lsn = 9
			p.readPage()
			p.call("soon", 9, Handled)
			p.fails()
			p.deadLetter()
		}, nil},
		{"behind an earlier change of its own key", func(p *poisonStory) {
			p.add(Event{Kind: Write, Key: "bad", Seq: 2, ID: "bad2", LSN: 2, Hash: "80"})
			for range 3 {
				p.fails()
				p.wait(10 * time.Second)
			}
			p.deadLetter()
			p.calls++
			p.add(Event{Kind: Delivery, Key: "bad", Seq: 2, ID: "bad2", LSN: 2, Host: "x", Range: "0", Epoch: 1, Attempt: 1, Call: p.calls})
			p.end("x", Handled)
		}, nil},
		{"while the sink is down", func(p *poisonStory) {
			down := []func(Verdict){}
			for _, key := range []string{"a", "b", "c"} {
				p.good++
				p.lsn++
				lsn := p.lsn
				p.add(Event{Kind: Write, Key: key, Seq: 1, ID: key, LSN: lsn, Hash: "80"})
				down = append(down, func(v Verdict) { p.call(key, lsn, v) })
			}
			p.readPage()
			p.add(Event{Kind: Write, Key: "late", Seq: 1, ID: "late", LSN: 9, Hash: "80"})
			for _, call := range down {
				call(Failed)
			}
			p.wait(20 * time.Second)
			for _, call := range down {
				call(Handled)
			}
			p.lsn = 9
			p.readPage()
			p.call("late", 9, Handled)
			p.fails()
			p.deadLetter()
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPoisonStory()
			test.tell(p)
			limits := poisoned
			limits.Poll, limits.Attempts = 5*time.Second, 0
			r := limits.Check(p.events)
			got := slices.DeleteFunc(rulesOf(r), func(rule Rule) bool { return rule != KeysApart })
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s%v", diff, r.Violations)
			}
			if r.Tallies[KeysApart].Judged == 0 && test.want != nil {
				t.Errorf("not judged: %v", r.Tallies)
			}
		})
	}
}

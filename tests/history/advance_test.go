package history

import (
	"testing"
	"time"
)

// Two drains in a row that handle the first changes behind a position and do not move it
// repeat the same work for ever.
func TestAdvancesAreJudged(t *testing.T) {
	call := func(s *story, epoch int64, verdict Verdict, seqs ...int64) {
		for _, seq := range seqs {
			s.calls++
			s.add(Event{Kind: Delivery, Key: "k", Seq: seq, ID: string(rune('a' + seq)), Host: "a", Range: "0", Epoch: epoch, Call: s.calls, LSN: seq})
			s.add(Event{Kind: End, Call: s.calls, Verdict: verdict})
		}
	}
	work := func(s *story, epoch int64, verdict Verdict, seqs ...int64) {
		s.lease(Acquire, "a", epoch, 0)
		call(s, epoch, verdict, seqs...)
	}
	for _, test := range []struct {
		name     string
		manual   bool
		story    func(s *story)
		isBroken bool
	}{
		{"second drain moves", false, func(s *story) {
			work(s, 2, Handled, 1, 2)
			s.lease(Release, "a", 2, 0)
			work(s, 3, Handled, 1)
			s.lease(Release, "a", 3, 1)
		}, false},
		{"no drain moves", false, func(s *story) {
			work(s, 2, Handled, 1, 2)
			s.lease(Release, "a", 2, 0)
			work(s, 3, Handled, 1)
			s.lease(Release, "a", 3, 0)
		}, true},
		{"manual checkpoints", true, func(s *story) {
			work(s, 2, Handled, 1, 2)
			s.lease(Release, "a", 2, 0)
			work(s, 3, Handled, 1)
			s.lease(Release, "a", 3, 0)
		}, false},
		{"first change fails", false, func(s *story) {
			work(s, 2, Handled, 1, 2)
			s.lease(Release, "a", 2, 0)
			work(s, 3, Failed, 1)
			call(s, 3, Handled, 2)
			s.lease(Release, "a", 3, 0)
		}, false},
		{"first change failed before", false, func(s *story) {
			work(s, 2, Failed, 1)
			call(s, 2, Handled, 2)
			s.lease(Release, "a", 2, 0)
			work(s, 3, Handled, 1)
			s.lease(Release, "a", 3, 0)
		}, false},
		{"another owner between them", false, func(s *story) {
			work(s, 2, Handled, 1)
			s.lease(Release, "a", 2, 0).lease(Acquire, "b", 3, 0).lease(Release, "b", 3, 0)
			work(s, 4, Handled, 1)
			s.lease(Release, "a", 4, 0)
		}, false},
		{"lease tampered with", false, func(s *story) {
			work(s, 2, Handled, 1)
			s.lease(Release, "a", 2, 0).tamper(Restored, 2, 0)
			work(s, 3, Handled, 1)
			s.lease(Release, "a", 3, 0)
		}, false},
	} {
		s := newStory().lease(Create, "a", 1, 0).lease(Marker, "a", 1, 0).write(1, "b").write(2, "c")
		test.story(s)
		isBroken := false
		for _, v := range (Limits{Expiration: time.Minute, Drains: true, Requests: test.manual}).Check(s.events).Violations {
			isBroken = isBroken || v.Rule == Advances
		}
		if isBroken != test.isBroken {
			t.Errorf("%s: broken %v, want %v", test.name, isBroken, test.isBroken)
		}
	}
}

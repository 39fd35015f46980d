package history

import (
	"strings"
	"testing"
	"time"
)

func TestOperatorIsJudged(t *testing.T) {
	limits := Limits{Expiration: time.Minute, AcquireInterval: 13 * time.Second, RenewInterval: 17 * time.Second}
	start := func() *story {
		s := newStory().add(Event{Kind: Host, Op: Started, Host: "a"}).add(Event{Kind: Host, Op: Started, Host: "b"})
		return s.lease(Create, "a", 1, 0).lease(Marker, "a", 0, 0)
	}
	// work delivers and handles a change in an epoch.
	work := func(s *story, host string, epoch, seq int64) *story {
		s.calls++
		s.add(Event{Kind: Delivery, Key: "k", Seq: seq, ID: "d" + string(rune('0'+seq)), Host: host, Range: "0", Epoch: epoch, Call: s.calls, LSN: seq})
		return s.add(Event{Kind: End, Call: s.calls, Verdict: Handled})
	}
	written := func(n int64) *story {
		s := start()
		for seq := int64(1); seq <= n; seq++ {
			s.write(seq, "d"+string(rune('0'+seq)))
		}
		return s
	}
	free := func(s *story, op Op, epoch, position int64) *story {
		return s.add(Event{Kind: Lease, Op: op, Range: "0", Max: "FF", Host: "operator", Epoch: epoch, Position: position})
	}
	tests := []struct {
		name string
		run  func() *story
		want Rule // "" is none
	}{
		{"a seek backwards repeats", func() *story {
			s := work(work(written(2).lease(Acquire, "a", 2, 0), "a", 2, 1), "a", 2, 2).lease(Release, "a", 2, 2)
			s = free(s, Seek, 3, 0).lease(Acquire, "b", 4, 0)
			return work(work(s, "b", 4, 1), "b", 4, 2).lease(Release, "b", 4, 2)
		}, ""},
		{"a seek backwards has no gap", func() *story {
			s := work(work(written(2).lease(Acquire, "a", 2, 0), "a", 2, 1), "a", 2, 2).lease(Release, "a", 2, 2)
			s = free(s, Seek, 3, 0).lease(Acquire, "b", 4, 0)
			return work(s, "b", 4, 1).lease(Release, "b", 4, 2).write(3, "d3").lease(Acquire, "a", 5, 2)
		}, NoLoss},
		{"a seek forwards skips", func() *story {
			s := free(written(2), Seek, 2, 1).lease(Acquire, "b", 3, 1)
			return work(s, "b", 3, 2).lease(Release, "b", 3, 2)
		}, ""},
		{"a seek forwards skips nothing else", func() *story {
			return free(written(2), Seek, 2, 1).lease(Acquire, "b", 3, 1).lease(Release, "b", 3, 2)
		}, Checkpoints},
		{"skipped changes are due again after a seek backwards", func() *story {
			s := free(free(written(2), Seek, 2, 2), Seek, 3, 0).lease(Acquire, "b", 4, 0)
			return work(s, "b", 4, 2).lease(Release, "b", 4, 2)
		}, Checkpoints},
		{"a copy from before the seek backwards skips them again", func() *story {
			return free(free(written(2), Seek, 2, 2), Seek, 3, 0).tamper(Restored, 2, 2).lease(Acquire, "b", 3, 2).lease(Release, "b", 3, 2)
		}, ""},
		{"a copy skips nothing that no seek had skipped", func() *story {
			return written(2).tamper(Restored, 2, 2).lease(Acquire, "b", 3, 2).lease(Release, "b", 3, 2)
		}, Checkpoints},
		{"a skipped change that was postponed since stays in the store", func() *story {
			s := free(written(1), Seek, 2, 1)
			s.add(Event{Kind: End, Verdict: Postponed, Op: BlockedKey, Range: "0", Epoch: 2, Failed: []Ref{{"k", 1}}})
			s = free(s, Seek, 3, 0).lease(Acquire, "b", 4, 0).lease(Checkpoint, "b", 4, 1)
			return work(s, "b", 4, 1).lease(Release, "b", 4, 1)
		}, ""},
		{"a position moves while a host holds the lease", func() *story {
			s := written(1).lease(Acquire, "a", 2, 0)
			return work(free(s, Seek, 3, 0).lease(Acquire, "b", 4, 0), "b", 4, 1).lease(Release, "b", 4, 1)
		}, Ownership},
		{"a seek keeps the epoch", func() *story {
			s := free(written(1), Seek, 1, 0).lease(Acquire, "b", 2, 0)
			return work(s, "b", 2, 1).lease(Release, "b", 2, 1)
		}, Monotone},
		{"a paused lease is acquired", func() *story {
			s := free(written(1), Pause, 1, 0).lease(Acquire, "b", 2, 0)
			return work(s, "b", 2, 1).lease(Release, "b", 2, 1)
		}, PausedRange},
		{"an owner does not stop at a pause", func() *story {
			s := free(written(1).lease(Acquire, "a", 2, 0), Pause, 2, 0).wait(30 * time.Second)
			return work(s, "a", 2, 1).lease(Release, "a", 2, 1)
		}, PausedRange},
		{"an owner stops soon after a pause", func() *story {
			s := free(written(1).lease(Acquire, "a", 2, 0), Pause, 2, 0).wait(10 * time.Second)
			return work(s, "a", 2, 1).lease(Release, "a", 2, 1).wait(time.Hour)
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := limits.Check(test.run().events)
			var broken []string
			for _, v := range r.Violations {
				broken = append(broken, v.String())
			}
			if test.want == "" && len(broken) > 0 || test.want != "" && !strings.Contains(strings.Join(broken, "\n"), string(test.want)+":") {
				t.Errorf("violations %q, want %q", broken, test.want)
			}
		})
	}
}

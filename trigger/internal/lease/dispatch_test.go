package lease

import (
	"errors"
	"testing"
	"time"
)

func TestMarkLastsTenMinutes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, test := range []struct {
		name, mark string
		failedOver time.Time
		want       bool
	}{
		{"none", "", time.Time{}, false},
		{"just written", dispatchMark{at: now, written: now, owner: ""}.String(), time.Time{}, true},
		{"by a host whose clock is a little ahead", dispatchMark{at: now.Add(3 * time.Second), written: now, owner: ""}.String(), time.Time{}, true},
		{"almost over", dispatchMark{at: now.Add(-MarkDuration + time.Second), written: now, owner: "a"}.String(), time.Time{}, true},
		{"over", dispatchMark{at: now.Add(-MarkDuration), written: now, owner: "a"}.String(), time.Time{}, false},
		{"by a host with a wrong clock", dispatchMark{at: now.Add(time.Minute), written: now, owner: ""}.String(), time.Time{}, false},
		{"ended", dispatchMark{at: now, written: now, hasEnded: true}.String(), time.Time{}, false},
		{"before a failover", dispatchMark{at: now.Add(-time.Minute), written: now}.String(), now.Add(-30 * time.Second), false},
		{"after a failover", dispatchMark{at: now.Add(-10 * time.Second), written: now}.String(), now.Add(-30 * time.Second), true},
		{"without a time of the owner", "1800000000", time.Time{}, false},
		{"not a mark", "soon 1800000000 a", time.Time{}, false},
	} {
		l := &Lease{properties: map[string]string{dispatchedProperty: test.mark}}
		if got := l.isDispatched(now, test.failedOver); got != test.want {
			t.Errorf("%s: on its way %v, want %v", test.name, got, test.want)
		}
	}
}

// A mark hides its own write from the life of the lease, but no later write.
func TestMarkKeepsTimeOfOwnersWrite(t *testing.T) {
	moment := time.Unix(1_800_000_000, 0)
	earlier := moment.Add(-2 * time.Minute)
	for _, test := range []struct {
		name    string
		owner   string
		stored  time.Time // _ts
		written bool      // the time before the mark counts
	}{
		{"the mark is the last write", "host a", moment, true},
		{"the mark arrived late", "host a", moment.Add(5 * time.Second), true},
		{"the owner has written since", "host a", moment.Add(11 * time.Second), false},
		{"another owner has written since", "b", moment.Add(2 * time.Second), false},
		{"released since", "", moment.Add(2 * time.Second), false},
	} {
		l := &Lease{owner: test.owner, written: test.stored, properties: map[string]string{dispatchedProperty: dispatchMark{at: moment, written: earlier, owner: "host a"}.String()}}
		got, marked := writtenBeforeMark(l)
		if marked != test.written || marked && !got.Equal(earlier) {
			t.Errorf("%s: %v, %v", test.name, got, marked)
		}
	}
}

// An old message ends its own mark, and not that of a newer message.
func TestEndMarkLeavesNewerMark(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		old := b.leases(s)["0"]
		must(t, s.MarkDispatched(t.Context(), old))
		first := b.leases(s)["0"]
		time.Sleep(time.Minute)
		must(t, s.MarkDispatched(t.Context(), first))
		must(t, s.EndMark(t.Context(), first))
		if l := b.leases(s)["0"]; !s.IsDispatched(l) {
			t.Error("the newer mark is gone")
		} else {
			must(t, s.EndMark(t.Context(), l))
		}
		if l := b.leases(s)["0"]; l.properties[dispatchedProperty] != "" {
			t.Errorf("mark %q", l.properties[dispatchedProperty])
		}
		if err := s.MarkDispatched(t.Context(), first); !errors.Is(err, ErrLost) {
			t.Errorf("mark of a version that has changed: %v", err)
		}
	})
}

// A drain that has lost its lease to a restored document ends the mark in it, and no newer one.
func TestEndRestoredMark(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration // of the mark, from the acquisition
		ends  bool
	}{
		{"its own message", -time.Second, true},
		{"an earlier message", -5 * time.Minute, true},
		{"a host whose clock is a little ahead", 3 * time.Second, true},
		{"a newer message", time.Minute, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			withTestbed(t, 1, func(t *testing.T, b *testbed) {
				s := b.prepared("a")
				held := b.acquire(s, "0")
				restored := b.leases(s)["0"].clone()
				at := time.Unix(held.Epoch(), 0).Add(test.after)
				restored.owner, restored.properties[dispatchedProperty] = "", dispatchMark{at: at, written: at}.String()
				must(t, s.store.replaceDocument(t.Context(), restored, restored.timestamp))
				must(t, s.EndRestoredMark(t.Context(), held.Lease(), held.Epoch()))
				if mark := b.leases(s)["0"].properties[dispatchedProperty]; (mark == "") != test.ends {
					t.Errorf("mark %q", mark)
				}
			})
		})
	}
}

// A message that cannot acquire the lease of a dead owner ends its mark, so that the next tick
// sends another one, and does not extend the dead owner's life.
func TestEndMarkOfDeadOwnersLease(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		b.acquire(s, "0")
		time.Sleep(2 * time.Minute)
		dead := b.leases(s)["0"]
		must(t, s.MarkDispatched(t.Context(), dead))
		time.Sleep(time.Minute)
		must(t, s.EndMark(t.Context(), b.leases(s)["0"]))
		l := b.leases(s)["0"]
		if s.IsDispatched(l) || !l.Written().Equal(dead.Written()) {
			t.Errorf("marked %v, written %v, want %v", s.IsDispatched(l), l.Written(), dead.Written())
		}
		must(t, s.MarkDispatched(t.Context(), l))
		if l := b.leases(s)["0"]; !s.IsDispatched(l) || !l.Written().Equal(dead.Written()) {
			t.Errorf("the second mark: marked %v, written %v, want %v", s.IsDispatched(l), l.Written(), dead.Written())
		}
		marked := b.leases(s)["0"]
		next := marked.clone()
		next.owner = "b" // a .NET host keeps the mark
		must(t, s.store.replaceDocument(t.Context(), next, next.timestamp))
		must(t, s.EndMark(t.Context(), marked))
		if l := b.leases(s)["0"]; !s.IsDispatched(l) {
			t.Error("the mark of another owner's lease has ended")
		}
	})
}

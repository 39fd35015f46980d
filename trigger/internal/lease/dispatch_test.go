package lease

import (
	"errors"
	"testing"
	"time"
)

func TestMarkLastsTenMinutes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, test := range []struct {
		name string
		mark string
		want bool
	}{
		{"none", "", false},
		{"just written", dispatchMark{now, now, ""}.String(), true},
		{"by a host whose clock is a little ahead", dispatchMark{now.Add(3 * time.Second), now, ""}.String(), true},
		{"almost over", dispatchMark{now.Add(-MarkDuration + time.Second), now, "a"}.String(), true},
		{"over", dispatchMark{now.Add(-MarkDuration), now, "a"}.String(), false},
		{"by a host with a wrong clock", dispatchMark{now.Add(time.Minute), now, ""}.String(), false},
		{"without a time of the owner", "1800000000", false},
		{"not a mark", "soon 1800000000 a", false},
	} {
		l := &Lease{properties: map[string]string{dispatchedProperty: test.mark}}
		if got := l.Dispatched(now); got != test.want {
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
		l := &Lease{owner: test.owner, written: test.stored, properties: map[string]string{dispatchedProperty: dispatchMark{moment, earlier, "host a"}.String()}}
		got, marked := writtenBeforeMark(l)
		if marked != test.written || marked && !got.Equal(earlier) {
			t.Errorf("%s: %v, %v", test.name, got, marked)
		}
	}
}

// An old message removes its own mark, and not that of a newer message.
func TestClearMarkLeavesNewerMark(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		old := b.leases(s)["0"]
		must(t, s.MarkDispatched(t.Context(), old))
		first := b.leases(s)["0"]
		time.Sleep(time.Minute)
		must(t, s.MarkDispatched(t.Context(), first))
		s.ClearMark(t.Context(), first)
		if l := b.leases(s)["0"]; !l.Dispatched(s.Now()) {
			t.Error("the newer mark is gone")
		} else {
			s.ClearMark(t.Context(), l)
		}
		if l := b.leases(s)["0"]; l.properties[dispatchedProperty] != "" {
			t.Errorf("mark %q", l.properties[dispatchedProperty])
		}
		if err := s.MarkDispatched(t.Context(), first); !errors.Is(err, ErrLost) {
			t.Errorf("mark of a version that has changed: %v", err)
		}
	})
}

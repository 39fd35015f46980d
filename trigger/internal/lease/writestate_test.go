package lease

import (
	"testing"
	"time"
	"unsafe"
)

// Trust ends when either clock says so: the monotonic clock stands still while a
// machine is suspended, and the wall clock can be set.
func TestTrustNeedsBothClocks(t *testing.T) {
	const trust = time.Minute
	for _, test := range []struct {
		name            string
		monotonic, wall time.Duration // since the last write left
		trusted         bool
	}{
		{"just written", 0, 0, true},
		{"written a while ago", 59 * time.Second, 59 * time.Second, true},
		{"too long ago", 61 * time.Second, 61 * time.Second, false},
		{"suspended meanwhile", time.Second, 10 * time.Minute, false},
		{"wall clock set back", time.Second, -10 * time.Minute, false},
		{"wall clock set back, and too long ago", 2 * time.Minute, time.Second, false},
		{"wall clock off a little", time.Second, 3 * time.Second, true},
	} {
		s := newWriteState("", ago(test.monotonic, test.wall))
		if got, _ := s.isTrusted(trust); got != test.trusted {
			t.Errorf("%s: trusted %v", test.name, got)
		}
	}
}

// ago returns a time that was so long ago by the monotonic clock and by the wall
// clock. No code of package time makes a time.Time in which the two differ: its
// second word is the monotonic clock (package time, type Time).
func ago(monotonic, wall time.Duration) time.Time {
	t := time.Now().Add(-wall)
	ext := (*int64)(unsafe.Add(unsafe.Pointer(&t), unsafe.Sizeof(uint64(0))))
	*ext += int64(wall - monotonic)
	return t
}

func TestAgo(t *testing.T) {
	a := ago(time.Hour, time.Minute)
	if d := time.Since(a).Round(time.Second); d != time.Hour {
		t.Errorf("%v ago by the monotonic clock", d)
	}
	if d := time.Now().Round(0).Sub(a.Round(0)).Round(time.Second); d != time.Minute {
		t.Errorf("%v ago by the wall clock", d)
	}
}

package feed

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	now := time.Unix(0, 0)
	var p pace
	if p.observe(now, false); p.untilRead(now) != 0 {
		t.Errorf("a reader that was never throttled pauses for %v", p.untilRead(now))
	}
	for _, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		if p.observe(now, true); p.untilRead(now) != want*time.Millisecond {
			t.Errorf("the pause after a refusal is %v, want %v ms", p.untilRead(now), int(want))
		}
	}
	if wait := p.untilRead(now.Add(300 * time.Millisecond)); wait != 700*time.Millisecond {
		t.Errorf("0.3 s after the read the pause is %v, want 700ms", wait)
	}
	if wait := p.untilRead(now.Add(5 * time.Second)); wait != 0 {
		t.Errorf("after a poll delay the pause is %v", wait)
	}
	reads, total := 0, time.Duration(0)
	for last := longestPause; last > 0; reads++ {
		if p.observe(now, false); p.untilRead(now) >= last {
			t.Fatalf("after a pause of %v comes one of %v", last, p.untilRead(now))
		}
		last = p.untilRead(now)
		total += last
	}
	if reads > 120 || total > 32*time.Second {
		t.Errorf("the full rate comes back after %d reads and pauses of %v", reads, total)
	}
}

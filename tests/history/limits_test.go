package history

import (
	"testing"
	"time"
)

// Each judge of a limit accepts what is allowed, and no more.
func TestLimitsAreKept(t *testing.T) {
	deliveries := func(s *story, n int, every time.Duration) *story {
		for range n {
			seq := int64(len(s.events))
			s.write(seq, "a").wait(-time.Second)
			s.add(Event{Kind: Delivery, Key: "k", Seq: seq, ID: "a", LSN: seq, Host: "x", Range: "0", Epoch: 1, Attempt: 1}).wait(every - time.Second)
		}
		return s
	}
	charges := func(s *story, n int, units float64, every time.Duration) *story {
		for range n {
			s.add(Event{Kind: Charged, Host: "x", Units: units}).wait(every - time.Second)
		}
		return s
	}
	rate := Limits{Expiration: time.Minute, Rate: 2, RateAhead: 5}
	units := Limits{Expiration: time.Minute, ReadUnits: 10, ReadAhead: 50}
	for _, test := range []struct {
		name   string
		limits Limits
		tell   *story
		rule   Rule
		broken bool
	}{
		{"a steady rate", rate, deliveries(pair(), 100, 500*time.Millisecond), RateKept, false},
		{"a second's worth and a batch at once", rate, deliveries(pair(), 7, 0), RateKept, false},
		{"one more", rate, deliveries(pair(), 8, 0), RateKept, true},
		{"a rate that is a little too high", rate, deliveries(pair(), 100, 450*time.Millisecond), RateKept, true},
		{"idle time is not saved up", rate, deliveries(deliveries(pair(), 1, time.Hour), 8, 0), RateKept, true},
		{"after a fault", rate, deliveries(deliveries(pair(), 7, 0).fault("reset", "x", time.Second), 5, 0), RateKept, false},
		{"no limit", Limits{Expiration: time.Minute}, deliveries(pair(), 100, 0), RateKept, false},
		{"units at their limit", units, charges(pair(), 100, 5, 500*time.Millisecond), UnitsKept, false},
		{"units beyond it", units, charges(pair(), 100, 6, 500*time.Millisecond), UnitsKept, true},
		{"a page that is paid afterwards", units, charges(charges(pair(), 1, 60, 6*time.Second), 50, 1, 100*time.Millisecond), UnitsKept, false},
	} {
		broken := false
		for _, v := range test.limits.Check(test.tell.events).Violations {
			broken = broken || v.Rule == test.rule
		}
		if broken != test.broken {
			t.Errorf("%s: broken %v, want %v", test.name, broken, test.broken)
		}
	}
}

package cosmos

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// clockScript feeds a clock with answers, one each time the given duration has
// passed. Each answer is off the true time by its own error.
func clockScript(t *testing.T, every time.Duration, errors ...time.Duration) (finalError time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		for _, off := range errors {
			c.observe(reply(200, "", "Date", time.Now().Add(off).UTC().Format(http.TimeFormat)))
			time.Sleep(every)
		}
		finalError = time.Until(c.now())
	})
	return finalError
}

func TestClockBelievesOnlyConfirmedSteps(t *testing.T) {
	const far = 10 * time.Minute
	repeat := func(n int, errors ...time.Duration) (all []time.Duration) {
		for range n {
			all = append(all, errors...)
		}
		return all
	}
	extended := func(steady []time.Duration, extra ...time.Duration) []time.Duration { return append(steady, extra...) }
	tests := []struct {
		name   string
		every  time.Duration
		errors []time.Duration
		want   time.Duration
	}{
		{"one answer ahead", time.Second, extended(repeat(5, 0), far, 0), 0},
		{"one answer ahead is the newest", time.Second, extended(repeat(5, 0), far), 0},
		{"one answer behind", time.Second, extended(repeat(5, 0), -far, 0), 0},
		{"step forward, a burst of answers", time.Millisecond, extended(repeat(5, 0), repeat(100, far)...), 0},
		{"step forward, confirmed", 2 * time.Second, extended(repeat(5, 0), repeat(4, far)...), far},
		{"step forward, two further answers", 5 * time.Second, extended(repeat(5, 0), repeat(3, far)...), 0},
		{"step backward, confirmed", 2 * time.Second, extended(repeat(5, 0), repeat(4, -far)...), -far},
		{"step there and back", 2 * time.Second, extended(repeat(5, 0), extended(repeat(6, far), repeat(6, 0)...)...), 0},
		{"flapping", time.Second, extended(repeat(5, 0), repeat(50, far, 0)...), 0},
		{"flapping between two wrong times", time.Second, extended(repeat(5, 0), repeat(50, far, 2*far)...), 0},
		{"one region of three is ahead", time.Second, extended(repeat(5, 0), repeat(50, 0, far, 0)...), 0},
		{"one region of three is behind", time.Second, extended(repeat(5, 0), repeat(50, -far, 0, 0)...), 0},
		{"first answer ahead", time.Second, extended([]time.Duration{far}, 0), 0},
		{"first answer behind, then one region of three", 2 * time.Second, extended(repeat(1, -far), repeat(20, 0, 0, -far)...), 0},
		{"first answer of a region that is ahead", time.Second, repeat(10, far, 0, 0), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := clockScript(t, test.every, test.errors...); (got - test.want).Abs() > time.Second {
				t.Errorf("clock is off by %v, want %v", got, test.want)
			}
		})
	}
}

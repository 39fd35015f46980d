package feed

import "time"

// Pauses of a [pace].
const (
	shortestPause = 50 * time.Millisecond
	longestPause  = time.Second
)

// pace keeps a reader that is behind from taking all request units of the container from the
// application that writes to it. After each read that the service has throttled, the pause between
// two reads doubles; each read that it answers at once makes the pause 1/32 shorter. All pauses
// after the last refusal together take about half a minute at most.
//
// A range that polls every second or less often waits longer anyway, so that only a backlog is slowed
// down.
type pace struct {
	pause  time.Duration
	readAt time.Time // end of the last read
}

// untilRead returns the wait before the next read.
func (p *pace) untilRead(now time.Time) time.Duration {
	if p.pause == 0 {
		return 0
	}
	return max(p.readAt.Add(p.pause).Sub(now), 0)
}

// isSlow reports whether the reader pauses between reads. Its pages have the usual size then: a
// large one could take the units of a whole second at a time.
func (p *pace) isSlow() bool { return p.pause > 0 }

// observe is told the end of each read, and whether the service has throttled it.
func (p *pace) observe(now time.Time, throttled bool) {
	p.readAt = now
	switch {
	case throttled:
		p.pause = min(max(2*p.pause, shortestPause), longestPause)
	case p.pause <= shortestPause/2:
		p.pause = 0
	default:
		p.pause -= p.pause / 32
	}
}

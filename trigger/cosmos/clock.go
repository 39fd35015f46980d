package cosmos

import (
	"net/http"
	"sync"
	"time"
)

// clock estimates the service's time from its Date headers.
type clock struct {
	mu   sync.Mutex // guards all fields
	date time.Time  // newest Date header that was adopted
	at   time.Time  // local monotonic time when it arrived
}

// maxLead is how far the estimate may be ahead of a Date header that arrives. A
// header is cut to whole seconds and is as old as its way to us was long, so a
// small lead is normal.
const maxLead = 5 * time.Second

// now returns the newest Date header plus the monotonic time since, or the
// local time if no answer has arrived yet.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimate(time.Now())
}

func (c *clock) estimate(local time.Time) time.Time {
	if c.at.IsZero() {
		return local
	}
	return c.date.Add(local.Sub(c.at))
}

// observe adopts the Date header of an answer that just arrived if it is after
// the estimate, or far before it. A header slightly before the estimate is
// ignored, so that the clock does not step back with each answer.
func (c *clock) observe(resp *http.Response) {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	local := time.Now()
	ahead := c.estimate(local).Sub(date)
	if c.at.IsZero() || ahead < 0 || ahead > maxLead {
		c.date, c.at = date, local
	}
}

package cosmos

import (
	"net/http"
	"sync"
	"time"
)

// clock follows the service's time by its Date headers.
type clock struct {
	mu   sync.Mutex
	date time.Time // the service's time ...
	at   time.Time // ... when our monotonic clock read this
}

// maxAhead is how far the clock may run ahead of a Date header: a header shows
// whole seconds and is as old as its way was long.
const maxAhead = 5 * time.Second

// now is the newest Date header plus the monotonic time since, or the local
// time where there was none yet.
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

// observe takes the Date of an answer that just arrived. A header that is
// behind the estimate lowers it only if it is far behind, so that the clock
// does not step back with every header.
func (c *clock) observe(resp *http.Response) {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	local := time.Now()
	ahead := c.estimate(local).Sub(date)
	if c.at.IsZero() || ahead < 0 || ahead > maxAhead {
		c.date, c.at = date, local
	}
}

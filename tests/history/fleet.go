package history

import "time"

// fleet follows the hosts.
type fleet struct {
	up      map[string]bool
	changed time.Time            // when a host last came or went
	orphans map[string]time.Time // leases whose owner died, since when
	faulted time.Time            // when something else last went wrong
	stepped bool                 // some host once saw a wrong clock
	calm    bool
}

func newFleet() fleet {
	return fleet{up: map[string]bool{}, orphans: map[string]time.Time{}}
}

func (c *checker) host(e Event) {
	c.changed = e.Time
	switch e.Op {
	case Started:
		c.up[e.Host] = true
	case Stopped:
		delete(c.up, e.Host)
	case Killed:
		delete(c.up, e.Host)
		for token, l := range c.byToken {
			if l.host == e.Host && !c.twins[l.token] { // nobody takes over the second document of a range
				c.orphans[token] = e.Time
			}
		}
	}
}

// aftermath is how long something that went wrong may go on after it was
// recorded: then takeovers are judged again.
const aftermath = 10 * time.Minute

// patience is how long a takeover may take: the expiration, cut to seconds and
// waited out by one more, two passes of a balancer, and what requests take.
func (l Limits) patience() time.Duration {
	return l.Expiration + 2*l.AcquireInterval + 5*time.Second
}

// takenOver judges how long a dead host's lease was without an owner.
func (c *checker) takenOver(e Event) {
	since, found := c.orphans[e.lid()]
	if !found {
		return
	}
	delete(c.orphans, e.lid())
	c.report.Takeovers++
	c.overdue(e.lid(), since, e.Time)
}

// overdue judges a lease that has been without an owner since one time, at
// another. It takes hosts that were there all the while, and nothing else that
// went wrong: of two hosts that die one after the other the second counts as
// alive, and is left its share, until its leases run out, too.
func (c *checker) overdue(token string, since, at time.Time) {
	if c.limits.Expiration == 0 || c.limits.Drains || !c.faulted.IsZero() && since.Sub(c.faulted) < aftermath || len(c.up) == 0 {
		return
	}
	since = later(since, c.changed)
	took := at.Sub(since)
	c.report.Slowest = max(c.report.Slowest, took)
	if took > c.limits.patience() {
		c.violate(Takeover, "lease %q was without an owner for %s, at most %s are allowed", token, took, c.limits.patience())
	}
}

func (c *checker) finishFleet() {
	for token, since := range c.orphans {
		if c.byToken[token] != nil && !c.byToken[token].tombstone {
			c.overdue(token, since, c.now)
		}
	}
}

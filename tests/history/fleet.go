package history

import "time"

// fleet follows the hosts.
type fleet struct {
	up      map[string]bool
	changed time.Time            // when a host last started or ended
	orphans map[string]time.Time // leases of killed hosts, with the time of the kill
	faulted time.Time            // when the last other fault was recorded
	stepped bool                 // a host has seen a wrong clock at least once
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
			if l.host == e.Host && !c.duplicated[l.token] { // hosts do not acquire the duplicate of a lease
				c.orphans[token] = e.Time
			}
		}
	}
}

// aftermath is how long a fault may last after it was recorded. Takeovers are
// not judged if they begin within this time.
const aftermath = 10 * time.Minute

// takeoverLimit is how long a takeover may take: the expiration, two passes of a
// balancer, one second because leases keep whole seconds, and the requests.
func (l Limits) takeoverLimit() time.Duration {
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

// overdue judges a lease that was without an owner from since until at. It
// counts from the last start or end of a host: if host A dies and then host B,
// the others leave B its share until B's leases expire, too. Takeovers soon
// after another fault are not judged.
func (c *checker) overdue(token string, since, at time.Time) {
	if c.limits.Expiration == 0 || c.limits.Drains || !c.faulted.IsZero() && since.Sub(c.faulted) < aftermath || len(c.up) == 0 {
		return
	}
	since = later(since, c.changed)
	took := at.Sub(since)
	c.report.Slowest = max(c.report.Slowest, took)
	if limit := c.limits.takeoverLimit(); took > limit {
		c.violate(Takeover, "lease %q was without an owner for %s, at most %s are allowed", token, took, limit)
	}
}

func (c *checker) finishFleet() {
	for token, since := range c.orphans {
		if c.byToken[token] != nil && !c.byToken[token].tombstone {
			c.overdue(token, since, c.now)
		}
	}
}

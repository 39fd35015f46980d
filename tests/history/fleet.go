package history

import (
	"maps"
	"slices"
	"time"
)

// fleet follows the hosts.
type fleet struct {
	up      map[string]bool
	changed time.Time         // when a host last started or ended
	orphans map[string]orphan // leases of killed hosts, and those that stopping hosts have released
	faulted time.Time         // when the last other fault was recorded
	stepped bool              // a host has seen a wrong clock at least once
	calm    bool
	foreign map[string]bool // owners that are not Halley
	merged  time.Time       // when the last merge of ranges ends

	known    map[string]bool      // hosts that have started
	names    map[string]string    // the owner name of a host
	stopping map[string]time.Time // since when, by host
	troubled map[string]time.Time // until when, by host; "" is all hosts
	resumed  time.Time            // the end of the last throttle of the feed that is over
	deaths   map[Ref]int          // hosts that were killed during a call with the change
}

// orphan is a lease whose owner was killed, or has released it because it stops.
type orphan struct {
	since     time.Time // the kill, or the release
	lastWrite time.Time // of any lease by the dead host
	released  bool
}

func newFleet() fleet {
	return fleet{
		up: map[string]bool{}, foreign: map[string]bool{}, orphans: map[string]orphan{},
		known: map[string]bool{}, names: map[string]string{}, stopping: map[string]time.Time{}, troubled: map[string]time.Time{}, deaths: map[Ref]int{},
	}
}

func (c *checker) host(e Event) {
	c.changed = e.Time
	switch e.Op {
	case Started:
		c.up[e.Host], c.known[e.Host], c.names[e.Host] = true, true, e.Owner
	case Stopping:
		c.stopping[e.Host] = e.Time
	case Stopped:
		delete(c.up, e.Host)
		c.sinkEnded(e.Host)
		c.stopped(e.Host)
	case Killed:
		delete(c.up, e.Host)
		delete(c.stopping, e.Host)
		c.sinkEnded(e.Host)
		c.diedIn(e.Host)
		var lastWrite time.Time
		for _, l := range c.byToken {
			if l.host == e.Host {
				lastWrite = later(lastWrite, l.written)
			}
		}
		for token, l := range c.byToken {
			if l.host == e.Host && !c.duplicated[l.token] && l.paused.IsZero() { // hosts do not acquire the duplicate of a lease
				c.orphans[token] = orphan{since: e.Time, lastWrite: lastWrite}
			}
		}
	}
}

// diedIn counts the death of a host for the changes of its calls.
func (c *checker) diedIn(host string) {
	for call, changes := range c.calls {
		if changes[0].Host != host {
			continue
		}
		for _, d := range changes {
			c.deaths[Ref{d.Key, d.Seq}]++
		}
		delete(c.calls, call)
	}
}

// aftermath is how long a fault may last after it was recorded. Takeovers are
// not judged if they begin within this time.
const aftermath = 10 * time.Minute

// takeoverLimit is how long a takeover may take: the expiration, unless the lease was released, two
// passes of a balancer, one second because leases keep whole seconds, and the requests.
func (l Limits) takeoverLimit(released bool) time.Duration {
	limit := 2*l.AcquireInterval + 5*time.Second
	if !released {
		limit += l.Expiration
	}
	return limit
}

// releasedAtStop notes a lease that its owner releases because it stops. Hosts do not acquire the
// duplicate of a lease, and leave a requested one to the requester.
func (c *checker) releasedAtStop(e Event, l *lease) {
	_, stops := c.stopping[e.Host]
	if stops && l.requested.IsZero() && l.paused.IsZero() && !c.duplicated[l.token] {
		c.orphans[e.lid()] = orphan{since: e.Time, released: true}
	}
}

// takenOver judges how long the lease of a host that has died or stopped was without an owner.
func (c *checker) takenOver(e Event, l *lease) {
	o, found := c.orphans[e.lid()]
	if !found {
		return
	}
	delete(c.orphans, e.lid())
	c.report.Takeovers++
	c.overdue(Takeover, e.lid(), later(o.since, c.changed), e.Time, o.released)
	if o.released {
		return
	}
	if !l.requested.IsZero() && c.changed.Equal(o.since) {
		c.report.count(DeadRequest, 1, 0)
		c.overdue(DeadRequest, e.lid(), o.lastWrite, e.Time, false) // the request is no write of the owner
	}
}

// overdue judges, by a rule, a lease that was without an owner from since until at.
// For Takeover, since is not before the last start or end of a host: if host A dies
// and then host B, the others leave B its share until B's leases expire, too.
// Takeovers soon after another fault are not judged.
func (c *checker) overdue(rule Rule, token string, since, at time.Time, released bool) {
	if c.limits.Expiration == 0 || c.limits.Drains || !c.faulted.IsZero() && since.Sub(c.faulted) < aftermath || len(c.up) == 0 {
		return
	}
	took := at.Sub(since)
	if rule == Takeover {
		c.report.Slowest = max(c.report.Slowest, took)
	}
	if limit := c.limits.takeoverLimit(released); took > limit {
		c.violate(rule, "lease %q was without an owner for %s, at most %s are allowed", token, took, limit)
	}
}

func (c *checker) finishFleet() {
	for token, o := range c.orphans {
		if c.byToken[token] != nil && !c.byToken[token].tombstone {
			c.overdue(Takeover, token, later(o.since, c.changed), c.now, o.released)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(c.stopping)) {
		if c.now.Sub(c.stopping[host]) > c.limits.StopGrace+promptly+c.limits.Slack {
			c.stopped(host)
		}
	}
}

package history

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// promptly is the limit of transitions that wait for nothing but requests: a
// second, and a tenth for the requests.
const promptly = 1100 * time.Millisecond

// deadlines are the transitions that have begun and must end in time.
type deadlines struct {
	handovers map[string]handover // by lease: released on request, not yet read by the requester
	vanished  map[string]vanished // by lease: deleted under a running owner
	resumes   map[string]resume   // by lease: held at the end of a throttle, neither paused nor expired, not yet read
	throttle  Event               // the last one of the feed

	answeredOlder map[holder]bool      // owners that got an older etag; the epoch is zero
	wrongDates    map[string]time.Time // by host: when it last got a wrong date
}

type handover struct {
	span
	from, to string // hosts
	since    time.Time
}

type vanished struct {
	span
	owner    holder // of any epoch
	position int64
	since    time.Time
}

type resume struct {
	owner    string // host
	deadline time.Time
}

func newDeadlines() deadlines {
	return deadlines{
		handovers: map[string]handover{}, vanished: map[string]vanished{}, resumes: map[string]resume{},
		answeredOlder: map[holder]bool{}, wrongDates: map[string]time.Time{},
	}
}

// fault records a fault and the hosts that it affects.
func (c *checker) fault(e Event) {
	c.faulted = e.Time
	until := e.Until
	if until.IsZero() {
		until = e.Time.Add(aftermath)
	}
	switch e.Op {
	case ClockStep:
		c.stepped = true
	case FeedThrottled:
		if c.limits.Drains {
			break
		}
		c.throttle = e
		clear(c.resumes)
		return // other rules ask for it
	case Merge:
		c.merged = later(c.merged, until)
	case OlderEtag:
		c.answeredOlder[holder{e.Host, tenure{token: e.Range}}] = true
		c.report.count(ForwardOnly, 1, 0)
	case WrongDate:
		c.wrongDates[e.Host] = e.Time
		c.report.count(ForwardOnly, 1, 0)
	}
	host := e.Host
	if !c.known[host] {
		host = "" // a range, or all hosts
	}
	c.troubled[host] = later(c.troubled[host], until)
}

// undisturbed reports whether no fault has affected a host since a time, nor for
// an expiration before it. The throttled feed does not count.
func (c *checker) undisturbed(host string, since time.Time) bool {
	last := later(c.troubled[host], c.troubled[""])
	return last.IsZero() || since.Sub(last) >= c.limits.Expiration
}

// throttled reports whether the feed is throttled, or was until recently.
func (c *checker) throttled(at time.Time) bool {
	return !c.throttle.Until.IsZero() && at.Sub(c.throttle.Until) < c.limits.Expiration
}

// works reports whether a host runs and was not asked to stop.
func (c *checker) works(host string) bool {
	_, stops := c.stopping[host]
	return c.up[host] && !stops
}

// sameName reports whether two hosts are different processes of one name. A request
// names its host, so each of them may take the lease that is released to the other.
func (c *checker) sameName(a, b string) bool { return c.names[a] != "" && c.names[a] == c.names[b] }

// judgeDeadlines judges the transitions that are late when an event happens.
func (c *checker) judgeDeadlines() {
	for lid, h := range c.handovers {
		if c.now.Sub(h.since) > c.readLimit() {
			c.handedOver(lid, h)
		}
	}
	for lid, v := range c.vanished {
		if c.now.After(c.returnsBy(v)) {
			c.returned(lid, v)
		}
	}
	if end := c.throttle.Until; !end.IsZero() && c.now.After(end) && end.After(c.resumed) {
		c.resumed = end
		for lid, l := range c.byToken {
			if c.works(l.host) && l.paused.IsZero() && end.Sub(l.written) < c.limits.Expiration {
				c.resumes[lid] = resume{l.host, end.Add(2*c.throttle.Wait + c.limits.Poll + c.readLimit())}
			}
		}
	}
	for lid, r := range c.resumes {
		if c.now.After(r.deadline) {
			c.readAgain(lid, r)
		}
	}
}

// read is the first feed read of a host with a lease, or after a throttle, or a
// page that a host has read.
func (c *checker) read(e Event) {
	if e.Position != 0 {
		c.pageRead(e)
		return
	}
	if h, found := c.handovers[e.lid()]; found && (h.to == e.Host || c.sameName(h.to, e.Host)) {
		c.handedOver(e.lid(), h)
	}
	if r, found := c.resumes[e.lid()]; found && r.owner == e.Host {
		c.readAgain(e.lid(), r)
	}
}

// released is called before a lease loses its owner.
func (c *checker) released(e Event, l *lease) {
	if !l.requested.IsZero() && l.paused.IsZero() && c.works(l.requester) && l.requester != e.Host && c.changed.Before(l.requested) && !c.limits.Drains {
		c.handovers[e.lid()] = handover{l.span, e.Host, l.requester, e.Time}
	}
	end := c.throttle.Until.Add(c.limits.Expiration + 2*c.throttle.Wait + c.limits.Poll + promptly) // also if the next reads fail
	if c.throttle.Until.IsZero() || e.Time.After(end) || !c.works(e.Host) || !l.requested.IsZero() || !l.paused.IsZero() || c.limits.Drains {
		return
	}
	if c.undisturbed(e.Host, c.throttle.Time) && !c.inCall(e.Host, e.Range) && !c.disturbed(e) {
		c.report.count(ThrottleWaited, 1, 0)
		c.violate(ThrottleWaited, "%q released lease %q %s after the feed was throttled", e.Host, e.Range, e.Time.Sub(c.throttle.Time))
	}
}

// inCall reports whether a handler call of a host on a range has not ended. If an
// owner releases its lease meanwhile, it leaves the call behind.
func (c *checker) inCall(host, token string) bool {
	for _, changes := range c.calls {
		if changes[0].Host == host && changes[0].Range == token {
			return true
		}
	}
	return false
}

// handedOver judges the time from a release to the requester's first read. A host
// with a wrong clock may take a request for one that has expired. A request for a
// lease that expires is void, even if its owner renews it after that.
func (c *checker) handedOver(lid string, h handover) {
	delete(c.handovers, lid)
	if c.stepped || !c.works(h.to) || c.changed.After(h.since) || !c.undisturbed(h.to, h.since) || !c.undisturbed(h.from, h.since) || c.throttled(h.since) || c.excuses(h.span) {
		return
	}
	c.report.count(PromptHandover, 1, 0)
	if took := c.now.Sub(h.since); took > c.readLimit() {
		c.violate(PromptHandover, "%q does not read the range of lease %q, which was released to it %s ago", h.to, lid, took)
	}
}

// readLimit is the time within which a host reads a range for the first time.
func (c *checker) readLimit() time.Duration { return promptly + c.limits.Slack + c.limits.ReadWait }

// returnsBy is when a deleted lease must exist again. Its owner misses it within an acquire
// interval. Then it waits for its calls, which may ignore the end of their context.
func (c *checker) returnsBy(v vanished) time.Time {
	limit := c.limits.AcquireInterval + promptly + c.limits.Slack
	missed, end := v.since.Add(limit), v.since.Add(limit+c.limits.AcquireInterval)
	last := end.Add(c.limits.StuckGrace)
	for _, changes := range c.calls {
		if first := changes[0]; first.Host == v.owner.host && first.Range == v.owner.token && first.Time.Before(missed) {
			return last
		}
	}
	for _, call := range c.recent[v.owner] {
		if afterCall := call.ended.Add(limit); call.began.Before(missed) && afterCall.After(end) {
			end = afterCall
		}
	}
	if end.After(last) {
		return last
	}
	return end
}

// deleted is called before a lease is deleted by tampering. If others cover its keys, as
// that of a parent which an operator has restored, its owner leaves the keys to them. The
// owner of a paused lease does not work on it any more.
func (c *checker) deleted(e Event) {
	l := c.byToken[e.lid()]
	if l == nil || !c.onlyCovers(l) || l.tombstone || !l.paused.IsZero() || l.tampered > 0 || !c.works(l.host) || c.limits.Drains || c.limits.AcquireInterval == 0 || len(c.duplicated) > 0 {
		return
	}
	c.vanished[e.lid()] = vanished{l.span, holder{l.host, tenure{token: l.token}}, l.position, e.Time}
}

// onlyCovers reports whether some key of a lease has no other lease.
func (c *checker) onlyCovers(l *lease) bool {
	others := slices.DeleteFunc(c.sorted(), func(other *lease) bool { return other == l })
	return slices.ContainsFunc(gaps(others), l.overlaps)
}

// returned judges a lease that was deleted under a running owner.
func (c *checker) returned(lid string, v vanished) {
	if !c.mustReturn(lid, v) {
		return
	}
	if !c.covers(v.span) {
		c.violate(LeaseReturns, "lease %q was deleted under %q, and %s later no lease covers its keys", lid, v.owner.host, c.now.Sub(v.since).Round(time.Second))
	}
}

// mustReturn reports whether the owner of a deleted lease was able to restore it. It
// ends the deadline.
func (c *checker) mustReturn(lid string, v vanished) bool {
	delete(c.vanished, lid)
	if !c.works(v.owner.host) || !c.undisturbed(v.owner.host, v.since) || c.throttled(v.since) {
		return false
	}
	c.report.count(LeaseReturns, 1, 0)
	return true
}

// covers reports whether leases cover all keys of a span.
func (c *checker) covers(s span) bool {
	for _, gap := range gaps(c.sorted()) {
		if gap.overlaps(s) {
			return false
		}
	}
	return true
}

// createdAgain is called after a lease was created.
func (c *checker) createdAgain(e Event) {
	for lid, v := range c.vanished {
		if !v.overlaps(span{e.Min, e.Max}) {
			continue
		}
		switch {
		case e.Position >= v.position:
			if c.covers(v.span) {
				c.returned(lid, v)
			}
		case c.mustReturn(lid, v):
			c.violate(LeaseReturns, "lease %q was deleted at %d and created again at %d", lid, v.position, e.Position)
		}
	}
}

// readAgain judges the first read of an owner after a throttle. While a call runs, the rate
// holds it back, or changes wait for a retry, the owner may have read ahead as far as it is
// allowed to.
func (c *checker) readAgain(lid string, r resume) {
	delete(c.resumes, lid)
	l := c.byToken[lid]
	if l == nil || l.host != r.owner || !l.requested.IsZero() || !c.works(r.owner) || !c.undisturbed(r.owner, c.throttle.Time) || c.inCall(r.owner, l.token) || c.excuses(l.span) || c.limits.Rate > 0 || c.hasReadAhead(l) {
		return
	}
	c.report.count(ThrottleWaited, 1, 0)
	if c.now.After(r.deadline) {
		c.violate(ThrottleWaited, "%q does not read the range of lease %q after the throttle, whose last Retry-After was %s", r.owner, lid, c.throttle.Wait)
	}
}

// mostFailedGroups is the number of failed groups of a range at which reading pauses: see "Failing
// keys" in docs/guarantees.md.
const mostFailedGroups = 16

// hasReadAhead reports whether changes that wait for a retry may have brought the owner of a
// lease to a limit of reading: as many groups, or MaxAhead changes from the first one on. After a
// merge the lease cannot hold which changes behind its position are finished, so reading stops
// there.
func (c *checker) hasReadAhead(l *lease) bool {
	first, ahead, waiting := c.now, 0, 0
	for change := range c.changesIn(l.span) {
		if change.delivered.Before(l.acquired) || change.handled || change.dead || change.inStore {
			continue
		}
		waiting++
		if change.wrote.Before(first) {
			first = change.wrote
		}
	}
	if waiting >= mostFailedGroups {
		return true
	}
	if c.merged.IsZero() {
		return false
	}
	for change := range c.changesIn(l.span) {
		if !change.wrote.Before(first) && !change.wrote.After(c.throttle.Time) {
			ahead++
		}
	}
	return ahead >= c.limits.MaxAhead
}

// changesIn returns the changes of the keys of a span, in no order.
func (c *checker) changesIn(s span) iter.Seq[*change] {
	return func(yield func(*change) bool) {
		for _, k := range c.keys {
			if !k.span().overlaps(s) {
				continue
			}
			for i := range k.changes {
				if !yield(&k.changes[i]) {
					return
				}
			}
		}
	}
}

// forward returns ForwardOnly for a violation that follows an older answer to an
// owner, else the violation's own rule.
func (c *checker) forward(own Rule, host, token string) Rule {
	if c.answeredOlder[holder{host, tenure{token: token}}] {
		return ForwardOnly
	}
	return own
}

// stopped judges how long a host took to stop.
func (c *checker) stopped(host string) {
	since, asked := c.stopping[host]
	delete(c.stopping, host)
	if !asked || c.limits.StopGrace == 0 {
		return
	}
	took := c.now.Sub(since)
	c.report.count(PromptStop, 1, 0)
	c.report.SlowestStop = max(c.report.SlowestStop, took)
	if limit := c.limits.StopGrace + promptly + c.limits.Slack; took > limit {
		c.violate(PromptStop, "%q stopped %s after it was asked to, at most %s are allowed", host, took, limit)
	}
}

// acquiredWhileStopping judges an acquisition by a host that was asked to stop.
func (c *checker) acquiredWhileStopping(e Event) {
	if since, asked := c.stopping[e.Host]; asked && cmp.Or(e.Sent, e.Time).After(since) {
		c.violate(PromptStop, "%q acquired lease %q %s after it was asked to stop", e.Host, e.Range, e.Sent.Sub(since))
	}
}

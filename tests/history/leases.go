package history

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// span is [min, max) of hashed keys.
type span struct{ min, max string }

func (s span) overlaps(o span) bool { return s.min < o.max && o.min < s.max }
func (s span) contains(o span) bool { return s.min <= o.min && o.max <= s.max }

// lease is a lease document as the history has shown it.
type lease struct {
	span
	token     string
	host      string // of its last write by an owner, while it has one
	epoch     int64
	position  int64
	tombstone bool
	tampered  int       // how often; epochs of before may come again
	asked     time.Time // when somebody first asked its owner for it; zero: nobody has
}

// term is one acquisition of one lease by one host.
type term struct {
	number   int
	position int64     // the checkpoint that it began with
	sent     time.Time // when its newest write that was carried out left the host
	shared   bool      // meanwhile another host may have worked on some of its keys
}

type holder struct {
	host string
	tenure
}

// leases follows the lease documents.
type leases struct {
	byToken map[string]*lease
	terms   map[holder]*term
	epochs  map[epochOf]string // who acquired
	marked  bool               // the leases were created once
	excused []tampering        // where somebody took a lease away
	tampers map[string]int     // by token
	twins   map[string]bool    // tokens for which somebody planted a second document
}

// tampering is where and when somebody changed a lease.
type tampering struct {
	span
	at time.Time
}

type epochOf struct {
	tenure
	tampered int
}

// lid tells a lease from all others; two documents for one range are two.
func (e Event) lid() string {
	if e.ID == "" {
		return e.Range
	}
	return e.Range + "|" + e.ID
}

func newLeases() leases {
	return leases{
		byToken: map[string]*lease{}, terms: map[holder]*term{}, epochs: map[epochOf]string{},
		tampers: map[string]int{}, twins: map[string]bool{},
	}
}

func (c *checker) term(e Event) int {
	if t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]; t != nil {
		return t.number
	}
	return 0
}

// held judges whether a delivery may begin, and tells in which term it does and
// whether others may have delivered the same keys in it.
func (c *checker) held(e Event) (number int, shared bool) {
	t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]
	if t == nil {
		c.violate(Ownership, "%q delivers in epoch %d of range %q, which it did not acquire", e.Host, e.Epoch, e.Range)
		return 0, false
	}
	if d := c.limits.Expiration; d > 0 && e.Time.Sub(t.sent) > d {
		c.violate(Ownership, "%q begins a delivery in epoch %d of range %q %s after its last lease write", e.Host, e.Epoch, e.Range, e.Time.Sub(t.sent))
	}
	if e.LSN != 0 && e.LSN <= t.position {
		c.violate(Duplicates, "%q delivers %s/%d at %d in epoch %d of range %q, which began at %d", e.Host, e.Key, e.Seq, e.LSN, e.Epoch, e.Range, t.position)
	}
	return t.number, t.shared
}

// lease judges one write of a lease document that was carried out.
func (c *checker) lease(e Event) {
	switch e.Op {
	case Marker:
		c.marked = true
		c.cover()
		return
	case Create:
		c.create(e)
	case Retire:
		delete(c.byToken, e.lid())
	default:
		c.replace(e)
	}
	if e.Op != Retire {
		c.acknowledged(e)
	}
	if e.Op == Create || e.Op == Retire || e.Op == Tombstone {
		c.cover()
	}
	if len(c.twins) > 0 {
		for _, two := range c.sharers() {
			for _, l := range two {
				if t := c.terms[holder{l.host, tenure{l.token, l.epoch}}]; t != nil {
					t.shared = true
				}
			}
		}
	}
}

// sharers are pairs of leases with keys in common that live hosts hold.
func (c *checker) sharers() (pairs [][2]*lease) {
	var held []*lease
	for _, l := range c.sorted() {
		if c.up[l.host] {
			held = append(held, l)
		}
	}
	for i, l := range held {
		for _, o := range held[i+1:] {
			if l.overlaps(o.span) {
				pairs = append(pairs, [2]*lease{l, o})
			}
		}
	}
	return pairs
}

// rested judges the leases once nothing has gone wrong for a while: whatever
// somebody did to them, each key is one host's.
func (c *checker) rested() {
	c.calm = true
	for _, two := range c.sharers() {
		c.violate(Ownership, "%q holds lease %q and %q holds lease %q while nothing is wrong", two[0].host, two[0].token, two[1].host, two[1].token)
	}
}

// create is a lease for a part of the key space: of its parent, which is still
// there, or one of the first, or one that fills a hole which somebody made.
func (c *checker) create(e Event) {
	l := &lease{token: e.Range, span: span{e.Min, e.Max}, epoch: e.Epoch, position: e.Position, tampered: c.tampers[e.lid()]}
	if c.byToken[e.lid()] != nil {
		c.violate(Coverage, "lease %q was created twice", e.Range)
	}
	parents := map[string]*lease{}
	tampered := false // it may be the child of a copy that somebody put there, at any position
	for token, p := range c.byToken {
		if token != e.lid() && p.contains(l.span) {
			parents[token] = p
			tampered = tampered || p.tampered > 0
		}
	}
	for token, p := range parents {
		if !p.tombstone && (p.tampered == 0 && e.Epoch <= p.epoch || !tampered && e.Position < p.position) {
			c.violate(Monotone, "lease %q was created with epoch %d at %d beside %q with epoch %d at %d", e.Range, e.Epoch, e.Position, token, p.epoch, p.position)
		}
	}
	if c.marked && len(parents) == 0 && !c.excuses(l.span) {
		c.violate(Coverage, "lease %q was created without a parent", e.Range)
	}
	c.byToken[e.lid()] = l
}

func (c *checker) replace(e Event) {
	l := c.byToken[e.lid()]
	if l == nil {
		c.violate(Ownership, "lease %q was written and is not there", e.Range)
		l = &lease{token: e.Range}
		c.byToken[e.lid()] = l
	}
	if e.Epoch < l.epoch || e.Position < l.position {
		c.violate(Monotone, "lease %q went from epoch %d at %d to epoch %d at %d", e.Range, l.epoch, l.position, e.Epoch, e.Position)
	}
	switch {
	case e.Op == Acquire:
		c.acquire(e, l)
	case e.Epoch != l.epoch:
		c.violate(Monotone, "lease %q changed its epoch from %d to %d without an acquisition", e.Range, l.epoch, e.Epoch)
	}
	if e.Op == Ask && l.asked.IsZero() {
		l.asked = e.Time
	}
	if t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]; t != nil {
		t.sent = later(t.sent, e.Sent)
	} else if e.Op != Ask {
		c.violate(Ownership, "%q wrote lease %q in epoch %d, which it did not acquire", e.Host, e.Range, e.Epoch)
	}
	if e.Max != "" {
		l.span = span{e.Min, e.Max}
	}
	l.epoch, l.position, l.tombstone = e.Epoch, e.Position, e.Op == Tombstone
	switch {
	case e.Owner == "":
		l.host = ""
	case e.Op != Ask:
		l.host = e.Host
	}
}

func (c *checker) acquire(e Event, l *lease) {
	if e.Epoch <= l.epoch {
		c.violate(Monotone, "lease %q was acquired with epoch %d, it had %d", e.Range, e.Epoch, l.epoch)
	}
	if c.calm && !c.limits.Drains {
		c.violate(Churn, "lease %q was acquired by %q from %q while nothing was wrong", e.Range, e.Host, l.host)
	}
	at := epochOf{tenure{e.lid(), e.Epoch}, c.tampers[e.lid()]}
	if other, found := c.epochs[at]; found {
		c.violate(Ownership, "epoch %d of lease %q was acquired by %q and by %q", e.Epoch, e.Range, other, e.Host)
	}
	c.epochs[at] = e.Host
	number := 1
	if was := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]; was != nil {
		number = was.number + 1
	}
	c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}] = &term{number: number, position: e.Position, sent: e.Sent, shared: c.robbed(e, l) || c.disturbed(e)}
	c.takenOver(e)
	l.host, l.asked = e.Host, time.Time{}
}

// rounding is what times that leases keep in whole seconds may be off by.
const rounding = time.Second

// robbed reports whether an acquisition took the lease from an owner that could
// still deliver, and notes it of that one too: until its next write both may. It
// takes an owner that was asked and does not answer, or a host for which the
// service's clock is wrong.
func (c *checker) robbed(e Event, l *lease) bool {
	owner := c.terms[holder{l.host, tenure{e.Range, l.epoch}}]
	if owner == nil || l.host == e.Host || !c.up[l.host] || c.limits.Expiration == 0 || e.Sent.Sub(owner.sent) >= c.limits.Expiration {
		return false
	}
	owner.shared = true
	if !c.stepped && (l.asked.IsZero() || e.Time.Sub(l.asked) < c.limits.Expiration-rounding) {
		c.violate(Ownership, "%q took lease %q from %q, whose last write left %s before", e.Host, e.Range, l.host, e.Sent.Sub(owner.sent))
	}
	return true
}

// disturbed reports whether somebody changed a lease of these keys so lately that
// its owner may not know yet.
func (c *checker) disturbed(e Event) bool {
	return slices.ContainsFunc(c.excused, func(t tampering) bool {
		return t.overlaps(span{e.Min, e.Max}) && e.Time.Sub(t.at) < c.limits.Expiration
	})
}

// acknowledged judges the position in a lease by what was handled.
func (c *checker) acknowledged(e Event) {
	s := span{e.Min, e.Max}
	for _, p := range c.pending {
		if p.LSN != 0 && p.LSN <= e.Position && s.min <= p.Hash && p.Hash < s.max {
			c.violate(Checkpoints, "%q: %s of lease %q at %d, but %s/%d at %d is not handled", e.Host, e.Op, e.Range, e.Position, p.Key, p.Seq, p.LSN)
			return
		}
	}
}

// tamper is what somebody did behind the backs of the hosts. From now on the
// lease is as it was left, and what came before says nothing about it.
func (c *checker) tamper(e Event) {
	c.faulted = e.Time
	c.tampers[e.lid()]++
	if e.Op == Duplicated {
		c.twins[e.Range] = true
	}
	c.excused = append(c.excused, tampering{span{e.Min, e.Max}, e.Time})
	for _, l := range c.byToken { // whoever holds it does not know yet
		if t := c.terms[holder{l.host, tenure{l.token, l.epoch}}]; t != nil && l.overlaps(span{e.Min, e.Max}) {
			t.shared = true
		}
	}
	if e.Op == Deleted {
		delete(c.byToken, e.lid())
		return
	}
	c.byToken[e.lid()] = &lease{
		token: e.Range, span: span{e.Min, e.Max}, epoch: e.Epoch, position: e.Position, tampered: c.tampers[e.lid()],
	}
}

func (c *checker) excuses(s span) bool {
	return slices.ContainsFunc(c.excused, func(t tampering) bool { return s.overlaps(t.span) })
}

// cover judges the key space, once the leases were created.
func (c *checker) cover() {
	if !c.marked {
		return
	}
	for _, hole := range holes(c.sorted()) {
		if !c.excuses(hole) {
			c.violate(Coverage, "no lease covers [%q, %q)", hole.min, hole.max)
		}
	}
}

// sorted are the leases that count, in the order of their keys.
func (c *checker) sorted() []*lease {
	live := slices.DeleteFunc(slices.Collect(maps.Values(c.byToken)), func(l *lease) bool { return l.tombstone })
	slices.SortFunc(live, func(a, b *lease) int { return cmp.Or(cmp.Compare(a.min, b.min), cmp.Compare(a.max, b.max)) })
	return live
}

// holes is what sorted leases leave uncovered.
func holes(sorted []*lease) (found []span) {
	reached := ""
	for _, l := range sorted {
		if l.min > reached {
			found = append(found, span{reached, l.min})
		}
		reached = max(reached, l.max)
	}
	if reached < "FF" {
		found = append(found, span{reached, "FF"})
	}
	return found
}

// finishLeases judges how the leases were left: a run that came to be calm has
// neither holes nor overlaps, whatever somebody did before, except for a second
// document of a range, which is somebody's to delete.
func (c *checker) finishLeases() {
	if !c.calm || !c.marked {
		return
	}
	live := c.sorted()
	for _, hole := range holes(live) {
		c.violate(Coverage, "at the end no lease covers [%q, %q)", hole.min, hole.max)
	}
	for i := range live[:max(len(live)-1, 0)] {
		if live[i].overlaps(live[i+1].span) && live[i].token != live[i+1].token {
			c.violate(Coverage, "at the end two leases cover [%q, %q)", live[i+1].min, min(live[i].max, live[i+1].max))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

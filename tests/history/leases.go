package history

import (
	"slices"
	"time"
)

// span is [min, max) of hashed keys.
type span struct{ min, max string }

func (s span) overlaps(o span) bool { return s.min < o.max && o.min < s.max }
func (s span) contains(o span) bool { return s.min <= o.min && o.max <= s.max }

// lease is a lease document after the latest event about it.
type lease struct {
	span
	token     string
	host      string // the owner, by the host of its last write; "" if there is none
	epoch     int64
	position  int64
	tombstone bool
	paused    time.Time // since when; zero if it is not
	tampered  int       // how often; afterwards earlier epochs may be repeated
	requested time.Time // when the pending handover request was first written; zero if there is none
	requester string    // the host that wrote it
	resisted  bool      // its owner has renewed it for an expiration since
	written   time.Time // when its owner last wrote it
	acquired  time.Time // when it was last acquired
	orderly   bool      // its last owner released it
	unclean   int64     // epoch of the last owner that did not: the next ones may release it before they have delivered again what that one has handled
	flushed   holder    // that owner, if its sink has flushed before
	created   int64     // its epoch when it was created

	saved, savedBefore time.Time // when the last two writes of owners that succeeded left them
}

// term is one acquisition of one lease by one host.
type term struct {
	number   int
	began    time.Time
	position int64        // the checkpoint that it began with
	sent     time.Time    // when the newest write that succeeded left the host
	shared   bool         // another host may have worked on some of its keys at the same time
	orderly  bool         // the owner before has released the lease
	flushed  holder       // that owner, if its sink has flushed before
	again    map[Ref]bool // delivered changes that were already handled
	saved    time.Time    // until then the owner before has saved the changes that it had handled
	repeats  map[Ref]bool // of again, changes that were saved

	lastSave, savedBefore time.Time // when this owner's last two writes that succeeded left it
}

type holder struct {
	host string
	tenure
}

// leases follows the lease documents.
type leases struct {
	byToken map[string]*lease
	terms   map[holder]*term
	epochs  map[epochOf]string // the host that acquired
	marked  bool               // bootstrap has created all leases
	created time.Time          // when it first had
	retired []spanTime         // leases that were retired
	excused []spanTime         // spans whose coverage is not judged
	tampers map[string]int     // by token

	duplicated map[string]bool // tokens with a duplicate lease document
}

// spanTime is the span of a lease, and when it was tampered with or retired.
type spanTime struct {
	span
	at time.Time
}

type epochOf struct {
	tenure
	tampered int
}

// lid identifies a lease document; a range with a duplicate has two.
func (e Event) lid() string {
	if e.ID == "" {
		return e.Range
	}
	return e.Range + "|" + e.ID
}

func newLeases() leases {
	return leases{
		byToken: map[string]*lease{}, terms: map[holder]*term{}, epochs: map[epochOf]string{},
		tampers: map[string]int{}, duplicated: map[string]bool{},
	}
}

func (c *checker) term(e Event) int {
	if t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]; t != nil {
		return t.number
	}
	return 0
}

// held judges whether the host of a delivery holds the lease. It returns the
// number of the term, and whether other hosts may have delivered the same keys
// during it.
func (c *checker) held(e Event) (number int, shared bool) {
	t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]
	if t == nil {
		c.violate(Ownership, "%q delivers in epoch %d of range %q, which it did not acquire", e.Host, e.Epoch, e.Range)
		return 0, false
	}
	if d := c.limits.Expiration; d > 0 && e.Time.Sub(t.sent) > d {
		c.violate(Ownership, "%q begins a delivery in epoch %d of range %q %s after its last lease write", e.Host, e.Epoch, e.Range, e.Time.Sub(t.sent))
	}
	c.deliveredPaused(e)
	if e.LSN != 0 && e.LSN <= t.position && !c.cameFromStore(e) {
		c.violate(c.forward(Duplicates, e.Host, e.Range), "%q delivers %s/%d at %d in epoch %d of range %q, which began at %d", e.Host, e.Key, e.Seq, e.LSN, e.Epoch, e.Range, t.position)
	}
	return t.number, t.shared
}

// lease judges one successful write of a lease document.
func (c *checker) lease(e Event) {
	switch e.Op {
	case Marker:
		if !c.marked {
			c.marked, c.created = true, e.Time
		}
		c.cover()
		return
	case Create:
		c.create(e)
		c.createdAgain(e)
	case Retire:
		c.retired = append(c.retired, spanTime{span{e.Min, e.Max}, e.Time})
		delete(c.byToken, e.lid())
	case Pause, Resume, Seek, Free, Take:
		c.operated(e)
	case ForeignTake, ForeignMove, ForeignRelease:
		c.foreignWrote(e)
	default:
		c.replace(e)
	}
	if e.Op != Retire && e.Op != Pause && e.Op != Resume {
		c.acknowledged(e)
	}
	if e.Op == Create || e.Op == Retire || e.Op == Tombstone {
		c.cover()
	}
	if len(c.duplicated) > 0 {
		for _, two := range c.sharers() {
			for _, l := range two {
				if t := c.terms[holder{l.host, tenure{l.token, l.epoch}}]; t != nil {
					t.shared = true
				}
			}
		}
	}
}

// sharers returns the pairs of leases that overlap and are held by live hosts.
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

// calmed judges the leases when there were no faults for a while: each key has
// one owner, even if leases were tampered with before. The ignored document of a range that
// has two may keep the name of its last owner, which has lost it.
func (c *checker) calmed() {
	c.calm = true
	for _, two := range c.sharers() {
		if c.now.Sub(two[0].written) >= c.limits.Expiration || c.now.Sub(two[1].written) >= c.limits.Expiration {
			continue
		}
		c.violate(Ownership, "%q holds lease %q and %q holds lease %q although there are no faults", two[0].host, two[0].token, two[1].host, two[1].token)
	}
}

func (c *checker) replace(e Event) {
	l := c.byToken[e.lid()]
	if l == nil {
		c.violate(Ownership, "lease %q was written, but does not exist", e.Range)
		l = &lease{token: e.Range}
		c.byToken[e.lid()] = l
	}
	if e.Epoch < l.epoch || e.Position < l.position && !c.restores(e) && !c.repeatsEpoch(e, l) {
		rule := Monotone
		if e.Epoch == l.epoch {
			rule = c.forward(Monotone, e.Host, e.Range)
		}
		c.violate(rule, "lease %q went from epoch %d at %d to epoch %d at %d", e.Range, l.epoch, l.position, e.Epoch, e.Position)
	}
	switch {
	case e.Op == Acquire:
		c.acquire(e, l)
	case c.restores(e):
	case e.Epoch != l.epoch:
		c.violate(Monotone, "lease %q changed its epoch from %d to %d without an acquisition", e.Range, l.epoch, e.Epoch)
	}
	if e.Op == Request {
		l.requester = e.Host // the document names the last one, also an operator
		if l.requested.IsZero() {
			l.requested = e.Time
		}
	}
	switch {
	case e.Op == Release:
		c.released(e, l)
		c.releasedAtStop(e, l)
		c.endWork(e)
	case e.Op != Request && e.Op != Acquire && !l.resisted && !l.requested.IsZero() && e.Time.Sub(l.requested) >= c.limits.Expiration:
		l.resisted = true
		c.report.count(NoRobbery, 1, 0)
	}
	if t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]; t != nil {
		t.sent = later(t.sent, e.Sent)
		l.save(e.Sent)
		if e.Sent.After(t.lastSave) {
			t.savedBefore, t.lastSave = t.lastSave, e.Sent
		}
	} else if e.Op != Request && !c.restores(e) {
		c.violate(Ownership, "%q wrote lease %q in epoch %d, which it did not acquire", e.Host, e.Range, e.Epoch)
	}
	if e.Max != "" {
		l.span = span{e.Min, e.Max}
	}
	l.epoch, l.position, l.tombstone = e.Epoch, e.Position, e.Op == Tombstone
	if l.tombstone {
		c.retired = append(c.retired, spanTime{l.span, e.Time})
	}
	if e.Op != Request {
		l.written, l.orderly, l.flushed = e.Time, e.Op == Release, holder{}
		if by := (holder{e.Host, tenure{e.Range, e.Epoch}}); c.flushedAtEnd[by] {
			l.flushed = by
		}
	}
	switch {
	case e.Owner == "":
		l.host = ""
	case e.Op != Request:
		l.host = e.Host
	}
}

func (c *checker) acquire(e Event, l *lease) {
	if e.Epoch <= l.epoch {
		c.violate(Monotone, "lease %q was acquired with epoch %d, it had %d", e.Range, e.Epoch, l.epoch)
	}
	l.acquired = e.Time
	if c.calm && !c.limits.Drains {
		c.violate(Churn, "lease %q was acquired by %q from %q although there were no faults", e.Range, e.Host, l.host)
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
	t := &term{
		number: number, began: e.Time, again: map[Ref]bool{}, repeats: map[Ref]bool{}, saved: l.savedBefore, position: e.Position, sent: e.Sent,
		shared: c.acquiredEarly(e, l) || c.disturbed(e) || c.takenSoon(e),
	}
	t.orderly, t.flushed = l.orderly && !t.shared && l.tampered == 0, l.flushed
	if !l.orderly {
		l.unclean = e.Epoch - 1
	}
	c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}] = t
	c.acquiredPaused(e, l)
	c.acquiredWhileStopping(e)
	c.takenOver(e, l)
	c.newPages(e)
	c.beginWork(e)
	l.host, l.requested, l.requester, l.resisted = e.Host, time.Time{}, "", false
}

// rounding is the error of times that leases keep in whole seconds.
const rounding = time.Second

// acquiredEarly reports whether an acquisition took the lease from an owner that
// could still deliver. If so, it marks that owner's term as shared as well: both
// may deliver until its next write. This is allowed only if a host has seen a
// wrong service clock for some time. An owner that has not answered a handover
// request for an expiration keeps its lease, too, as long as it renews it.
func (c *checker) acquiredEarly(e Event, l *lease) bool {
	owner := c.terms[holder{l.host, tenure{e.Range, l.epoch}}]
	if owner == nil || l.host == e.Host || !c.up[l.host] || c.limits.Expiration == 0 || e.Sent.Sub(owner.sent) >= c.limits.Expiration {
		return false
	}
	owner.shared = true
	if c.stepped {
		return true
	}
	rule := Ownership
	date, wrong := c.wrongDates[e.Host]
	switch {
	case wrong && e.Time.Sub(date) < c.limits.Expiration:
		rule = ForwardOnly
	case !l.requested.IsZero() && e.Time.Sub(l.requested) >= c.limits.Expiration-rounding:
		rule = NoRobbery
	}
	c.violate(rule, "%q took lease %q from %q, whose last write was sent %s earlier", e.Host, e.Range, l.host, e.Sent.Sub(owner.sent))
	return true
}

// disturbed reports whether a lease of these keys was tampered with so recently
// that its owner may not have noticed.
func (c *checker) disturbed(e Event) bool { return c.tamperedWithin(e, c.limits.Expiration) }

func (c *checker) tamperedWithin(e Event, period time.Duration) bool {
	return slices.ContainsFunc(c.excused, func(t spanTime) bool {
		return t.overlaps(span{e.Min, e.Max}) && e.Time.Sub(t.at) < period
	})
}

// restores reports whether a write may be that of the host that held a lease when
// its document was deleted: it finds a document that was created meanwhile, writes
// its own position into it, and leaves it without an owner. It notices the deletion
// within one expiration, its worker ends, and it may restore the lease for another.
func (c *checker) restores(e Event) bool {
	return e.Owner == "" && c.tamperedWithin(e, 3*c.limits.Expiration)
}

// repeatsEpoch reports whether the position of an owner may be below that of a lease which was
// restored from a copy. Host A acquires the lease in epoch 2. A copy of epoch 1 is restored, and
// A acquires that in epoch 2 again, at an earlier position. Then a copy of A's first epoch 2 is
// restored: it names the same owner and epoch, so A keeps the lease and writes its own position.
func (c *checker) repeatsEpoch(e Event, l *lease) bool {
	return l.tampered > 1 && l.written.IsZero() && e.Epoch == l.epoch && c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}] != nil
}

// acknowledged judges whether all changes up to a lease's position are handled.
func (c *checker) acknowledged(e Event) {
	s := span{e.Min, e.Max}
	for _, p := range c.pending {
		if p.LSN != 0 && p.LSN <= e.Position && s.min <= p.Hash && p.Hash < s.max {
			c.violate(Checkpoints, "%q: %s of lease %q at %d, but %s/%d at %d is not handled", e.Host, e.Op, e.Range, e.Position, p.Key, p.Seq, p.LSN)
			return
		}
	}
}

// tamper records a change of a lease that no host has made. It replaces the
// lease, so that later writes are compared only with the new state.
func (c *checker) tamper(e Event) {
	c.faulted = e.Time
	c.tampers[e.lid()]++
	if e.Op == Duplicated {
		c.duplicated[e.Range] = true
	}
	c.excused = append(c.excused, spanTime{span{e.Min, e.Max}, e.Time})
	c.forgetSought(span{e.Min, e.Max})
	for _, l := range c.byToken { // its owner does not know yet
		if t := c.terms[holder{l.host, tenure{l.token, l.epoch}}]; t != nil && l.overlaps(span{e.Min, e.Max}) {
			t.shared = true
		}
	}
	if e.Op == Deleted {
		c.deleted(e)
		delete(c.byToken, e.lid())
		return
	}
	c.skipAgain(e)
	c.byToken[e.lid()] = &lease{
		token: e.Range, span: span{e.Min, e.Max}, epoch: e.Epoch, position: e.Position, tombstone: e.Retired, tampered: c.tampers[e.lid()],
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

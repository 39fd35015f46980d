package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Violation is one broken promise.
type Violation struct {
	Rule Rule      `json:"rule"`
	Key  string    `json:"key,omitempty"`
	Text string    `json:"text"`
	Time time.Time `json:"time,omitzero"`
}

func (v Violation) String() string {
	s := fmt.Sprintf("%s: key %q: %s", v.Rule, v.Key, v.Text)
	if v.Key == "" {
		s = fmt.Sprintf("%s: %s", v.Rule, v.Text)
	}
	if !v.Time.IsZero() {
		s += " at " + v.Time.UTC().Format("15:04:05.000")
	}
	return s
}

// Report is the verdict on a history.
type Report struct {
	Written      int           `json:"written"`               // changes
	Delivered    int           `json:"delivered"`             // distinct changes
	Redelivered  int           `json:"redelivered"`           // deliveries beyond the first of a change
	Superseded   int           `json:"superseded"`            // versions not delivered because a later one replaced them
	Skipped      int           `json:"skipped,omitempty"`     // last versions that an operator has skipped
	DeadLetters  int           `json:"deadLetters,omitempty"` // changes that count as handled because the store has them
	Lost         int           `json:"lost"`                  // last versions that were not delivered
	Hosts        int           `json:"hosts"`
	Takeovers    int           `json:"takeovers,omitempty"`       // leases of killed hosts that others acquired
	Slowest      time.Duration `json:"slowestTakeover,omitempty"` // among takeovers without other faults
	WidestWindow int           `json:"widestWindow,omitempty"`    // handled changes that were redelivered after an orderly release
	MostRepeats  int           `json:"mostRepeats,omitempty"`     // saved changes that were redelivered after an owner was killed
	SlowestStop  time.Duration `json:"slowestStop,omitempty"`     // of a host that was asked to stop
	Violations   []Violation   `json:"violations"`
	Tallies      Tallies       `json:"tallies,omitempty"` // of the rules that count their cases

	OtherKeys Delays `json:"otherKeys,omitzero"` // of changes that were read while another key of their range failed
}

// Limits are the options of a run that its history does not contain. If one is
// zero, its rule is not judged.
type Limits struct {
	Expiration      time.Duration // how long a lease lasts without a write
	AcquireInterval time.Duration // between two passes of a balancer
	RenewInterval   time.Duration // between two writes of a held lease without progress
	Memory          int64         // bytes that a host may hold
	Drains          bool          // hosts acquire leases only when there are new changes, and release them when caught up
	StopGrace       time.Duration // within which a host that is asked to stop ends its work
	StuckGrace      time.Duration // how long an owner waits for calls that ignore the end of their context
	Slack           time.Duration // that real processes and clocks may add to each limit
	Poll            time.Duration // between two reads of an idle range
	Window          int           // handled changes that may be redelivered after an orderly release
	MaxAhead        int           // changes that an owner may read from one on that waits for a retry, if ranges have merged
	Requests        bool          // a release saves only what requests cover, so that Window holds for owners that have flushed at their end
	SilentRequests  bool          // handled changes may wait for a request, and the history does not tell which
	Attempts        int           // handler calls with a change that always fails
	AttemptsVary    bool          // a change may be given up with fewer attempts
	LanesByID       bool          // documents of one key may be in calls at the same time
	Halves          bool          // a batch that fails is halved
	Rate            float64       // changes a second that a host may deliver
	RateAhead       int           // changes that it may deliver beyond that, because calls may begin later than they were paid
	ReadUnits       float64       // request units a second that a host may spend on feed reads
	ReadAhead       float64       // request units beyond that: reads are paid afterwards
	ReadWait        time.Duration // the longest wait of a feed read for ReadUnits
	Poison          Poison        // zero unless nothing but poison changes fails in the run
}

// Check judges a history without limits for time and memory.
func Check(events []Event) Report { return Limits{}.Check(events) }

// Check judges the history of a run that has ended with all hosts caught up:
// every change that was written must have been delivered.
func (l Limits) Check(events []Event) Report {
	r := Report{Violations: []Violation{}}
	c := newChecker(l, &r, events)
	for _, e := range events {
		if e.Kind == Write { // a delivery may be recorded before its write
			c.key(e.Key).write(&r, e)
		}
	}
	for _, e := range events {
		c.now = e.Time
		c.judgeDeadlines()
		c.take(e)
	}
	c.finish()
	for _, v := range r.Violations {
		if _, counted := r.Tallies[v.Rule]; counted {
			r.count(v.Rule, 0, 1)
		}
	}
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	return r
}

func (r *Report) violate(rule Rule, key string, at time.Time, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{rule, key, fmt.Sprintf(format, args...), at})
}

// checker reads the events in their order. One goroutine uses it.
type checker struct {
	limits Limits
	report *Report
	now    time.Time
	leased bool // the history has writes of leases
	ended  bool // the history has ends of handler calls

	keys    map[string]*key
	calls   map[int64][]Event // deliveries of handler calls that have not ended
	running map[calledKey]int64
	owners  map[tenure]string // the host that delivered, if the history has no lease writes
	hosts   map[string]bool
	pending map[string]Event       // by document: newest version, not handled
	handled map[string]int64       // by document: newest Seq handled
	worked  map[holder]time.Time   // when an owner last began or ended a call; the epoch is zero
	recent  map[holder][]ownerCall // in the order of their ends; likewise
	leases
	fleet
	deadlines
	delays
	operator
	advances
	sinks
	spent limits
}

func newChecker(l Limits, r *Report, events []Event) *checker {
	return &checker{
		limits: l, report: r,
		leased:    slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Lease }),
		ended:     slices.ContainsFunc(events, func(e Event) bool { return e.Kind == End }),
		keys:      map[string]*key{},
		calls:     map[int64][]Event{},
		running:   map[calledKey]int64{},
		owners:    map[tenure]string{},
		hosts:     map[string]bool{},
		pending:   map[string]Event{},
		handled:   map[string]int64{},
		worked:    map[holder]time.Time{},
		recent:    map[holder][]ownerCall{},
		leases:    newLeases(),
		fleet:     newFleet(),
		deadlines: newDeadlines(),
		delays:    newDelays(),
		advances:  newAdvances(),
		sinks:     newSinks(),
		spent:     newLimits(),
	}
}

func (c *checker) violate(rule Rule, format string, args ...any) {
	c.report.violate(rule, "", c.now, format, args...)
}

func (c *checker) take(e Event) {
	switch e.Kind {
	case Write:
		if c.handled[e.ID] < e.Seq {
			c.pending[e.ID] = e
		}
	case Delivery:
		c.deliver(e)
	case End:
		c.end(e)
	case Lease:
		c.lease(e)
	case Tamper:
		c.tamper(e)
	case Host:
		c.host(e)
	case Reading:
		c.read(e)
	case Fault:
		c.fault(e)
	case Calm:
		c.calmed()
	case Flush:
		c.takeFlush(e)
	case Charged:
		c.spend(UnitsKept, c.spent.units, e.Host, c.limits.ReadUnits, c.limits.ReadAhead, e.Units)
	case Held:
		if c.limits.Memory > 0 && e.Bytes > c.limits.Memory {
			c.violate(Memory, "%q holds %d bytes, its budget is %d", e.Host, e.Bytes, c.limits.Memory)
		}
	}
}

// deliver judges one delivery by the state of the run when it began.
func (c *checker) deliver(e Event) {
	c.hosts[e.Host] = true
	s := stream{e.Host, tenure{e.Range, e.Epoch}, 0}
	shared := false
	if c.leased {
		s.term, shared = c.held(e)
	} else {
		c.deliveredBy(e)
	}
	c.redelivered(e)
	c.repeated(e)
	c.spend(RateKept, c.spent.rate, e.Host, c.limits.Rate, float64(c.limits.RateAhead), 1)
	c.duePostponed(e)
	c.key(e.Key).deliver(c.report, s, e, c.ended, shared, c.forward(Order, e.Host, e.Range))
	c.key(e.Key).noteLast(s, shared && !c.foreign[e.Host])
	if c.foreign[e.Host] {
		c.key(e.Key).foreignTop = max(c.key(e.Key).foreignTop, e.Seq)
	}
	if e.Call != 0 {
		c.beginCall(e)
		c.inFeedOrder(e)
		c.calls[e.Call] = append(c.calls[e.Call], e)
		c.worked[holder{e.Host, tenure{token: e.Range}}] = e.Time
	}
}

// deliveredBy judges ownership if the history has no lease writes.
func (c *checker) deliveredBy(e Event) {
	t := tenure{e.Range, e.Epoch}
	if owner, found := c.owners[t]; found && owner != e.Host {
		c.violate(Ownership, "range %q, epoch %d delivered by %q and %q", e.Range, e.Epoch, owner, e.Host)
	}
	c.owners[t] = e.Host
}

// end records the verdict of a handler call, or the changes that were
// dead-lettered.
func (c *checker) end(e Event) {
	if e.Verdict == Postponed {
		c.postpone(e)
		return
	}
	if e.Verdict == DeadLettered {
		for _, ref := range e.Failed {
			c.report.DeadLetters++
			change := c.handle(stream{}, ref.Key, ref.Seq)
			if change == nil {
				continue
			}
			c.attempted(ref, e)
			c.givenUp(ref, e)
			c.givenUpAlone(ref, e)
			change.dead = true
			if change.seen == 0 && e.Op != BlockedKey {
				c.violate(Untried, "%s/%d was dead-lettered in epoch %d of range %q, but never delivered", ref.Key, ref.Seq, e.Epoch, e.Range)
			}
		}
		return
	}
	changes := c.calls[e.Call]
	delete(c.calls, e.Call)
	c.endCall(e.Call, changes)
	c.worked[holder{e.Host, tenure{token: e.Range}}] = e.Time
	c.callEnded(e, changes)
	c.wholeBatches(e, changes)
	c.noteCall(e, changes)
	if e.Verdict == Failed {
		return
	}
	for _, d := range changes {
		if e.Verdict == PartlyFailed && slices.Contains(e.Failed, Ref{d.Key, d.Seq}) {
			continue
		}
		by := stream{d.Host, tenure{d.Range, d.Epoch}, c.term(d)}
		c.handledBy(d)
		if e.Op == Buffered {
			c.buffer(by, d.Key, d.Seq)
		} else {
			c.handle(by, d.Key, d.Seq)
		}
	}
}

// attempted judges the number of attempts in a dead letter. A change that ends the
// process has an attempt for each death.
func (c *checker) attempted(ref Ref, e Event) {
	limit := c.limits.Attempts
	if limit <= 0 || e.Op == BlockedKey {
		return
	}
	c.report.count(ExactAttempts, 1, 0)
	if e.Attempt > max(limit, c.deaths[ref]) || e.Attempt < limit && !c.limits.AttemptsVary {
		c.violate(ExactAttempts, "%s/%d was dead-lettered after %d attempts, %d are configured", ref.Key, ref.Seq, e.Attempt, limit)
	}
}

// redelivered judges how many handled changes an owner delivers again after its
// predecessor has released the lease.
func (c *checker) redelivered(e Event) {
	t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]
	k := c.key(e.Key)
	if t == nil || !t.orderly || c.limits.Window == 0 || e.Seq < 1 || e.Seq > int64(len(k.changes)) {
		return
	}
	change := k.changes[e.Seq-1]
	if !change.handled || change.by.host == e.Host {
		return
	}
	if c.limits.Requests && t.flushed != (holder{change.by.host, change.by.tenure}) {
		return // the owner has not flushed it
	}
	// A lease that was deleted and created again may begin at an earlier position.
	if l := c.byToken[e.Range]; l != nil && (c.movedBack(l.span, e.LSN, change.ended) || change.by.epoch < l.created || change.by.epoch <= l.unclean) {
		return
	}
	ref := Ref{e.Key, e.Seq}
	if t.again[ref] {
		return // a retry of this owner
	}
	if t.again[ref] = true; len(t.again) == 1 {
		c.report.count(Window, 1, 0)
	}
	c.report.WidestWindow = max(c.report.WidestWindow, len(t.again))
	if len(t.again) == c.limits.Window+1 {
		c.violate(Window, "%q redelivers more than %d handled changes in epoch %d of range %q, which was released to it", e.Host, c.limits.Window, e.Epoch, e.Range)
	}
}

// handle records that a change needs no further delivery. It returns nil if the
// change was never written.
func (c *checker) handle(by stream, name string, seq int64) *change {
	k := c.key(name)
	if seq < 1 || seq > int64(len(k.changes)) {
		return nil // already reported as a phantom
	}
	change := &k.changes[seq-1]
	change.handled, change.by, change.again, change.ended = true, by, false, c.now
	change.inStore, change.unsaved, change.kept = false, false, false
	c.handled[change.id] = max(c.handled[change.id], seq)
	if p, ok := c.pending[change.id]; ok && p.Seq <= seq {
		delete(c.pending, change.id)
	}
	return change
}

func (c *checker) finish() {
	c.report.Hosts = len(c.hosts)
	for _, k := range c.keys {
		k.finish(c.report, c.ended)
	}
	c.finishLeases()
	c.finishFleet()
	c.finishDelays()
	c.finishSeeks()
	c.finishNewest()
}

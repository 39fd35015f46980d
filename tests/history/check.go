package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Rule names a promise that a history can break.
type Rule string

const (
	NoLoss      Rule = "no loss"    // every document's last version is delivered
	NoPhantom   Rule = "phantom"    // nothing is delivered that was not written
	Order       Rule = "order"      // first deliveries of a key increase; nobody delivers again what it handled itself
	NoGap       Rule = "no gap"     // whoever starts again from earlier repeats everything after it
	Ownership   Rule = "ownership"  // one host per lease and epoch, and per key at rest; no delivery without a lease that is sure to be held
	Checkpoints Rule = "checkpoint" // no lease is written with a position past a change that is not handled
	Monotone    Rule = "monotone"   // position and epoch of a lease and its children never fall
	Coverage    Rule = "coverage"   // the leases cover the key space, a parent beside its children the only overlap
	Duplicates  Rule = "duplicates" // nothing is delivered again that was checkpointed when the lease was acquired
	Takeover    Rule = "takeover"   // the leases of a dead host have another owner in time
	Churn       Rule = "churn"      // while nothing goes wrong no lease changes hands
	Untried     Rule = "untried"    // nothing is given up that no handler has seen, unless it is parked
	Memory      Rule = "memory"     // no host holds more than its budget
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
	Written     int           `json:"written"`               // changes
	Delivered   int           `json:"delivered"`             // distinct changes
	Redelivered int           `json:"redelivered"`           // deliveries beyond the first of a change
	Superseded  int           `json:"superseded"`            // versions that nobody saw, a later one of the document took their place
	DeadLetters int           `json:"deadLetters,omitempty"` // changes that count as handled because they were kept
	Lost        int           `json:"lost"`                  // last versions that nobody saw
	Hosts       int           `json:"hosts"`
	Takeovers   int           `json:"takeovers,omitempty"`       // leases of killed hosts that others acquired
	Slowest     time.Duration `json:"slowestTakeover,omitempty"` // of those while nothing else went wrong
	Violations  []Violation   `json:"violations"`
}

// Limits are what a history alone does not tell. What is zero is not judged.
type Limits struct {
	Expiration      time.Duration // how long a lease lasts without a write
	AcquireInterval time.Duration // between two passes of a balancer
	Memory          int64         // bytes that a host may hold
	Drains          bool          // hosts take leases that have something new, and give them back: none is anybody's for long
}

// Check judges a history without regard to time and memory.
func Check(events []Event) Report { return Limits{}.Check(events) }

// Check judges a history whose run has come to rest: every change written must
// have been delivered.
func (l Limits) Check(events []Event) Report {
	r := Report{Violations: []Violation{}}
	c := newChecker(l, &r, events)
	for _, e := range events {
		if e.Kind == Write { // deliveries may be recorded before their write is
			c.key(e.Key).write(&r, e)
		}
	}
	for _, e := range events {
		c.now = e.Time
		c.take(e)
	}
	c.finish()
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	return r
}

func (r *Report) violate(rule Rule, key string, at time.Time, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{rule, key, fmt.Sprintf(format, args...), at})
}

// checker takes the events in their order.
type checker struct {
	limits Limits
	report *Report
	now    time.Time
	leased bool // the history has writes of leases
	ended  bool // the history has ends of handler calls

	keys    map[string]*key
	calls   map[int64][]Event // deliveries of handler calls that go on
	owners  map[tenure]string // without lease writes: who delivered
	hosts   map[string]bool
	pending map[string]Event // by document: newest version, not handled
	handled map[string]int64 // by document: newest Seq handled
	leases
	fleet
}

func newChecker(l Limits, r *Report, events []Event) *checker {
	return &checker{
		limits: l, report: r,
		leased:  slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Lease }),
		ended:   slices.ContainsFunc(events, func(e Event) bool { return e.Kind == End }),
		keys:    map[string]*key{},
		calls:   map[int64][]Event{},
		owners:  map[tenure]string{},
		hosts:   map[string]bool{},
		pending: map[string]Event{},
		handled: map[string]int64{},
		leases:  newLeases(),
		fleet:   newFleet(),
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
	case Fault:
		c.faulted = e.Time
		c.stepped = c.stepped || e.Op == ClockStep
	case Calm:
		c.rested()
	case Held:
		if c.limits.Memory > 0 && e.Bytes > c.limits.Memory {
			c.violate(Memory, "%q holds %d bytes, its budget is %d", e.Host, e.Bytes, c.limits.Memory)
		}
	}
}

// deliver judges one delivery in the place where it happened.
func (c *checker) deliver(e Event) {
	c.hosts[e.Host] = true
	s := stream{e.Host, tenure{e.Range, e.Epoch}, 0}
	shared := false
	if c.leased {
		s.term, shared = c.held(e)
	} else {
		c.own(e)
	}
	c.key(e.Key).deliver(c.report, s, e, c.ended, shared)
	if e.Call != 0 {
		c.calls[e.Call] = append(c.calls[e.Call], e)
	}
}

// own judges ownership by the deliveries alone.
func (c *checker) own(e Event) {
	t := tenure{e.Range, e.Epoch}
	if owner, found := c.owners[t]; found && owner != e.Host {
		c.violate(Ownership, "range %q, epoch %d delivered by %q and %q", e.Range, e.Epoch, owner, e.Host)
	}
	c.owners[t] = e.Host
}

// end is the verdict on a call, or on changes that no call will see again.
func (c *checker) end(e Event) {
	if e.Verdict == DeadLettered {
		for _, ref := range e.Refused {
			c.report.DeadLetters++
			change := c.handle(stream{}, ref.Key, ref.Seq)
			if change == nil {
				continue
			}
			change.dead = true
			if change.seen == 0 && e.Op != Parked {
				c.violate(Untried, "%s/%d was dead-lettered in epoch %d of range %q, and never delivered", ref.Key, ref.Seq, e.Epoch, e.Range)
			}
		}
		return
	}
	changes := c.calls[e.Call]
	delete(c.calls, e.Call)
	if e.Verdict == Refusal {
		return
	}
	for _, d := range changes {
		if e.Verdict == PartlyFailed && slices.Contains(e.Refused, Ref{d.Key, d.Seq}) {
			continue
		}
		c.handle(stream{d.Host, tenure{d.Range, d.Epoch}, c.term(d)}, d.Key, d.Seq)
	}
}

// handle notes that a change needs no delivery any more.
func (c *checker) handle(by stream, name string, seq int64) *change {
	k := c.key(name)
	if seq < 1 || seq > int64(len(k.changes)) {
		return nil // a phantom, reported as such
	}
	change := &k.changes[seq-1]
	change.handled, change.by = true, by
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
}

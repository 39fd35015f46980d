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
	NoPhantom   Rule = "phantom"    // every delivered change was written
	Order       Rule = "order"      // first deliveries of a key increase; an owner does not redeliver a change that it handled
	NoGap       Rule = "no gap"     // if an owner restarts at an earlier change, it redelivers every change after it
	Ownership   Rule = "ownership"  // one host per lease and epoch, one per key when the fleet is calm; deliveries only while the lease is certainly held
	Checkpoints Rule = "checkpoint" // no lease is written with a position past a change that is not handled
	Monotone    Rule = "monotone"   // position and epoch of a lease and its children never fall
	Coverage    Rule = "coverage"   // the leases cover the key space; they overlap only while a parent and its children both exist
	Duplicates  Rule = "duplicates" // a change is not redelivered if it was checkpointed when the lease was acquired
	Takeover    Rule = "takeover"   // the leases of a dead host have another owner in time
	Churn       Rule = "churn"      // when there are no faults, no lease changes its owner
	Untried     Rule = "untried"    // a change is dead-lettered only if a handler has seen it or its key is blocked
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
	Superseded  int           `json:"superseded"`            // versions not delivered because a later one replaced them
	DeadLetters int           `json:"deadLetters,omitempty"` // changes that count as handled because the store has them
	Lost        int           `json:"lost"`                  // last versions that were not delivered
	Hosts       int           `json:"hosts"`
	Takeovers   int           `json:"takeovers,omitempty"`       // leases of killed hosts that others acquired
	Slowest     time.Duration `json:"slowestTakeover,omitempty"` // among takeovers without other faults
	Violations  []Violation   `json:"violations"`
}

// Limits are the options of a run that its history does not contain. If one is
// zero, its rule is not judged.
type Limits struct {
	Expiration      time.Duration // how long a lease lasts without a write
	AcquireInterval time.Duration // between two passes of a balancer
	Memory          int64         // bytes that a host may hold
	Drains          bool          // hosts acquire leases only when there are new changes, and release them when caught up
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

// checker reads the events in their order. One goroutine uses it.
type checker struct {
	limits Limits
	report *Report
	now    time.Time
	leased bool // the history has writes of leases
	ended  bool // the history has ends of handler calls

	keys    map[string]*key
	calls   map[int64][]Event // deliveries of handler calls that have not ended
	owners  map[tenure]string // the host that delivered, if the history has no lease writes
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
		c.calmed()
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
	c.key(e.Key).deliver(c.report, s, e, c.ended, shared)
	if e.Call != 0 {
		c.calls[e.Call] = append(c.calls[e.Call], e)
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
	if e.Verdict == DeadLettered {
		for _, ref := range e.Failed {
			c.report.DeadLetters++
			change := c.handle(stream{}, ref.Key, ref.Seq)
			if change == nil {
				continue
			}
			change.dead = true
			if change.seen == 0 && e.Op != BlockedKey {
				c.violate(Untried, "%s/%d was dead-lettered in epoch %d of range %q, but never delivered", ref.Key, ref.Seq, e.Epoch, e.Range)
			}
		}
		return
	}
	changes := c.calls[e.Call]
	delete(c.calls, e.Call)
	if e.Verdict == Failed {
		return
	}
	for _, d := range changes {
		if e.Verdict == PartlyFailed && slices.Contains(e.Failed, Ref{d.Key, d.Seq}) {
			continue
		}
		c.handle(stream{d.Host, tenure{d.Range, d.Epoch}, c.term(d)}, d.Key, d.Seq)
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

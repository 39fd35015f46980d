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
	NoLoss    Rule = "no loss"   // every document's last version is delivered
	NoPhantom Rule = "phantom"   // nothing is delivered that was not written
	Order     Rule = "order"     // first deliveries of a key increase; so do all of one owner in one epoch, retries aside
	NoGap     Rule = "no gap"    // whoever starts again from earlier repeats everything after it
	Ownership Rule = "ownership" // one host per range and epoch
)

// Violation is one broken promise.
type Violation struct {
	Rule Rule   `json:"rule"`
	Key  string `json:"key,omitempty"`
	Text string `json:"text"`
}

func (v Violation) String() string { return fmt.Sprintf("%s: key %q: %s", v.Rule, v.Key, v.Text) }

// Report is the verdict on a history.
type Report struct {
	Written     int         `json:"written"`     // changes
	Delivered   int         `json:"delivered"`   // distinct changes
	Redelivered int         `json:"redelivered"` // deliveries beyond the first of a change
	Superseded  int         `json:"superseded"`  // versions that nobody saw, a later one of the document took their place
	Lost        int         `json:"lost"`        // last versions that nobody saw
	Hosts       int         `json:"hosts"`
	Violations  []Violation `json:"violations"`
}

// Limits are what a history alone does not tell.
type Limits struct {
	Expiration      time.Duration // how long a lease lasts without a write
	AcquireInterval time.Duration // between two passes of a balancer
}

// Check judges a history without regard to time.
func Check(events []Event) Report { return Limits{}.Check(events) }

// Check judges a history whose run has come to rest: every change written must
// have been delivered.
func (l Limits) Check(events []Event) Report {
	r := Report{Violations: []Violation{}}
	keys := make(map[string]*key)
	for _, e := range events {
		if e.Kind == Write {
			keyOf(keys, e.Key).write(&r, e)
		}
	}
	owners := make(map[tenure]string)
	hosts := make(map[string]bool)
	for _, e := range events {
		if e.Kind == Delivery {
			hosts[e.Host] = true
			checkOwner(&r, owners, e)
			keyOf(keys, e.Key).deliver(&r, e)
		}
	}
	r.Hosts = len(hosts)
	for _, k := range keys {
		k.finish(&r)
	}
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	return r
}

func (r *Report) violate(rule Rule, key, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{rule, key, fmt.Sprintf(format, args...)})
}

// tenure is one host's time with one range.
type tenure struct {
	token string
	epoch int64
}

func checkOwner(r *Report, owners map[tenure]string, e Event) {
	t := tenure{e.Range, e.Epoch}
	if owner, found := owners[t]; found && owner != e.Host {
		r.violate(Ownership, "", "range %q, epoch %d delivered by %q and %q", e.Range, e.Epoch, owner, e.Host)
	}
	owners[t] = e.Host
}

// key follows the changes of one logical partition key.
type key struct {
	name    string
	changes []change // by Seq, from 1
	top     int64    // highest Seq delivered
	cursors map[stream]int64
}

type change struct {
	id      string
	last    bool // no later version of the document
	written bool
	seen    int
}

// stream is one owner's deliveries of a key within one epoch.
type stream struct {
	host string
	tenure
}

func keyOf(keys map[string]*key, name string) *key {
	k, found := keys[name]
	if !found {
		k = &key{name: name, cursors: make(map[stream]int64)}
		keys[name] = k
	}
	return k
}

func (k *key) write(r *Report, e Event) {
	if e.Seq < 1 {
		r.violate(NoPhantom, k.name, "write %d: changes are numbered from 1", e.Seq)
		return
	}
	for int64(len(k.changes)) < e.Seq {
		k.changes = append(k.changes, change{})
	}
	if k.changes[e.Seq-1].written {
		return // acknowledged twice: the writer repeated a write with an unknown outcome
	}
	for i := range k.changes[:e.Seq-1] {
		if k.changes[i].id == e.ID {
			k.changes[i].last = false
		}
	}
	k.changes[e.Seq-1] = change{id: e.ID, last: true, written: true}
	r.Written++
}

// deliver judges one delivery in the place where it happened.
func (k *key) deliver(r *Report, e Event) {
	if e.Seq < 1 || e.Seq > int64(len(k.changes)) || k.changes[e.Seq-1].id != e.ID {
		r.violate(NoPhantom, k.name, "delivery of %d %q, which was never written", e.Seq, e.ID)
		return
	}
	c := &k.changes[e.Seq-1]
	if c.seen++; c.seen > 1 {
		r.Redelivered++
	} else {
		r.Delivered++
	}
	s := stream{e.Host, tenure{e.Range, e.Epoch}}
	cursor, found := k.cursors[s]
	switch {
	case !found:
		cursor = k.top // where all owners together are: the first may be earlier, not later
	case e.Seq <= cursor && e.Attempt <= 1:
		r.violate(Order, k.name, "%q went back from %d to %d within epoch %d of range %q without a retry", e.Host, cursor, e.Seq, e.Epoch, e.Range)
	}
	if missing := k.missing(cursor, e.Seq); missing > 0 {
		r.violate(NoGap, k.name, "%q delivered %d after %d without %d", e.Host, e.Seq, cursor, missing)
	}
	if c.seen == 1 && e.Seq < k.top {
		r.violate(Order, k.name, "%d delivered for the first time after %d", e.Seq, k.top)
	}
	k.cursors[s] = e.Seq
	k.top = max(k.top, e.Seq)
}

// missing is the first change between two positions that has no later version
// to excuse its absence; 0 if there is none.
func (k *key) missing(after, before int64) int64 {
	for seq := after + 1; seq < before; seq++ {
		if k.changes[seq-1].last {
			return seq
		}
	}
	return 0
}

func (k *key) finish(r *Report) {
	for i, c := range k.changes {
		switch {
		case !c.written || c.seen > 0:
		case c.last:
			r.Lost++
			r.violate(NoLoss, k.name, "%d %q was never delivered", i+1, c.id)
		default:
			r.Superseded++
		}
	}
}

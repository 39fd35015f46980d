package history

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"
)

// Poison describes a run in which nothing fails but single changes, which always
// fail. Such a run shows how they delay the others.
type Poison struct {
	Call               time.Duration // the longest handler call
	RetryMin, RetryMax time.Duration
	BatchItems         int
	BatchWindow        time.Duration
	IsPresent          bool // some changes fail; nothing else holds up the others, not even a limit or a throttle
	IsAheadShort       bool // MaxAhead is below its default, so that a failing key may stop the reading
}

// Delays are the times from the read of a change until it was handled.
type Delays struct {
	Samples       int           `json:"samples,omitempty"`
	P50, P99, Max time.Duration `json:",omitzero"`
}

// Limits of the delay that a failing key may cause: enough samples to tell, and
// the 99th percentile beyond the batching window.
const (
	enoughSamples  = 200
	otherKeysDelay = 2 * time.Second
)

// delays follows the changes of a run with poison from the page to their end.
type delays struct {
	pages   map[holder][]page // by host and range; the epoch is zero
	calls   map[holder][]interval
	samples []sample
	decided []decision
	first   map[Ref]decision // changes that have failed and are not given up
	dead    map[string]time.Time
	failing map[string]bool // keys with a change that failed alone
	aparts  []apart
	waited  map[string]time.Time // by key: when one of its changes that had failed was last handled
}

// page is one page that was read: the changes up to an LSN.
type page struct {
	upTo int64
	at   time.Time
}

// interval is one handler call.
type interval struct {
	began, ended time.Time
	failed       bool
	again        bool   // all its changes were delivered before
	key          string // of its first change
}

// sample is one change that was handled.
type sample struct {
	key            string
	by             holder
	read           time.Time
	began, handled time.Time // its first delivery by this owner
	waited         bool      // behind an earlier change of its key that failed with others
}

// decision is the way of one poison change to the dead letter store.
type decision struct {
	ref         Ref
	by          holder
	epoch       int64
	began, dead time.Time
}

func newDelays() delays {
	return delays{
		pages: map[holder][]page{}, calls: map[holder][]interval{}, first: map[Ref]decision{}, dead: map[string]time.Time{},
		failing: map[string]bool{}, waited: map[string]time.Time{},
	}
}

func (c *checker) pageRead(e Event) {
	by := holder{e.Host, tenure{token: e.Range}}
	c.pages[by] = append(c.pages[by], page{e.Position, e.Time})
}

// newPages forgets what a host read before it acquired a lease again.
func (c *checker) newPages(e Event) { delete(c.pages, holder{e.Host, tenure{token: e.Range}}) }

// readAt returns when an owner read a change.
func (d *delays) readAt(by holder, lsn int64) (time.Time, bool) {
	pages := d.pages[by]
	i := sort.Search(len(pages), func(i int) bool { return pages[i].upTo >= lsn })
	if i == len(pages) {
		return time.Time{}, false
	}
	return pages[i].at, true
}

// callEnded records a handler call and the changes that it handled.
func (c *checker) callEnded(e Event, changes []Event) {
	if c.limits.Poison == (Poison{}) || len(changes) == 0 {
		return
	}
	began := changes[0].Time
	by := holder{changes[0].Host, tenure{token: changes[0].Range}}
	again := true
	for _, d := range changes {
		ref := Ref{d.Key, d.Seq}
		attempt, tried := c.first[ref]
		tried = tried && attempt.by == by && attempt.epoch == d.Epoch
		again = again && tried
		if e.Verdict == Failed {
			c.failing[d.Key] = c.failing[d.Key] || len(changes) == 1
			if !tried {
				c.first[ref] = decision{ref: ref, by: by, epoch: d.Epoch, began: began}
			}
			continue
		}
		first := began
		if tried {
			first = attempt.began
		}
		c.noteApart(d, by, first)
		if read, found := c.readAt(by, d.LSN); found {
			s := sample{d.Key, by, read, began, e.Time, c.waited[d.Key].After(read)}
			if tried {
				s.began = attempt.began
				c.waited[d.Key] = e.Time
			}
			c.samples = append(c.samples, s)
		}
		delete(c.first, ref)
	}
	c.delays.calls[by] = append(c.delays.calls[by], interval{began, e.Time, e.Verdict == Failed, again, changes[0].Key})
}

// givenUp records that a change was dead-lettered.
func (c *checker) givenUp(ref Ref, e Event) {
	d, tried := c.first[ref]
	delete(c.first, ref)
	before := c.dead[ref.Key]
	c.dead[ref.Key] = e.Time
	if tried && d.epoch == e.Epoch && d.by.token == e.Range {
		d.began, d.dead = later(d.began, before), e.Time
		c.decided = append(c.decided, d)
	}
}

// finishDelays judges the delays of a run with poison.
func (c *checker) finishDelays() {
	p := c.limits.Poison
	if p == (Poison{}) {
		return
	}
	var all []time.Duration
	for _, s := range c.samples {
		if c.failing[s.key] || !c.failedWithin(s.by, s.read, s.handled) {
			continue
		}
		all = append(all, s.handled.Sub(s.read))
		if !s.waited {
			c.judgeStart(s)
		}
	}
	c.report.OtherKeys = summary(all)
	if limit := p.BatchWindow + otherKeysDelay; len(all) >= enoughSamples {
		c.report.count(c.promptRule(), 1, 0)
		if p99 := c.report.OtherKeys.P99; p99 > limit {
			c.violate(c.promptRule(), "the 99th percentile of %d delays of other keys is %s, at most %s are allowed", len(all), p99, limit)
		}
	}
	if p.IsPresent {
		for _, a := range c.aparts {
			c.judgeApart(a)
		}
	}
	for _, d := range c.decided {
		c.report.count(PoisonDecided, 1, 0)
		limit := c.decisionLimit(d)
		if took := d.dead.Sub(d.began); took > limit {
			c.violate(PoisonDecided, "%s/%d was dead-lettered %s after its first failure, at most %s are allowed", d.ref.Key, d.ref.Seq, took, limit)
		}
	}
}

// promptRule is the rule of the delays of other keys.
func (c *checker) promptRule() Rule {
	if c.limits.Poison.IsAheadShort {
		return KeysApart
	}
	return OtherKeysPrompt
}

func summary(all []time.Duration) Delays {
	if len(all) == 0 {
		return Delays{}
	}
	slices.Sort(all)
	at := func(share float64) time.Duration {
		return all[min(int(math.Ceil(share*float64(len(all))))-1, len(all)-1)]
	}
	return Delays{Samples: len(all), P50: at(0.5), P99: at(0.99), Max: all[len(all)-1]}
}

// between returns the calls of an owner that ran in a time.
func (d *delays) between(by holder, from, to time.Time) []interval {
	calls := d.calls[by] // in the order of their ends
	i := sort.Search(len(calls), func(i int) bool { return calls[i].ended.After(from) })
	var list []interval
	for ; i < len(calls) && calls[i].ended.Add(-time.Minute).Before(to); i++ {
		if calls[i].began.Before(to) {
			list = append(list, calls[i])
		}
	}
	return list
}

func (d *delays) failedWithin(by holder, from, to time.Time) bool {
	return slices.ContainsFunc(d.between(by, from, to), func(i interval) bool { return i.failed })
}

// judgeStart judges the first delivery of a change of another key. It waits for
// the batching window, for the calls before it, and for one retry. If the calls
// before it fail one after the other, or if the last fresh batch and other keys have
// failed and no call has succeeded since, the sink may be down, so that does not count.
func (c *checker) judgeStart(s sample) {
	calls := c.between(s.by, s.read, s.began)
	slices.SortFunc(calls, func(a, b interval) int { return a.began.Compare(b.began) })
	idle, reached, failed := time.Duration(0), s.read, 0
	retries, fresh := 0, 1
	for _, i := range calls {
		if i.failed {
			failed++
		}
		switch {
		case !i.again:
			fresh++
		case !i.began.Before(s.read.Add(c.limits.Poison.BatchWindow)): // before that, the batch need not be ready
			retries++
		}
		if i.began.After(reached) {
			idle += i.began.Sub(reached)
		}
		reached = later(reached, i.ended)
	}
	idle += max(s.began.Sub(reached), 0)
	if failed > 2 || c.looksDown(s.by, s.read) {
		return
	}
	c.report.count(c.promptRule(), 1, 0)
	limit := c.limits.Poison.BatchWindow + promptly/10
	if idle > limit || retries > fresh+1 {
		c.violate(c.promptRule(), "a change of key %q, read at %s, waited %s while no handler ran, at most %s are allowed; %d retries and %d other calls came first", s.key, s.read.Format("15:04:05.000"), idle, limit, retries, fresh-1)
	}
}

// looksDown reports whether, since the last call of an owner that succeeded, calls
// with three keys have failed before a time, and one of them was a fresh batch.
func (d *delays) looksDown(by holder, before time.Time) bool {
	calls := d.calls[by] // in the order of their ends
	keys, fresh := map[string]bool{}, false
	for i := sort.Search(len(calls), func(i int) bool { return calls[i].ended.After(before) }) - 1; i >= 0 && calls[i].failed; i-- {
		keys[calls[i].key] = true
		fresh = fresh || !calls[i].again
	}
	return fresh && len(keys) >= 3
}

// decisionLimit is the time that a poison change may take: the waits between its
// attempts, and twice the calls of its attempts and of the halves of its batch, for
// each failing key of the range. If several keys fail, their waits may be longer.
func (c *checker) decisionLimit(d decision) time.Duration {
	p := c.limits.Poison
	keys := map[string]bool{d.ref.Key: true}
	for _, o := range c.decided {
		if o.by == d.by && o.began.Before(d.dead) && d.began.Before(o.dead) {
			keys[o.ref.Key] = true
		}
	}
	var waits time.Duration
	for n := 1; n < c.limits.Attempts; n++ {
		if wait := p.RetryMin << min(n-1, 30); len(keys) == 1 && wait < p.RetryMax {
			waits += wait
		} else {
			waits += p.RetryMax
		}
	}
	calls := 2 * (bits.Len(uint(max(p.BatchItems, 1)-1)) + c.limits.Attempts) * len(keys)
	return waits + time.Duration(calls)*p.Call + p.BatchWindow + promptly
}

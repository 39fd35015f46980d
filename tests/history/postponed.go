package history

import (
	"maps"
	"slices"
	"time"
)

// postponed follows a change that its handler has postponed.
type postponed struct {
	inStore bool
	follows bool // another change of its key was postponed
	late    bool // its host had lost the range when the store got it, or had left the write behind and delivered the change since
	twice   bool // a late letter of it stands beside the owner's
	due     time.Time
	since   time.Time // it is in the store
	inCall  int64     // the call that last delivered it
	by      tenure    // the owner that postponed it
}

// cameFromStore reports whether a change may have been delivered from the store, whatever
// the position.
func (c *checker) cameFromStore(e Event) bool {
	return c.key(e.Key).wasPostponed(e.Seq)
}

// wasPostponed reports whether a change has been in the store until it was due.
func (k *key) wasPostponed(seq int64) bool {
	return seq >= 1 && seq <= int64(len(k.changes)) && !k.changes[seq-1].since.IsZero()
}

// postpone records that changes are in the store until they are due. A position may pass
// them, but they still have to be handled.
func (c *checker) postpone(e Event) {
	for _, ref := range e.Failed {
		k := c.key(ref.Key)
		if ref.Seq < 1 || ref.Seq > int64(len(k.changes)) {
			c.violate(NoPhantom, "%s/%d was postponed, but never written", ref.Key, ref.Seq)
			continue
		}
		change := &k.changes[ref.Seq-1]
		if change.seen == 0 && e.Op != BlockedKey {
			c.violate(Untried, "%s/%d was postponed in epoch %d of range %q, but never delivered", ref.Key, ref.Seq, e.Epoch, e.Range)
		}
		if p, ok := c.pending[change.id]; ok && p.Seq <= ref.Seq {
			delete(c.pending, change.id)
		}
		c.handled[change.id] = max(c.handled[change.id], ref.Seq)
		l := c.byToken[e.Range]
		late := l != nil && l.epoch > e.Epoch || change.handled && !change.again && e.Epoch <= change.by.epoch
		twice := change.twice || change.late
		change.postponed = postponed{inStore: true, follows: e.Op == BlockedKey, late: late, twice: twice, due: e.Due, since: e.Time, inCall: change.inCall, by: tenure{e.Range, e.Epoch}}
	}
}

// deliverPostponed judges a delivery of a key that may have postponed changes.
func (k *key) deliverPostponed(r *Report, e Event, shared bool) {
	for i := range k.changes[:e.Seq-1] {
		if p := &k.changes[i].postponed; p.inStore && !p.late && p.inCall != e.Call && !shared {
			r.violate(PostponedOrder, k.name, e.Time, "%q delivered %d while %d is postponed until %s", e.Host, e.Seq, i+1, p.due.Format("15:04:05.000"))
		}
	}
	k.changes[e.Seq-1].inCall, k.changes[e.Seq-1].delivered, k.changes[e.Seq-1].again = e.Call, e.Time, true
}

// duePostponed judges the time of a delivery of a postponed change.
func (c *checker) duePostponed(e Event) {
	k := c.key(e.Key)
	if e.Seq < 1 || e.Seq > int64(len(k.changes)) || c.stepped || c.foreign[e.Host] {
		return
	}
	p := k.changes[e.Seq-1].postponed
	t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]
	isUnaware := p.by != tenure{e.Range, e.Epoch} && t != nil && t.began.Before(p.since) // it reads what others have postponed when it begins
	if !p.inStore || p.follows || p.late || isUnaware {
		return
	}
	c.report.count(PostponedEarly, 1, 0)
	if e.Time.Before(p.due) {
		c.violate(PostponedEarly, "%q delivered %s/%d %s before it is due", e.Host, e.Key, e.Seq, p.due.Sub(e.Time))
		return
	}
	if t == nil || c.limits.Drains || c.limits.Poll == 0 {
		return
	}
	if c.limits.ReadUnits > 0 && p.by != (tenure{e.Range, e.Epoch}) {
		return // in a merged range it waits until its owner has read the feed, which waits for units
	}
	since, by := later(later(p.due, p.since), t.began), holder{e.Host, tenure{token: e.Range}}
	isBusy := c.worked[by].After(since) || c.inCall(e.Host, e.Range)
	if isBusy {
		since = later(since, k.lastBefore(e.Seq))
	}
	if !c.undisturbed(e.Host, since) || c.throttled(since) {
		return
	}
	limit := c.limits.Poll + 2*promptly + c.limits.Slack
	if isBusy {
		var judged bool
		if limit, judged = c.busyLimit(by, since); !judged || t.position < e.LSN {
			return
		}
	}
	c.report.count(PostponedPrompt, 1, 0)
	if late := e.Time.Sub(since); late > limit {
		c.violate(PostponedPrompt, "%q delivered %s/%d %s after it was due, at most %s are allowed", e.Host, e.Key, e.Seq, late, limit)
	}
}

// lastBefore returns when a change of the key before another one was last delivered: the
// later one waits for its end.
func (k *key) lastBefore(seq int64) (last time.Time) {
	for i := range k.changes[:seq-1] {
		last = later(last, k.changes[i].delivered)
	}
	return last
}

// ownerCall is a handler call of an owner.
type ownerCall struct {
	began, ended time.Time
	failed       bool
	isRetry      bool // its first change was delivered before, or comes from the store
}

const (
	// recentCalls is the time for which the calls of an owner are kept.
	recentCalls = 5 * time.Minute
	// outageWait is the time after a failed call in which others may wait for the sink.
	outageWait = 15 * time.Second
)

// noteCall keeps a call that has ended.
func (c *checker) noteCall(e Event, changes []Event) {
	if len(changes) == 0 {
		return
	}
	by, first := holder{e.Host, tenure{token: e.Range}}, changes[0]
	calls := append(c.recent[by], ownerCall{first.Time, e.Time, e.Verdict != Handled, first.Attempt > 1 || c.cameFromStore(first)})
	for len(calls) > 0 && e.Time.Sub(calls[0].ended) > recentCalls {
		calls = calls[1:]
	}
	c.recent[by] = calls
}

// busyLimit is the time that a postponed change may take, after its key could be delivered,
// while its range has other work: two seconds, and the calls that come first. Retries and
// fresh batches alternate, and a retry, or a change of another key that is due, may come
// before it. The limit is not judged if a call has failed, which may be an outage, or if
// calls wait for a rate.
func (c *checker) busyLimit(by holder, since time.Time) (limit time.Duration, judged bool) {
	longest, retries := time.Duration(0), 0
	for _, call := range c.recent[by] {
		if call.failed && call.ended.After(since.Add(-outageWait)) {
			return 0, false
		}
		if call.ended.After(since) {
			longest = max(longest, call.ended.Sub(call.began))
			if call.isRetry {
				retries++
			}
		}
	}
	running := slices.Collect(maps.Values(c.calls))
	if slices.ContainsFunc(running, func(changes []Event) bool { return changes[0].Host == by.host && c.now.Sub(changes[0].Time) > longest }) {
		return 0, false
	}
	return 2*promptly + c.limits.Slack + time.Duration(2*retries+3)*longest, c.limits.Rate == 0
}

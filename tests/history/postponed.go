package history

import "time"

// postponed follows a change that its handler has postponed.
type postponed struct {
	inStore bool
	follows bool // another change of its key was postponed
	late    bool // its host had lost the range when the store got it
	due     time.Time
	since   time.Time // it is in the store
	inCall  int64     // the call that last delivered it
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
		late := l != nil && l.epoch > e.Epoch
		change.postponed = postponed{inStore: true, follows: e.Op == BlockedKey, late: late, due: e.Due, since: e.Time, inCall: change.inCall}
	}
}

// deliverPostponed judges a delivery of a key that may have postponed changes.
func (k *key) deliverPostponed(r *Report, e Event, shared bool) {
	for i := range k.changes[:e.Seq-1] {
		if p := &k.changes[i].postponed; p.inStore && !p.late && p.inCall != e.Call && !shared {
			r.violate(PostponedOrder, k.name, e.Time, "%q delivered %d while %d is postponed until %s", e.Host, e.Seq, i+1, p.due.Format("15:04:05.000"))
		}
	}
	k.changes[e.Seq-1].inCall = e.Call
}

// duePostponed judges the time of a delivery of a postponed change.
func (c *checker) duePostponed(e Event) {
	k := c.key(e.Key)
	if e.Seq < 1 || e.Seq > int64(len(k.changes)) || c.stepped {
		return
	}
	p := k.changes[e.Seq-1].postponed
	if !p.inStore || p.follows || p.late {
		return
	}
	c.report.count(PostponedEarly, 1, 0)
	if e.Time.Before(p.due) {
		c.violate(PostponedEarly, "%q delivered %s/%d %s before it is due", e.Host, e.Key, e.Seq, p.due.Sub(e.Time))
		return
	}
	t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]
	if t == nil || c.limits.Drains || c.limits.Poll == 0 {
		return
	}
	since := later(later(p.due, p.since), t.began)
	if c.worked[holder{e.Host, tenure{token: e.Range}}].After(since) || c.inCall(e.Host, e.Range) || !c.undisturbed(e.Host, since) || c.throttled(since) {
		return
	}
	c.report.count(PostponedPrompt, 1, 0)
	if late, limit := e.Time.Sub(since), c.limits.Poll+2*promptly+c.limits.Slack; late > limit {
		c.violate(PostponedPrompt, "%q delivered %s/%d %s after it was due, at most %s are allowed", e.Host, e.Key, e.Seq, late, limit)
	}
}

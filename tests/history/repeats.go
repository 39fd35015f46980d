package history

import "time"

// repeated judges how many handled changes an owner delivers again after an owner that was
// killed or has lost its lease. Its last write saved the changes that were handled until
// then: of those handled before the write before that one, which is older than the snapshot
// of the last, only the window is redelivered. Those that were handled later are the ones of
// a checkpoint interval. A change that the sink of its last owner has not flushed is not saved by
// any write of that owner. The rule is not judged if handled changes wait for a request that the
// history does not tell.
func (c *checker) repeated(e Event) {
	t := c.terms[holder{e.Host, tenure{e.Range, e.Epoch}}]
	k := c.key(e.Key)
	if t == nil || t.orderly || t.shared || t.saved.IsZero() || c.limits.SilentRequests || c.limits.Window == 0 || e.Seq < 1 || e.Seq > int64(len(k.changes)) {
		return
	}
	change, l := k.changes[e.Seq-1], c.byToken[e.Range]
	switch {
	case !change.handled || change.kept || change.by.host == e.Host || t.repeats[Ref{e.Key, e.Seq}]:
		return
	case l == nil || l.tampered > 0 || c.movedBack(l.span, e.LSN, change.ended) || change.by.epoch < l.created || c.cameFromStore(e):
		return
	case change.ended.Before(c.merged):
		return
	}
	if by := c.terms[holder{change.by.host, change.by.tenure}]; by == nil || !change.ended.Before(by.savedBefore) {
		return // its owner has not saved it, and later ones have not delivered it
	}
	if len(t.repeats) == 0 {
		c.report.count(Repeats, 1, 0)
	}
	t.repeats[Ref{e.Key, e.Seq}] = true
	c.report.MostRepeats = max(c.report.MostRepeats, len(t.repeats))
	if len(t.repeats) == c.limits.Window+1 {
		c.violate(Repeats, "%q redelivers more than %d changes in epoch %d of range %q that were handled before %s, when the owner before it saved its position",
			e.Host, c.limits.Window, e.Epoch, e.Range, t.saved.Format("15:04:05.000"))
	}
}

// save records that a write of an owner has landed.
func (l *lease) save(sent time.Time) {
	if sent.After(l.saved) {
		l.savedBefore, l.saved = l.saved, sent
	}
}

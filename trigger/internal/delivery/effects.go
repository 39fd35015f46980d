package delivery

import (
	"maps"
	"time"
)

// effect is one thing that a lane does after a call, or instead of one.
type effect struct {
	kind   effectKind
	items  []*Item
	letter *DeadLetter     // effectPostpone
	keys   map[uint64]bool // effectFail, effectFree
	group  *group          // effectResume, effectWait
	action *Action         // effectFail, effectWait, effectGiveUp, effectRelease
}

type effectKind int

const (
	effectFinish   effectKind = iota // the changes are handled
	effectAccept                     // the sink accepts changes
	effectPostpone                   // the change is put into the store until it is due
	effectFollow                     // the changes are put into the store behind it
	effectFree                       // the keys have no more changes in the group
	effectFail                       // the failure counts for the sink
	effectResume                     // the later changes of the group's key are delivered
	effectWait                       // the group waits aside
	effectGiveUp                     // the changes are dead-lettered
	effectRelease                    // the worker ends; the history of the changes is saved
)

// callState is the state after which [effectsOf] finds effects. None of it is changed.
type callState struct {
	policy          Policy
	lane            LaneState
	sink            *sinkHealth
	postponed       map[uint64]bool // keys of the group that have postponed changes
	room            int             // further keys that can be postponed
	now, serviceNow time.Time
	effects         []effect // with room for some, or nil
}

// effectsOf returns the effects of a verdict on a group, in their order. Unless all changes are
// handled, their order keys are known.
func effectsOf(g *group, v Verdict, s callState) []effect {
	effects := s.effects
	failed, handled := v.splitItems(g.items)
	if len(handled) > 0 {
		effects = append(effects, effect{kind: effectFinish, items: handled})
		if v.Outcome == Handled || v.Outcome == Failed {
			effects = append(effects, effect{kind: effectAccept})
		}
	}
	if len(failed) == 0 {
		return append(effects, endOf(g)...)
	}
	if len(handled) > 0 && v.Outcome == Failed {
		s.sink, s.lane = &sinkHealth{hasSucceeded: true}, LaneState{}
	}
	remainder := &group{items: failed, keys: g.keys, retry: g.retry, later: g.later}
	if v.Outcome == Failed && len(v.Postponed) > 0 {
		effects = append(effects, postponed(remainder, v, len(handled) == 0, s)...)
	}
	if len(remainder.items) == 0 {
		return append(effects, endOf(remainder)...)
	}
	return append(effects, failure(g, remainder, v, s)...)
}

// failure returns the effects on the changes of a group that are left.
func failure(g, remainder *group, v Verdict, s callState) (effects []effect) {
	if v.Outcome == Failed || v.Outcome == Halved {
		remainder.keys = orderKeys(remainder.items)
		if len(remainder.items) < len(g.items) { // the others are a new group
			remainder.retry = g.retry.forPart()
		}
		if freed := keysWithout(g.keys, remainder.keys); len(freed) > 0 && remainder.later == nil {
			effects = append(effects, effect{kind: effectFree, keys: freed})
		}
	}
	isKnown := s.sink.knowsFailing(remainder.retry)
	s.lane.Succeeded, s.lane.Repeated = isKnown || s.sink.worksFor(remainder.keys), s.sink.repeats(remainder.keys)
	a := Decide(remainder, v, s.lane, s.policy, s.now)
	if v.Outcome == Failed && !isKnown {
		effects = append(effects, effect{kind: effectFail, keys: remainder.keys, action: &a})
	}
	return append(effects, decided(remainder, a, s.policy)...)
}

// decided returns the effects of a decision about a group.
func decided(g *group, a Action, p Policy) (effects []effect) {
	switch a.Step {
	case GiveUp:
		return append([]effect{{kind: effectGiveUp, items: g.items, action: &a}}, endOf(g)...)
	case Release:
		first := g.items
		if p.splitsGroup(len(first)) {
			first = first[:len(first)/2]
		}
		return []effect{{kind: effectRelease, items: first, action: &a}}
	}
	parts := []*group{g}
	if a.Step == Split {
		if parts = g.halve(); len(parts) == 1 {
			parts[0].later.retry = a.Retry
		}
	}
	for _, part := range parts {
		part.retry = a.Retry
		effects = append(effects, effect{kind: effectWait, group: part, action: &a})
	}
	return effects
}

// endOf returns the effect of the end of a group: later changes of its key follow, or its keys
// are free.
func endOf(g *group) []effect {
	switch {
	case g.later != nil:
		return []effect{{kind: effectResume, group: g.later}}
	case g.keys != nil:
		return []effect{{kind: effectFree, keys: g.keys}}
	}
	return nil
}

// postponed takes the changes that the handler has postponed out of a group, with those that
// follow them, and returns the effects. isWhole says that the call handled no change.
func postponed(g *group, v Verdict, isWhole bool, s callState) (effects []effect) {
	retry := g.retry
	if !isWhole || len(v.Postponed) < len(g.items) {
		retry = retry.forPart()
	}
	isPostponed := map[uint64]bool{} // by the first failed change of each key
	failed := g.items
	g.items = nil
	for _, c := range failed {
		key := c.orderKey
		follows, isLater := isPostponed[key]
		if isLater && follows {
			effects = append(effects, effect{kind: effectFollow, items: []*Item{c}})
			continue
		}
		letter, tried := s.postponedLetter(c, v, retry)
		_, isAsked := v.Postponed[c]
		if !isLater && isAsked && !tried.isExhausted(s.policy, s.now) && (s.postponed[key] || s.room > 0) {
			if !s.postponed[key] {
				s.room--
			}
			isPostponed[key] = true
			effects = append(effects, effect{kind: effectPostpone, items: []*Item{c}, letter: &letter})
			continue
		}
		isPostponed[key] = false
		g.items = append(g.items, c)
	}
	for g.later != nil && isPostponed[g.later.items[0].orderKey] {
		effects = append(effects, effect{kind: effectFollow, items: g.later.items})
		g.later = g.later.later
	}
	return effects
}

// postponedLetter returns the letter of a change that its handler has postponed, and the
// change's failure history with this call.
func (s *callState) postponedLetter(c *Item, v Verdict, retry RetryState) (DeadLetter, RetryState) {
	letter := DeadLetter{IsPostponed: true, Cause: v.Err, Due: s.serviceNow.Add(v.Postponed[c]), Postponed: 1}
	if c.stored != nil {
		retry.Attempts, letter.Postponed = max(retry.Attempts, c.stored.Attempts), c.stored.Postponed+1
	}
	retry = retry.failedFirst(s.now).countAttempt(s.policy)
	letter.Attempts, letter.Since = retry.Attempts, s.serviceNow.Add(retry.Since.Sub(s.now))
	return letter, retry
}

// parked returns the effects of putting a waiting group and the later changes of its keys into
// the store because of a limit: it is due there when its retry is, and it is no attempt.
func parked(g *group, queue []*Item, limit error, now, serviceNow time.Time) (effects []effect) {
	isParked := map[uint64]bool{}
	for part := g; part != nil; part = part.later {
		for _, c := range part.items {
			if isParked[c.orderKey] {
				effects = append(effects, effect{kind: effectFollow, items: []*Item{c}})
				continue
			}
			isParked[c.orderKey] = true
			letter := DeadLetter{IsPostponed: true, Cause: limit, Due: serviceNow.Add(max(0, g.due.Sub(now))), Attempts: g.retry.Attempts}
			if !g.retry.Since.IsZero() {
				letter.Since = serviceNow.Add(g.retry.Since.Sub(now))
			}
			effects = append(effects, effect{kind: effectPostpone, items: []*Item{c}, letter: &letter})
		}
	}
	return append(effects, effect{kind: effectFollow, items: queue}, effect{kind: effectFree, keys: g.keys})
}

// keysWithout returns the keys that are not among others.
func keysWithout(keys, others map[uint64]bool) map[uint64]bool {
	kept := maps.Clone(keys)
	maps.DeleteFunc(kept, func(key uint64, _ bool) bool { return others[key] })
	return kept
}

// orderKeys returns the order keys of changes.
func orderKeys(items []*Item) map[uint64]bool {
	keys := map[uint64]bool{}
	for _, c := range items {
		keys[c.orderKey] = true
	}
	return keys
}

// CountHandled counts the changes that a call handled.
func (v Verdict) CountHandled(items []*Item) int {
	_, handled := v.splitItems(items)
	return len(handled)
}

// splitItems separates the changes that a call did not handle from those that it did.
func (v Verdict) splitItems(items []*Item) (failed, handled []*Item) {
	switch {
	case v.Outcome == Handled:
		return nil, items
	case v.Outcome == Hung || v.FailedItems == nil:
		return items, nil
	}
	next := 0
	for _, c := range items {
		if next < len(v.FailedItems) && v.FailedItems[next] == c {
			next++
		} else {
			handled = append(handled, c)
		}
	}
	return v.FailedItems, handled
}

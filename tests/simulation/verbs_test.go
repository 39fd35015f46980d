package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"halley/tests/history"
	"halley/trigger"
)

// verbs is an answer of a handler, and its meaning as the documentation of trigger has it:
// the runtime's own reading of the error is not asked.
type verbs struct {
	err    error
	failed []bool // by the place in the batch as it was delivered; the others are handled
	naming bool   // it names changes
	whole  bool   // it names none of them, or one of another batch: the whole batch failed
	final  bool   // the handler gives up what failed
}

// answerKind is a form of one error among those that an answer joins.
type answerKind string

const (
	answerPlain   answerKind = "plain"
	answerFailed  answerKind = "failed"
	answerFrom    answerKind = "failed from"
	answerForeign answerKind = "another batch"
)

// answers is the handler's choice among all verbs and their combinations.
func (c *call) answers() verbs {
	d := c.p.w.swarm.dice(c.id)
	v := verbs{failed: make([]bool, len(c.changes)), final: true}
	var errs []error
	for i := range one(d, "verbs", 1, 1, 1, 2, 3) {
		part := dice{d.seed, d.id + "/verb/" + strconv.Itoa(i)}
		err := c.answerPart(part, &v)
		errs = append(errs, wrapped(part, c.decorated(part, err, &v)))
	}
	v.err = errs[0]
	if len(errs) > 1 {
		v.err = wrapped(d, errors.Join(errs...))
	}
	if c.maySkip() && d.chance("skip all", 0.15) {
		v.err, v.final = trigger.Skip(v.err), true
	}
	if v.whole {
		for i := range v.failed {
			v.failed[i] = true
		}
	}
	return v
}

// answerPart returns one of the errors that are joined, and adds its meaning.
func (c *call) answerPart(d dice, v *verbs) error {
	inner := errOnPurpose
	if d.chance("postpone within", 0.15) {
		inner = trigger.RetryAfter(inner, c.delay())
	}
	switch one(d, "kind", answerPlain, answerFailed, answerFailed, answerFrom, answerFrom, answerForeign) {
	case answerFailed:
		v.naming = true
		var named []trigger.Change
		for n, place := range c.asHandled(d) {
			if last := n == len(c.changes)-1; d.chance("name "+strconv.Itoa(n), 0.3) || last && named == nil {
				v.failed[place] = true
				named = append(named, c.batch.Changes[place])
			}
		}
		return trigger.Failed(inner, named...)
	case answerFrom:
		v.naming = true
		first := c.asHandled(d)[d.pick("first", len(c.changes))]
		for i := first; i < len(v.failed); i++ {
			v.failed[i] = true
		}
		return trigger.FailedFrom(inner, c.batch.Changes[first])
	case answerForeign:
		if other, found := c.foreign(d); found {
			v.naming, v.whole = true, true
			if d.chance("from", 0.5) {
				return trigger.FailedFrom(inner, other)
			}
			return trigger.Failed(inner, c.batch.Changes[0], other)
		}
	}
	v.whole = true
	return inner
}

// decorated postpones or gives up what an error names, in some answers.
func (c *call) decorated(d dice, err error, v *verbs) error {
	if d.chance("postpone", 0.15) {
		err = trigger.RetryAfter(wrapped(dice{d.seed, d.id + "/within"}, err), c.delay())
	}
	if c.maySkip() && d.chance("skip", 0.25) {
		return trigger.Skip(err)
	}
	v.final = false
	return err
}

// wrapped puts an error into another one, in some answers.
func wrapped(d dice, err error) error {
	if d.chance("wrap", 0.3) {
		return fmt.Errorf("the handler of %s: %w", processor, err)
	}
	return err
}

// maySkip reports whether the handler gives changes up: without a store the range would wait
// for ever.
func (c *call) maySkip() bool { return c.p.w.swarm.deadLetters }

// asHandled returns the places of the changes in the order in which the handler has worked
// on them: some handlers sort their copy first.
func (c *call) asHandled(d dice) []int {
	places := make([]int, len(c.changes))
	for i := range places {
		places[i] = i
	}
	if d.chance("sort", 0.3) {
		slices.SortFunc(places, func(a, b int) int {
			return cmp.Compare(d.roll("place "+strconv.Itoa(a)), d.roll("place "+strconv.Itoa(b)))
		})
	}
	return places
}

// foreign returns a change that is not in this batch: of an earlier batch of the host, or
// made by hand.
func (c *call) foreign(d dice) (trigger.Change, bool) {
	var others []trigger.Change
	for _, token := range slices.Sorted(maps.Keys(c.p.earlier)) {
		if token == c.batch.Range.ID || d.chance("other ranges", 0.3) {
			others = append(others, c.p.earlier[token])
		}
	}
	others = append(others, trigger.Change{Document: []byte(`{"id":"of no batch","key":"k0","seq":0}`), LSN: 1})
	other := one(d, "other", others...)
	return other, !slices.Contains(c.bytes, string(other.Document))
}

// remember keeps a change of the batch, as a handler may that names it later by mistake.
func (c *call) remember() {
	c.p.earlier[c.batch.Range.ID] = c.batch.Changes[len(c.batch.Changes)-1].Clone()
}

// refusals names the failed changes to the judge.
func (c *call) refusals(failed []bool) (refs []history.Ref) {
	for i, e := range c.changes {
		if failed[i] {
			refs = append(refs, history.Ref{Key: e.Key, Seq: e.Seq})
		}
	}
	return refs
}

// delay is the time by which the handler postpones changes.
func (c *call) delay() time.Duration {
	d := c.p.w.swarm.dice(c.id)
	most := one(d, "longest delay", time.Second, 20*time.Second, time.Minute, 10*time.Minute)
	return d.duration("delay", most/20, most)
}

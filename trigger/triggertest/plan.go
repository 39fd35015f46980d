package triggertest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"halley/trigger/cosmos"
)

// plan says how one run of a history meets trouble. It follows from the seed.
type plan struct {
	ranges   int  // at the beginning
	parallel bool // they are drained at the same time
	episodes []episode
}

// episode is a part of the history that is written, and the drain that follows.
type episode struct {
	from, to int // the steps of the part
	troubleCase
	target  string  // the document whose first call meets the trouble
	share   float64 // of the batch: the changes that the handler gets before the trouble
	times   int     // calls that meet it
	restart bool    // the process before was stopped, in good order
	seed    uint64  // of what is drawn within a call
}

// troubleCase is a kind of trouble, with the circumstances on which it depends which mistakes
// it shows.
type troubleCase struct {
	kind   troubleKind
	fate   targetFate
	moment lateMoment
}

type troubleKind int

const (
	quiet        troubleKind = iota
	diesInCall               // and its successor repeats what the range got since the last drain
	diesIdle                 // when everything is handled and saved
	deliversLate             // a former owner, while its successor works
	failsHalfway
	failsInside  // at one point of the call after the other
	failsForever // until the end, when the dead letters are replayed
	losesContext // the handler's context has ended
	splitsRange
	mergesRanges
)

// endsHost reports whether a host ends during a call.
func (k troubleKind) endsHost() bool { return k == diesInCall || k == deliversLate }

// targetFate is the next change of the target after the part in which it meets the trouble.
type targetFate int

const (
	anyFate   targetFate = iota
	rewritten            // in the next part
	removed              // likewise
	untouched            // there is none: the history ends with the part
)

// cases are all that plans draw from. Those that find most mistakes are here more than once,
// with other circumstances. A successor often undoes an early late delivery.
var cases = []troubleCase{
	{kind: quiet},
	{kind: diesInCall, fate: rewritten}, {kind: diesInCall, fate: removed}, {kind: diesInCall},
	{kind: diesIdle}, {kind: diesIdle, fate: untouched},
	{kind: deliversLate, fate: removed, moment: afterLastCall}, {kind: deliversLate, fate: removed, moment: afterLastCall},
	{kind: deliversLate, fate: rewritten, moment: afterLastCall},
	{kind: deliversLate, moment: beforeFirstCall},
	{kind: deliversLate, moment: afterFirstCall},
	{kind: failsHalfway, fate: rewritten}, {kind: failsHalfway, fate: removed},
	{kind: failsInside}, {kind: failsInside, fate: removed}, {kind: failsInside, fate: rewritten},
	{kind: failsForever}, {kind: losesContext}, {kind: splitsRange}, {kind: mergesRanges},
}

// caseOf returns the case with a number. Each len(cases) numbers in a row, from a multiple of
// it on, have all cases, in an order of their own.
func caseOf(number uint64) troubleCase {
	size := uint64(len(cases))
	round := rand.New(rand.NewPCG(number/size, caseStream))
	return cases[round.Perm(len(cases))[number%size]]
}

// lateMoment is the moment of a late delivery.
type lateMoment int

const (
	beforeFirstCall lateMoment = iota
	afterFirstCall
	afterLastCall
)

func (m lateMoment) String() string {
	return [...]string{"before the first call of its successor", "after the first call of its successor", "when its successor has caught up"}[m]
}

// A plan has minParts parts at least, and about maxParts at most. It draws from casesOfPlan
// cases, of which the first newCases are not those of the plan before it.
const (
	minParts    = 4
	maxParts    = 6
	casesOfPlan = 8
	newCases    = 3
)

// newPlan returns the plan of a seed. Plans with consecutive seeds meet all cases: each has
// the next cases of the list before it, and meets those that its history allows.
func (s Scenario) newPlan(seed uint64, history []step) plan {
	random := rand.New(rand.NewPCG(seed, planStream))
	p := plan{ranges: 1 + random.IntN(3)}
	parts := minParts + random.IntN(maxParts-minParts+1)
	bound := func(i int) int { return min(i, parts) * len(history) / parts }
	var pending []troubleCase
	for i := range uint64(casesOfPlan) {
		c := caseOf((seed-1)*newCases + i)
		if !s.mayFollow(c.fate) {
			c.fate = anyFate
		}
		pending = append(pending, c)
	}
	deaths, late, from := 0, false, 0
	for i := 0; from < len(history); i++ {
		e := episode{from: from, to: max(bound(i+1), from+1), times: 1, restart: random.IntN(4) == 0, seed: random.Uint64()}
		e.share = draw(random, []float64{0, 0.3, 0.6, 1, 1})
		limit := bound(i + 2)
		if e.to == len(history) {
			limit = 0 // no part follows
		}
		if !late {
			pending = s.choose(random, history, &e, limit, pending, deaths)
		}
		if e.target == "" {
			e.target = drawTarget(random, history[e.from:e.to], history[e.to:max(limit, e.to)])
		}
		e.complete(random, s.Function.MaxAttempts)
		if e.kind.endsHost() {
			deaths++
		}
		late = e.kind == deliversLate
		p.episodes, from = append(p.episodes, e), e.to
	}
	return p
}

// complete sets the circumstances that follow from the kind.
func (e *episode) complete(random *rand.Rand, maxAttempts int) {
	switch e.kind {
	case deliversLate:
		e.share /= 2 // most of the batch is late
		if e.fate == removed || e.fate == rewritten {
			e.share = 0 // and so is the target
		}
	case failsHalfway:
		if e.times = min(1+random.IntN(4), maxAttempts-1); e.times < 1 {
			e.kind = quiet
		}
	}
}

// choose gives an episode the first of the pending cases that may be met in it, and returns
// the others. The part may end earlier or later, before limit, so that the target meets its
// fate at the beginning of the next part. It prefers a fate that is the last step of the
// document: a mistake with it stays visible.
func (s Scenario) choose(random *rand.Rand, history []step, e *episode, limit int, pending []troubleCase, deaths int) []troubleCase {
	for _, last := range []bool{true, false} {
		for i, c := range pending {
			if !s.mayMeet(c.kind) || deaths == maxDeaths && c.kind.endsHost() || c.kind == deliversLate && limit == 0 {
				continue
			}
			places := s.fates(history, e.from, limit, c.fate, last)
			if met := len(places) > 0 || c.fate == untouched && limit == 0 || c.fate == anyFate && !last; !met {
				continue
			}
			e.troubleCase = c
			if len(places) > 0 {
				e.to = draw(random, places)
				e.target = history[e.to].id
			}
			return slices.Delete(pending, i, i+1)
		}
	}
	return pending
}

// fates returns the places of steps that are the fate of a document which was written since
// from. If last is set, no step of the document follows.
func (s Scenario) fates(history []step, from, limit int, fate targetFate, last bool) (places []int) {
	for place := from + 1; place < limit && (fate == removed || fate == rewritten); place++ {
		same := func(o step) bool { return o.id == history[place].id }
		if slices.ContainsFunc(history[from:place], same) && s.removes(history[place]) == (fate == removed) &&
			!(last && slices.ContainsFunc(history[place+1:], same)) {
			places = append(places, place)
		}
	}
	return places
}

// mayFollow reports whether the histories of the scenario have a fate.
func (s Scenario) mayFollow(fate targetFate) bool {
	deletes := s.Function.SoftDeleteProperty != "" || s.Function.ChangeFeedMode == cosmos.ModeAllVersions
	switch fate {
	case rewritten:
		return !s.WriteOnce
	case removed:
		return !s.WriteOnce && deletes
	}
	return true
}

// removes reports whether a step removes its document.
func (s Scenario) removes(step step) bool {
	name := s.Function.SoftDeleteProperty
	return step.document == nil || step.expires || name != "" && string(cosmos.Property(step.document, name)) == "true"
}

// crowded is the plan in which calls for several ranges run at the same time. It has no
// other trouble, so that the seeds of those that have repeat.
func crowded(history []step) plan {
	return plan{ranges: 4, parallel: true, episodes: []episode{{from: 0, to: len(history)}}}
}

func (p plan) String() string {
	order := "one by one"
	if p.parallel {
		order = "at the same time"
	}
	return fmt.Sprintf("a drain follows each part of the history, of which there are %d; the ranges, at first %d, are drained %s", len(p.episodes), p.ranges, order)
}

// maxDeaths bounds the hosts that end during a call: the runtime gives a change up if
// five hosts in a row die of it.
const maxDeaths = 4

func draw[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// drawTarget draws a document of a part of the history, if possible one that is written
// again in the next part: a mistake with its older version can then be seen.
func drawTarget(random *rand.Rand, part, next []step) string {
	target := draw(random, part).id
	for _, s := range part {
		if slices.ContainsFunc(next, func(n step) bool { return n.id == s.id }) && random.IntN(2) == 0 {
			target = s.id
		}
	}
	return target
}

// mayMeet reports whether the function's settings allow a kind of trouble.
func (s Scenario) mayMeet(kind troubleKind) bool {
	switch kind {
	case failsForever:
		return s.Function.BlockKeys // otherwise a replay comes after later changes of the key
	case mergesRanges:
		return s.Function.ChangeFeedMode != cosmos.ModeAllVersions
	}
	return true
}

// simpler returns plans with less trouble: none, or one kind at one time.
func (p plan) simpler() (plans []plan) {
	quietPlan := plan{ranges: p.ranges, episodes: slices.Clone(p.episodes)}
	for i := range quietPlan.episodes {
		quietPlan.episodes[i].kind, quietPlan.episodes[i].restart = quiet, false
	}
	plans = append(plans, quietPlan)
	for i, e := range p.episodes {
		one := plan{ranges: p.ranges, episodes: slices.Clone(quietPlan.episodes)}
		one.episodes[i] = e
		plans = append(plans, one)
	}
	return plans
}

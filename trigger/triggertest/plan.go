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
	kind     troubleKind
	target   string  // the document whose first call meets the trouble
	share    float64 // of the batch: the changes that the handler gets before the trouble
	times    int     // calls that meet it
	moment   lateMoment
	restart  bool // the process before was stopped, in good order
}

type troubleKind int

const (
	quiet        troubleKind = iota
	diesInCall               // and its successor repeats what the range got since the last drain
	diesIdle                 // when everything is handled and saved
	deliversLate             // a former owner, while its successor works
	failsHalfway
	failsForever // until the end, when the dead letters are replayed
	losesContext // the handler's context has ended
	splitsRange
	mergesRanges
)

// kinds are drawn from: those that find most mistakes are here more than once.
var kinds = []troubleKind{
	quiet, diesInCall, diesInCall, diesInCall, diesIdle, deliversLate, deliversLate, deliversLate,
	failsHalfway, failsHalfway, failsForever, losesContext, splitsRange, mergesRanges,
}

// moments are drawn from: a successor often undoes an early late delivery.
var moments = []lateMoment{beforeFirstCall, afterFirstCall, afterLastCall, afterLastCall, afterLastCall}

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

// newPlan returns the plan of a seed.
func (s Scenario) newPlan(seed uint64, history []step) plan {
	random := rand.New(rand.NewPCG(seed, planStream))
	p := plan{ranges: 1 + random.IntN(3)}
	parts := 3 + random.IntN(4)
	bound := func(i int) int { return min(i, parts) * len(history) / parts }
	deaths := 0
	for i := range parts {
		e := episode{from: bound(i), to: bound(i + 1), kind: draw(random, kinds), times: 1, moment: draw(random, moments), restart: random.IntN(4) == 0}
		next := history[e.to:bound(i+2)]
		e.target = drawTarget(random, history[e.from:e.to], next)
		e.share = draw(random, []float64{0, 0.3, 0.6, 1, 1})
		fails := 1 + random.IntN(4)
		possible := s.mayMeet(e.kind)
		switch e.kind {
		case diesInCall:
			deaths++
			possible = deaths <= maxDeaths
		case deliversLate:
			deaths++
			possible = deaths <= maxDeaths && len(next) > 0
			e.share /= 2 // most of the batch is late
		case failsHalfway:
			e.times = min(fails, s.Function.MaxAttempts-1)
			possible = e.times > 0
		}
		if !possible {
			e.kind = quiet
		}
		p.episodes = append(p.episodes, e)
	}
	return p
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

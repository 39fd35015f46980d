package lease

import (
	"slices"
	"time"
)

// joining is how a host that has started joins hosts that hold all leases. Hosts often start
// together, and see each other only by the leases that they hold or request. If host B requested
// its share at once, it would count host A and itself; hosts C and D, which start a moment later,
// would request the same leases again, from B. So B requests one lease, by which the others count
// it, and looks again soon. It requests its share once no further host has appeared since its
// last look, at the latest after one acquire interval. Free leases it acquires at once.
//
// The goroutine that plans owns it.
type joining struct {
	looks  int  // that have held requests back
	hosts  int  // that the last of them has counted
	joined bool // nothing is held back any more
}

// joinLooks is how often a joining host looks in an acquire interval.
const joinLooks = 4

// plan is [Plan] without the requests that are held back.
func (j *joining) plan(views []View, function, me string, limits Limits) []Step {
	steps := Plan(views, function, me, limits)
	_, _, held := sortViews(views, me)
	isFirst := j.looks == 0
	otherSteps := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Request })
	switch {
	case j.joined, j.looks == joinLooks, len(held) <= j.hosts, isFirst && (len(steps) < 2 || len(otherSteps) > 0):
		j.joined = true
		return steps
	case isFirst: // one that hosts which look at this moment do not choose, too
		chosen := hashOf(me) % uint64(len(steps))
		steps = steps[chosen : chosen+1]
	default:
		steps = otherSteps
	}
	j.looks, j.hosts = j.looks+1, len(held)
	return steps
}

// next is when a host that plans each acquire interval plans again.
func (j *joining) next(acquireInterval time.Duration) time.Duration {
	if j.joined {
		return acquireInterval
	}
	return acquireInterval / joinLooks
}

package leases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// Plan is a change of leases that is not made yet, one step for each range. It is
// valid for the [Control] that made it.
type Plan struct {
	Function string `json:"function"`
	Steps    []Step `json:"steps"`
}

// Step is the part of a plan for one range.
type Step struct {
	Range  string `json:"range"` // lease token
	Owner  string `json:"owner"` // when the plan was made; "" is free
	Action Action `json:"action"`
	From   string `json:"from"`             // continuation when the plan was made
	To     string `json:"to,omitempty"`     // of ActionSeek and ActionCreate
	Reason string `json:"reason,omitempty"` // of ActionPause, and why an ActionSeek to the same position is a change

	// Repeated and Skipped say how many changes of the range lie between From and To: they
	// are delivered again, or no handler gets them. Changes that the lease tells as
	// finished behind From are delivered again, too. Up to 1,000 of them are counted. If
	// Exact is false, the others are counted by the difference of LSNs: transactions, which
	// may also be those of other containers in a database with shared throughput. If Known
	// is false, the numbers are not known.
	Repeated int64 `json:"repeated"`
	Skipped  int64 `json:"skipped"`
	Exact    bool  `json:"exact"`
	Known    bool  `json:"known"`

	Nothing bool   `json:"nothing,omitempty"` // the lease is in this state already
	Refused string `json:"refused,omitempty"` // why the step is not possible

	refusal error // the error of Refused, nil if it has no other than its text

	lease *lease.Lease // nil for ActionCreate
	gap   lease.Part   // of ActionCreate
}

// Action is the action of a [Step].
type Action string

// The actions.
const (
	ActionSeek    Action = "seek"
	ActionPause   Action = "pause"
	ActionResume  Action = "resume"
	ActionRelease Action = "release"
	ActionCreate  Action = "create"
)

// ErrRangeSplit is wrapped by the error of [Plan.Refused] if a range has split or merged, and
// no owner has created the leases that follow yet.
var ErrRangeSplit = lease.ErrSplit

// Refused returns an error if a step of the plan is not possible.
func (p Plan) Refused() error {
	var errs []error
	for _, s := range p.Steps {
		if s.Refused != "" {
			errs = append(errs, fmt.Errorf("cannot %s range %s: %w", s.Action, s.Range, cmp.Or(s.refusal, errors.New(s.Refused))))
		}
	}
	return errors.Join(errs...)
}

// plan makes one step for each wanted range; none is all of them.
func (c *Control) plan(ctx context.Context, action Action, ranges []string, decide func(*lease.Set, lease.Inspection, *Step)) (Plan, error) {
	set := c.openSet()
	found, err := set.Inspect(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("plan to %s: %w", action, err)
	}
	if len(found.Leases) == 0 {
		return Plan{}, fmt.Errorf("plan to %s: function %q has no leases: its hosts never ran, or the leases were deleted", action, c.source.Name)
	}
	plan := Plan{Function: c.source.Name, Steps: []Step{}}
	index := lease.NewIndex(found.Leases)
	for _, l := range sortedByToken(found.Leases) {
		if len(ranges) > 0 && !slices.Contains(ranges, l.Token()) {
			continue
		}
		step := Step{Range: l.Token(), Owner: l.Owner(), Action: action, From: l.Continuation(), lease: l}
		if index.Superseded(l) && action != ActionResume {
			step.Nothing = true // a host removes it soon, unless it is paused
		} else {
			decide(set, found, &step)
		}
		plan.Steps = append(plan.Steps, step)
	}
	for _, token := range ranges {
		if !slices.ContainsFunc(plan.Steps, func(s Step) bool { return s.Range == token }) {
			return Plan{}, fmt.Errorf("plan to %s: function %q has no lease for range %q", action, c.source.Name, token)
		}
	}
	return plan, context.Cause(ctx)
}

// PlanPause plans to pause ranges, all if none is named. Halley hosts finish their
// running calls, save their positions and release the leases; no change is delivered
// again. The reason is shown wherever the ranges are. If a .NET host owns a lease of
// the function, all steps are refused: it does not know pauses, and would acquire the
// paused leases.
func (c *Control) PlanPause(ctx context.Context, reason string, ranges ...string) (Plan, error) {
	reason = lease.CleanText(reason)
	if strings.TrimSpace(reason) == "" {
		return Plan{}, errors.New("plan to pause: give a reason, which status, log and leases show")
	}
	return c.plan(ctx, ActionPause, ranges, func(set *lease.Set, found lease.Inspection, s *Step) {
		s.Reason, s.Known = reason, true
		pause, paused := s.lease.Paused()
		s.Nothing = paused && pause.Reason == reason
		for _, l := range found.Leases {
			if ownerKind(l, set.Now()) == OwnerOther {
				s.Refused = fmt.Sprintf("%q owns range %s and is a .NET host or an older Halley host, which does not know pauses; stop such hosts first", l.Owner(), l.Token())
				return
			}
		}
	})
}

// PlanResume plans to end the pauses of ranges, of all if none is named.
func (c *Control) PlanResume(ctx context.Context, ranges ...string) (Plan, error) {
	return c.plan(ctx, ActionResume, ranges, func(_ *lease.Set, _ lease.Inspection, s *Step) {
		_, paused := s.lease.Paused()
		s.Nothing, s.Known = !paused, true
	})
}

// PlanRelease plans to have owners give back leases, of all ranges if none is named. The
// positions stay, and any host may acquire the leases then, also the same one.
func (c *Control) PlanRelease(ctx context.Context, ranges ...string) (Plan, error) {
	return c.plan(ctx, ActionRelease, ranges, func(set *lease.Set, _ lease.Inspection, s *Step) {
		s.Nothing = s.lease.Owner() == ""
		s.Known = ownerKind(s.lease, set.Now()) == OwnerHalley && !c.options.Force // else the owner's calls are delivered again
	})
}

// PlanSeek plans to have ranges continue at a start, all if none is named. A
// continuation is that of one range, so it needs exactly one. If a lease is at the position
// and tells that changes behind it are finished, the step is a change, too: these are
// delivered again.
func (c *Control) PlanSeek(ctx context.Context, to Start, ranges ...string) (Plan, error) {
	if c.source.ChangeFeedMode == cosmos.ModeAllVersions && (to.Kind == feed.StartBeginning || to.Kind == feed.StartTime) {
		return Plan{}, errors.New("plan to seek: all versions cannot be read from the beginning or a time, only from now or from a continuation")
	}
	if to.Kind == feed.StartSnapshot && c.source.StartFrom.Kind != feed.StartSnapshot {
		return Plan{}, errors.New("plan to seek: the function does not start from a snapshot: set its StartFrom first")
	}
	plan, err := c.plan(ctx, ActionSeek, ranges, func(set *lease.Set, _ lease.Inspection, s *Step) {
		position, err := c.startPosition(ctx, set, s.lease, to)
		if err != nil {
			s.Refused, s.refusal = err.Error(), err
			return
		}
		c.seekTo(ctx, set, s, position)
	})
	if err == nil && to.Kind == feed.StartContinuation && len(plan.Steps) != 1 {
		return Plan{}, errors.New("plan to seek: a continuation belongs to one range: name the range")
	}
	return plan, err
}

// seekTo has a step move its range to a position, if the feed can be read after it.
func (c *Control) seekTo(ctx context.Context, set *lease.Set, s *Step, position string) {
	if err := c.checkPosition(ctx, set, s.lease, position); err != nil {
		s.Refused, s.refusal = err.Error(), err
		return
	}
	s.moveTo(position)
	c.countChanges(ctx, set, s)
}

// moveTo sets the position of a step, and its effect.
func (s *Step) moveTo(position string) {
	isSnapshot := s.lease.Property(lease.SnapshotProperty) != ""
	s.To, s.Nothing = position, position == s.From && !s.lease.HoldsFinished() && !isSnapshot
	switch {
	case position == "" && !s.Nothing:
		s.Reason = "the snapshot of the range begins again: each document is delivered again"
	case isSnapshot:
		s.Reason = "the snapshot of the range ends here"
		return
	case position == s.From && !s.Nothing:
		s.Reason = "the changes behind the position count as unfinished again"
	}
	from, hasFrom := cosmos.ContinuationLSN(s.From)
	to, hasTo := cosmos.ContinuationLSN(position)
	s.Known = hasFrom && hasTo
	if s.Known {
		s.Repeated, s.Skipped = max(from-to, s.lease.FinishedUpTo()-to, 0), max(to-from, 0)
	}
}

// maxCounted bounds the changes that are counted for one number of a step.
const maxCounted = 1000

// countChanges replaces the numbers of LSNs between the positions of a step by those of
// changes, as far as the feed can be read.
func (c *Control) countChanges(ctx context.Context, set *lease.Set, s *Step) {
	part, err := set.Locate(ctx, s.lease)
	if err != nil || !s.Known || s.Nothing || s.lease.ByKeys() {
		return
	}
	to, _ := cosmos.ContinuationLSN(s.To)
	source, exact := c.feedSource(Start{}, set.Monitored().ResourceID), true
	count := func(number *int64, from int64) {
		if *number == 0 {
			return
		}
		changes, isExact, err := source.CountBetween(ctx, feedTarget(part), from, from+*number, maxCounted)
		if err == nil {
			*number = changes
		}
		exact = exact && isExact
	}
	count(&s.Skipped, to-s.Skipped)
	count(&s.Repeated, to)
	s.Exact = exact
}

// ParseSeek parses the target of a seek: "now", "beginning", "snapshot", a time in RFC 3339, or a
// continuation, which is an LSN with or without its quotes.
func ParseSeek(s string) (Start, error) {
	if _, ok := cosmos.ContinuationLSN(s); ok {
		return Start{Kind: feed.StartContinuation, Continuation: strconv.Quote(strings.Trim(s, `"`))}, nil
	}
	start, err := feed.ParseStart(s)
	if err != nil || s == "" {
		return Start{}, fmt.Errorf(`position %q is neither "beginning", "now", "snapshot", a time such as 2026-01-31T12:00:00Z nor a token such as 1526`, s)
	}
	return start, nil
}

// Package leases lets operators look at the leases of a function and change them while
// hosts run. It does not need the function's handler, and links no runtime: a command or a
// page is a few requests to the lease container.
package leases

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// Control lets an operator look at the leases of one function and change them
// while hosts run: move positions, pause ranges, resume them, free leases, and copy and
// restore them. Every change is a conditional write under the newest etag, so that a
// host that owns the lease learns of it at its next write.
//
// A change is planned first, which writes nothing, and the plan is then applied. All
// methods may be called from any goroutine and by a process that runs no host.
type Control struct {
	leases  *cosmos.Container
	source  Source
	options ControlOptions
	owner   string // the operator in leases
}

// Source is a function as its leases see it. It has the fields of
// trigger.FeedSource: that of a function f is leases.Source(f.FeedSource).
type Source struct {
	// Name is the function's name.
	Name string
	// LeasePrefix is the text with which its lease ids begin; by default Name, and "/" for
	// the empty prefix.
	LeasePrefix string
	// Container is the monitored container.
	Container *cosmos.Container
	// ChangeFeedMode selects latest versions (the default) or all versions.
	ChangeFeedMode cosmos.Mode
	// StartFrom is the position of a range without a checkpoint; by default now.
	StartFrom Start
}

// Start is a position in the feeds of ranges: a Start of package trigger, such as
// trigger.FromNow(), or the result of [ParseSeek]. The zero value is now.
type Start = feed.Start

// applyParallel is the number of steps that a plan carries out at a time.
const applyParallel = 16

// ControlOptions are the settings of a [Control]. The zero value has the
// defaults.
type ControlOptions struct {
	// Operator is the operator's name in leases that it requests or takes. It is unlike
	// that of every host; by default "operator" with a random suffix.
	Operator string
	// Force has changes of positions and releases not wait for the handler calls of a
	// Halley owner: its next write fails, and its running calls are delivered again.
	Force bool
}

// NewControl returns the control of the leases of a function. It makes no request.
func NewControl(leases *cosmos.Container, source Source, opts *ControlOptions) (*Control, error) {
	if leases == nil || source.Container == nil {
		return nil, errors.New("lease control needs the lease container and the function's Container")
	}
	if source.Name == "" {
		return nil, errors.New("lease control needs the function's Name")
	}
	c := &Control{leases: leases, source: source}
	if opts != nil {
		c.options = *opts
	}
	leases.PinToWriteRegion(lease.DefaultExpiration)
	c.owner = cmp.Or(c.options.Operator, "operator-"+rand.Text()[:8])
	return c, nil
}

// openSet returns the leases as the operator sees them. They are read by each call.
func (c *Control) openSet() *lease.Set {
	s := c.source
	return lease.NewSet(lease.Config{
		Leases: c.leases, Monitored: s.Container, Prefix: lease.IDPrefix(s.Name, s.LeasePrefix), Function: s.Name, Mode: s.ChangeFeedMode,
		Owner: c.owner, Incarnation: c.owner + "/operator", Expiration: lease.DefaultExpiration, Log: slog.New(slog.DiscardHandler),
		StartToken: func(ctx context.Context, part lease.Part, since time.Time) (string, error) {
			start := s.StartFrom.Since(since, s.ChangeFeedMode)
			return c.feedSource(start, "").ResolveStart(ctx, start, feedTarget(part))
		},
	})
}

// feedSource returns the function's feed, read from a start.
func (c *Control) feedSource(start Start, resourceID string) *feed.Source {
	return &feed.Source{Container: c.source.Container, Mode: c.source.ChangeFeedMode, Start: start, MaxItems: 1, ResourceID: resourceID}
}

func feedTarget(part lease.Part) feed.Target {
	return feed.Target{Physical: part.Physical, Min: part.Span.Min, Max: part.Span.Max}
}

// Info is one lease as its document shows it.
type Info struct {
	Function     string    `json:"function"`
	Range        string    `json:"range"`        // lease token
	Min          string    `json:"min"`          // hashed keys, [Min, Max)
	Max          string    `json:"max"`          // "" if the keys are not known yet
	Owner        string    `json:"owner"`        // "" is free
	OwnerKind    OwnerKind `json:"ownerKind"`    // the processor that the owner runs
	Epoch        int64     `json:"epoch"`        // rises with each acquisition
	Continuation string    `json:"continuation"` // "" before the first checkpoint
	Written      time.Time `json:"written"`      // by the owner, on the service's clock
	Paused       bool      `json:"paused"`       // by an operator; an owner releases the lease at its next write
	Reason       string    `json:"reason,omitempty"`
	PausedSince  time.Time `json:"pausedSince,omitzero"`
}

// OwnerKind tells owners of leases apart by what they understand.
type OwnerKind string

// The kinds of owner.
const (
	OwnerFree   OwnerKind = "free"   // no owner, or one that has not written the lease in time
	OwnerHalley OwnerKind = "halley" // stops at pauses and answers requests
	OwnerOther  OwnerKind = "other"  // a .NET host
)

func ownerKind(l *lease.Lease, now time.Time) OwnerKind {
	switch {
	case l.Free(now, lease.DefaultExpiration):
		return OwnerFree
	case l.StopsAtPauses(now, lease.DefaultExpiration):
		return OwnerHalley
	}
	return OwnerOther
}

// List reads the leases, in the order of their tokens. If no host has ever run the
// function, the list is empty.
func (c *Control) List(ctx context.Context) ([]Info, error) {
	set := c.openSet()
	found, err := set.Inspect(ctx)
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	list := []Info{}
	for _, l := range sortedByToken(found.Leases) {
		pause, paused := l.Paused()
		info := Info{
			Function: c.source.Name, Range: l.Token(), Min: l.Span().Min, Max: l.Span().Max, Owner: l.Owner(),
			OwnerKind: ownerKind(l, set.Now()), Epoch: l.Epoch(), Continuation: l.Continuation(), Written: l.Written().UTC(), Paused: paused,
		}
		if paused {
			info.Reason, info.PausedSince = lease.CleanText(pause.Reason), pause.Since.UTC()
		}
		list = append(list, info)
	}
	return list, nil
}

func sortedByToken(leases []*lease.Lease) []*lease.Lease {
	return slices.SortedStableFunc(slices.Values(leases), func(a, b *lease.Lease) int { return lease.CompareTokens(a.Token(), b.Token()) })
}

// Init creates the leases of a function as its first host would, and returns how many
// there are then. A scaler that measures the lag in the leases can wake an app of which
// no host has ever run. If the leases were created before, it changes nothing.
func (c *Control) Init(ctx context.Context) (leases int, err error) {
	set := c.openSet()
	if err := set.Prepare(ctx); err != nil {
		return 0, fmt.Errorf("create leases: %w", err)
	}
	found, err := set.Inspect(ctx)
	if err != nil {
		return 0, fmt.Errorf("create leases: %w", err)
	}
	return len(found.Leases), nil
}

// Apply carries out a plan, all steps at once, and returns the first error in their
// order; the other steps are done nevertheless. A plan with refused steps is an error,
// and nothing is done. If the owner of a range does not give it back, its step waits
// until ctx ends; bound it. Apply may be repeated.
func (c *Control) Apply(ctx context.Context, plan Plan) error {
	if err := plan.Refused(); err != nil {
		return err
	}
	set := c.openSet()
	if _, err := set.Inspect(ctx); err != nil {
		return fmt.Errorf("apply plan: %w", err)
	}
	errs := make([]error, len(plan.Steps))
	slots := make(chan struct{}, applyParallel)
	var working sync.WaitGroup
	for i, step := range plan.Steps {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			if err := c.applyStep(ctx, set, step); err != nil {
				errs[i] = fmt.Errorf("%s range %s: %w", step.Action, step.Range, err)
			}
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

func (c *Control) applyStep(ctx context.Context, set *lease.Set, s Step) error {
	if s.Nothing {
		return nil
	}
	switch s.Action {
	case ActionPause:
		return set.Pause(ctx, s.lease, s.Reason)
	case ActionResume:
		return set.Resume(ctx, s.lease)
	case ActionRelease:
		return set.Free(ctx, s.lease, c.options.Force)
	case ActionSeek:
		return set.Reposition(ctx, s.lease, s.To, c.options.Force)
	case ActionCreate:
		return set.CreateAt(ctx, s.gap, s.To)
	}
	return fmt.Errorf("unknown action %q", s.Action)
}

// startPosition returns the continuation at which the range of a lease begins with a
// start, and when it was read.
func (c *Control) startPosition(ctx context.Context, set *lease.Set, l *lease.Lease, start Start) (string, error) {
	part, err := set.Locate(ctx, l)
	if errors.Is(err, lease.ErrSplit) {
		return "", fmt.Errorf("%w: plan again when an owner has created the leases that follow, or pause and resume it", err)
	}
	if err != nil {
		return "", err
	}
	source := c.feedSource(start, set.Monitored().ResourceID)
	switch start.Kind {
	case feed.StartSnapshot:
		return "", nil
	case feed.StartNow, feed.StartContinuation:
		return source.ResolveStart(ctx, start, feedTarget(part))
	}
	page, err := source.ReadPage(ctx, feedTarget(part), "", nil)
	if err != nil {
		return "", err
	}
	defer page.Release()
	position := feed.PositionBefore(page, l.ByKeys())
	switch {
	case position != "":
		return position, nil
	case l.ByKeys():
		return "", errors.New("the range was merged, and its positions cannot be named: seek to now, or to a token that its lease held before")
	}
	return "", fmt.Errorf("the LSNs of the range do not name positions: its feed goes from LSN %d to the token %s. Seek to now, or to a token that its lease held before", page.Items[0].LSN, page.Continuation)
}

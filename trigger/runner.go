package trigger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// runner runs one function of a host. Its fields up to mu are set before its
// workers start. mu guards the rest, and no other lock is taken under it.
type runner struct {
	process  *process
	function Function
	leases   *lease.Set
	log      *zap.Logger
	source   *feed.Source // set by prepare

	mu       sync.Mutex
	working  map[string]*rangeStats // by lease token
	cooldown map[string]cooldown    // by lease token: failed here, and not worked on since
	problem  error                  // why the function as a whole makes no progress, or nil
}

// cooldown is the time for which this host leaves a failed range to others. It
// doubles with each failure in a row, so that a host that can work on the range
// keeps it for a while.
type cooldown struct {
	until     time.Time
	err       error
	doublings int
}

const maxDoublings = 2

func (c cooldown) over() bool { return !time.Now().Before(c.until) }

func newRunner(p *process, f Function, leases *cosmos.Container) *runner {
	log := p.opts.Logger.With(zap.String("function", f.Name), zap.String("owner", p.opts.Owner))
	r := &runner{process: p, function: f, log: log, working: map[string]*rangeStats{}, cooldown: map[string]cooldown{}}
	r.leases = lease.NewSet(lease.Config{
		Leases: leases, Monitored: f.Container, Prefix: f.leasePrefix(), Function: f.Name, Mode: f.ChangeFeedMode,
		Owner: p.opts.Owner, Incarnation: p.incarnation,
		AcquireInterval: p.opts.LeaseAcquireInterval, RenewInterval: p.opts.LeaseRenewInterval,
		Expiration: p.opts.LeaseExpirationInterval, AuditInterval: p.opts.AuditInterval,
		StopGrace: p.opts.StopGrace, PollDelay: p.opts.FeedPollDelay,
		Limits: lease.Limits{Min: p.opts.MinLeases, Max: p.opts.MaxLeases}, Reset: f.ResetLeases,
		StartToken: func(ctx context.Context, at lease.Part, since time.Time) (string, error) {
			return newSource(f, since, "").Resolve(ctx, f.startSince(since), target(at))
		},
		Log: log,
	})
	return r
}

// newSource returns the feed of a function whose leases were first created at
// since, which is zero before that.
func newSource(f Function, since time.Time, resourceID string) *feed.Source {
	return &feed.Source{
		Container: f.Container, Mode: f.ChangeFeedMode, Start: f.startSince(since), MaxItems: f.MaxItemsPerInvocation, ResourceID: resourceID,
	}
}

func target(at lease.Part) feed.Target {
	return feed.Target{Physical: at.Physical, Min: at.Span.Min, Max: at.Span.Max}
}

// emit passes an event to the observers. One that panics is reported, and the
// event counts as observed.
func (r *runner) emit(e Event) {
	e.Time, e.Function = time.Now(), r.function.Name
	for _, observe := range r.process.opts.Observers {
		guard(r.log, "observer", func() { observe(e) })
	}
}

// run is the continuous mode of one function.
func (r *runner) run(ctx context.Context) error {
	if err := r.untilWorks(ctx, "prepare", r.prepare); err != nil {
		return endedBy(ctx, err)
	}
	caller := ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var working sync.WaitGroup
	defer working.Wait()
	balanceNow := make(chan struct{}, 1)
	for {
		if err := r.untilWorks(ctx, "balance", func(ctx context.Context) error {
			return r.balance(ctx, func(w *worker) {
				working.Go(func() { r.work(ctx, w, fail, balanceNow) })
			})
		}); err != nil {
			fail(err) // ends the workers too
			return endedBy(caller, err)
		}
		next := time.NewTimer(r.process.opts.LeaseAcquireInterval)
		select {
		case <-next.C:
		case <-balanceNow:
		case <-ctx.Done():
		}
		next.Stop()
	}
}

// endedBy returns err, or nil if the caller's context ended.
func endedBy(caller context.Context, err error) error {
	if caller.Err() != nil {
		return nil
	}
	return err
}

// work runs one worker and handles its end.
func (r *runner) work(ctx context.Context, w *worker, fail context.CancelCauseFunc, balanceNow chan<- struct{}) {
	err := w.run(ctx)
	r.ended(w, err)
	switch {
	case errors.Is(err, lease.ErrSplit):
		select {
		case balanceNow <- struct{}{}:
		default:
		}
	case isFatal(err):
		fail(err)
	case r.process.abandoned.exceed(r.process.opts.MaxStuck):
		fail(fmt.Errorf("more than %d handler calls do not return: %w", r.process.opts.MaxStuck, err))
	case !reasonOf(err).good():
		w.log.Warn("stopped working on range, retrying later", zap.Error(err))
	}
}

// isFatal reports whether an error ends a whole function.
func isFatal(err error) bool {
	return errors.Is(err, lease.ErrForeign) || errors.Is(err, lease.ErrSetup) || cosmos.Classify(err) == cosmos.ContainerGone
}

// untilWorks repeats do until it succeeds, ctx ends, or repeating is useless.
func (r *runner) untilWorks(ctx context.Context, step string, do func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := do(ctx)
		r.setProblem(err)
		if err == nil || isFatal(err) {
			return err
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		r.log.Error(step+" failed", zap.Error(err), zap.Int("failures", failures))
		wait := backoff.Wait(failures, backoff.Min, r.process.opts.LeaseAcquireInterval, r.process.opts.Owner, r.function.Name)
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// prepare finds the function's leases and makes sure that they were created.
func (r *runner) prepare(ctx context.Context) error {
	if err := r.leases.Prepare(ctx); err != nil {
		return err
	}
	r.source = newSource(r.function, r.leases.Since(), r.leases.Monitored().ResourceID)
	return nil
}

// balance acquires the leases that the plan names and starts their workers.
func (r *runner) balance(ctx context.Context, start func(*worker)) error {
	if err := r.leases.AuditIfDue(ctx); err != nil {
		r.log.Warn("audit failed", zap.Error(err))
	}
	leases, err := r.candidates(ctx)
	if err != nil {
		return err
	}
	leases = slices.DeleteFunc(leases, r.coolsDown)
	for _, step := range r.leases.Plan(leases, r.worksOn) {
		l := leases[slices.IndexFunc(leases, func(l *lease.Lease) bool { return l.Token() == step.Token })]
		if step.Request {
			if err := r.leases.RequestHandover(ctx, l); err != nil {
				r.log.Info("handover not requested", zap.String("range", l.Token()), zap.Error(err))
			}
			continue
		}
		w, err := r.acquire(ctx, l, lease.Superseded(l, leases))
		if err != nil {
			r.log.Info("lease not acquired", zap.String("range", l.Token()), zap.Error(err))
			continue
		}
		start(w)
	}
	return context.Cause(ctx)
}

// candidates lists the leases that may be acquired, in the order of their tokens.
func (r *runner) candidates(ctx context.Context) ([]*lease.Lease, error) {
	leases, err := r.leases.Candidates(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.cooldown, func(_ string, c cooldown) bool { return time.Since(c.until) > time.Hour })
	return leases, nil
}

// coolsDown reports whether this host leaves the range of a lease to others for now.
func (r *runner) coolsDown(l *lease.Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, there := r.cooldown[l.Token()]
	return there && !c.over()
}

// worksOn reports whether this host works on a range. The range is then its own,
// even if the list is older than the acquisition or a renewal is late.
func (r *runner) worksOn(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.working[token] != nil
}

// acquire takes the lease and makes its worker. superseded says that other leases
// have taken its place.
func (r *runner) acquire(ctx context.Context, l *lease.Lease, superseded bool) (*worker, error) {
	held, err := r.leases.Acquire(ctx, l)
	if err != nil {
		return nil, err
	}
	w := newWorker(r.process, r.function, r.leases, r.source, held, r.log, r.emit)
	w.superseded = superseded
	r.mu.Lock()
	r.working[held.Lease().Token()] = w.stats
	r.mu.Unlock()
	r.emit(Event{Kind: Acquired, Range: held.Lease().Token(), Epoch: held.Epoch(), Continuation: held.Lease().Continuation()})
	return w, nil
}

// ended removes an ended worker. A range that failed cools down, so that another
// host may try it and this one does not spin.
func (r *runner) ended(w *worker, err error) {
	token := w.held.Lease().Token()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.working, token)
	before, again := r.cooldown[token]
	delete(r.cooldown, token)
	if reason := reasonOf(err); reason.good() || reason == LeaseLost {
		return
	}
	doublings := 0
	if again && w.stats.snapshot().Changes == 0 {
		doublings = min(before.doublings+1, maxDoublings)
	}
	r.cooldown[token] = cooldown{time.Now().Add(2 * r.process.opts.LeaseAcquireInterval << doublings), err, doublings}
}

func (r *runner) setProblem(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = err
}

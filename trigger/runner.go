package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
	"halley/trigger/stall"
	"halley/trigger/units"
)

// functionRunner runs one function of a host. Its fields up to mu are set before its
// workers start, and when none is at work. mu guards the rest, and no other lock is taken under it.
type functionRunner struct {
	host        *hostState
	function    Function
	passes      filterTest
	leases      *lease.Set
	log         *slog.Logger
	feedSource  *feed.Source      // set by prepare
	sharedReads *feed.SharedReads // of the functions that read the same pages, or nil; set by shareReads
	sharedPlace int               // among these functions; likewise
	stop        *stopBudget       // set by beginStopBudget
	watchSlots  chan struct{}     // bounds the requested leases that are watched
	balanceNow  chan struct{}     // capacity 1: the balancer is to make a pass
	watched     sync.Map          // tokens of requested leases that are watched, or wait for a slot

	rateLimit, readLimit *limiter // of Function.Rate and Function.ReadRequestUnits
	meter                *units.Meter
	softDeletes          *softDeletes

	deadLetterLists  *deadLetterLists
	leaseLists       *sharedLists[listedLeases] // of Dispatch and DrainRange
	soloCalls        soloCalls                  // likewise
	toldNoPostponing atomic.Bool                // the log has told that RetryAfter needs a store
	toldUnknownForm  atomic.Bool                // the log has told of changes whose form is not known

	refusals      accountRefusals
	failover      atomic.Pointer[lease.FailoverError] // last reason why a lease was not acquired, or nil
	endIfHopeless func()                              // ends the host if no function has hope; nil if it does not run

	mu              sync.Mutex
	rangeStats      map[string]*rangeStats   // by lease token
	heldLeases      map[string]*lease.Held   // by lease token, of the ranges in rangeStats
	acquiring       map[string]bool          // by lease token: the request is under way
	coolingRanges   map[string]rangeCooldown // by lease token: failed here, and not worked on since
	pausedRanges    map[string]stall.Stall   // by lease token: paused by an operator, as the last list showed
	unreadable      map[string]stall.Stall   // by lease token: the document cannot be read, as the last list showed
	freeRanges      map[string]bool          // by lease token: without an owner, as the last list showed
	heldLeaseCount  int                      // other leases, as the last list showed
	sharedWith      []string                 // see FunctionStatus.SharedWith
	isAlone         bool                     // no other host holds or requests a lease, as the last list showed
	functionProblem error                    // why the function as a whole makes no progress, or nil
	step            string                   // the work with leases that is under way since stepBegan
	stepBegan       time.Time                // zero if none is under way
	attemptBegan    time.Time                // when the function was last started
	endedErr        error                    // ended the function less than endPeriod of work ago, or nil
	endedSince      time.Time                // first of the errors that ended it in a row
}

func newRunner(p *hostState, f Function, leases *cosmos.Container) *functionRunner {
	log := p.options.Logger.With(slog.String("function", f.Name), slog.String("owner", p.options.Owner))
	passes, _ := f.Filter.compile() // the function is valid
	r := &functionRunner{
		host: p, function: f, passes: passes, log: log, stop: &stopBudget{context.Background(), context.Background(), context.Background(), context.Background()},
		watchSlots: make(chan struct{}, maxWatched), balanceNow: make(chan struct{}, 1), deadLetterLists: newDeadLetterLists(), leaseLists: newSharedLists[listedLeases](),
		rangeStats: map[string]*rangeStats{}, heldLeases: map[string]*lease.Held{}, acquiring: map[string]bool{},
		coolingRanges: map[string]rangeCooldown{}, meter: &units.Meter{}, softDeletes: &softDeletes{},
		rateLimit: newLimiter(stall.RateLimited, f.Rate, "changes"), readLimit: newLimiter(stall.ReadsLimited, f.ReadRequestUnits, "request units of feed reads"),
	}
	r.leases = lease.NewSet(lease.Config{
		Leases: leases, Monitored: f.Container, Prefix: f.leasePrefix(), Function: f.Name, Mode: f.ChangeFeedMode,
		AppName: p.options.AppName, Owner: p.options.Owner, Incarnation: p.incarnation,
		AcquireInterval: p.options.LeaseAcquireInterval, RenewInterval: p.options.LeaseRenewInterval,
		Expiration: p.options.LeaseExpirationInterval, AuditInterval: p.options.AuditInterval,
		StopGrace: p.options.StopGrace, PollDelay: p.options.FeedPollDelay,
		Limits: lease.Limits{Min: p.options.MinLeases, Max: p.options.MaxLeases}, Reset: f.ResetLeases, SinceBeginning: feed.SinceBeginning,
		StartToken: func(ctx context.Context, part lease.Part, since time.Time) (string, error) {
			return r.newSource(since, "").ResolveStart(ctx, f.StartFrom.Since(since, f.ChangeFeedMode), feedTarget(part))
		},
		Meter: r.meter, Log: log,
	})
	return r
}

// unitsProperty is the lease property with the request units of the function on its owner's host,
// see [units.Host].
const unitsProperty = "halley.units"

func (r *functionRunner) measuredUnits() units.Host {
	process := r.host.incarnation[strings.LastIndexByte(r.host.incarnation, '/')+1:]
	h := units.Host{ID: process}
	h.Hourly, h.LeaseWrite = r.meter.Measured()
	return h
}

// newSource returns the feed of a source whose leases were first created at since, which
// is zero before that, with pages of one change.
func newSource(s FeedSource, since time.Time, resourceID string) *feed.Source {
	return &feed.Source{
		Container: s.Container, Mode: s.ChangeFeedMode, Start: s.StartFrom.Since(since, s.ChangeFeedMode), MaxItems: 1, ResourceID: resourceID,
	}
}

// newSource does the same for the function, and counts its reads.
func (r *functionRunner) newSource(since time.Time, resourceID string) *feed.Source {
	source := newSource(r.function.FeedSource, since, resourceID)
	source.Meter = r.meter
	return source
}

func feedTarget(part lease.Part) feed.Target {
	return feed.Target{Physical: part.Physical, Min: part.Span.Min, Max: part.Span.Max}
}

// emitEvent passes an event to the observers. One that panics is reported, and the
// event counts as observed.
func (r *functionRunner) emitEvent(e Event) {
	e.Time, e.Function = time.Now(), r.function.Name
	logEvent(r.log, e)
	for _, observe := range r.host.options.Observers {
		guardCallback(r.log, "observer", func() { observe(e) })
	}
}

// runContinuously is the continuous mode of one function.
func (r *functionRunner) runContinuously(ctx context.Context) error {
	if err := r.untilWorks(ctx, "prepare", r.prepareLeases); err != nil {
		return endedBy(ctx, err)
	}
	caller := ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer r.beginStopBudget(ctx)()
	defer r.tellReleased()
	var working sync.WaitGroup
	defer working.Wait()
	for {
		var wait time.Duration
		if err := r.untilWorks(ctx, "balance", func(ctx context.Context) (err error) {
			wait, err = r.balanceLeases(ctx, workStarter{
				run: func(w *rangeWorker) {
					working.Add(1)
					w.startWork(ctx, func(err error) {
						defer working.Done()
						r.handleEnd(ctx, w, err, fail)
					})
				},
				watch: func(watch func()) { working.Go(watch) },
			})
			return err
		}); err != nil {
			fail(err) // ends the workers too
			return endedBy(caller, err)
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-r.balanceNow:
		case <-ctx.Done():
		}
		next.Stop()
	}
}

// tellTime bounds the requests that tell other hosts of released leases. Those are a courtesy, and a
// stop is not to wait for an account that does not answer.
const tellTime = time.Second

// tellReleased tells other hosts of the leases that were released because the function has ended.
func (r *functionRunner) tellReleased() {
	ctx, cancel := context.WithTimeout(r.stop.requests, tellTime)
	defer cancel()
	r.leases.TellReleased(ctx)
}

// beginStopBudget sets the budget of the workers that start under ctx. The caller
// calls end when all of them have ended.
func (r *functionRunner) beginStopBudget(ctx context.Context) (end func()) {
	r.stop, end = newStopBudget(ctx, r.host.options.StopGrace)
	return end
}

// stuckCallsError ends the whole host: only a new process ends calls that do not return.
type stuckCallsError struct {
	limit int
	err   error
}

func (e *stuckCallsError) Error() string {
	return fmt.Sprintf("more than %d handler calls do not return: %v", e.limit, e.err)
}
func (e *stuckCallsError) Unwrap() error { return e.err }

// handleEnd handles the end of a worker.
func (r *functionRunner) handleEnd(ctx context.Context, w *rangeWorker, err error, fail context.CancelCauseFunc) {
	r.workerEnded(w, err)
	deleted := r.recordLost(w)
	switch {
	case isFatal(err):
		fail(err)
	case errors.Is(err, lease.ErrSplit), reasonOf(err) == ClosedPhaseEnded, deleted:
		r.balanceSoon()
	case r.host.abandonedCalls.exceedsLimit(r.host.options.MaxStuck):
		fail(&stuckCallsError{limit: r.host.options.MaxStuck, err: err})
	case !reasonOf(err).isOrderly() && reasonOf(err) != ClosedLeaseLost:
		w.log.Warn("stopped working on range, retrying later", slog.Any("error", err))
		if reasonOf(err) == ClosedBroken && !errors.Is(err, delivery.ErrNewerForm) && r.awaitReadable(ctx, w) {
			r.balanceSoon()
		}
	}
}

// balanceSoon has the balancer make a pass now, or after the one that is under way.
func (r *functionRunner) balanceSoon() {
	select {
	case r.balanceNow <- struct{}{}:
	default:
	}
}

// isFatal reports whether an error ends a whole function.
func isFatal(err error) bool {
	return errors.Is(err, lease.ErrForeign) || errors.Is(err, lease.ErrSetup) || isContainerGone(err)
}

// prepareLeases finds the function's leases and makes sure that they were created.
func (r *functionRunner) prepareLeases(ctx context.Context) error {
	if err := r.leases.Prepare(ctx); err != nil {
		r.noteAnswer(useLeases, err)
		return err
	}
	r.noteAnswer(useLeases, nil)
	r.noteAnswer(useFeed, nil)
	r.feedSource = r.newSource(r.leases.Since(), r.leases.Monitored().ResourceID)
	r.feedSource.MaxItems, r.feedSource.MostItems = r.function.pageSizes()
	r.feedSource.Shared, r.feedSource.MaxAge, r.feedSource.Place = r.sharedReads, r.sharedMaxAge(), r.sharedPlace
	r.feedSource.KeyProperty = feed.KeyProperty(r.leases.Monitored().PartitionKey.Paths)
	return nil
}

// balanceLeases acquires the leases that the plan names and starts their workers. It returns
// when the next pass begins. After ctx has ended it acquires nothing more.
func (r *functionRunner) balanceLeases(ctx context.Context, start workStarter) (next time.Duration, err error) {
	if err := r.leases.AuditNextToOwners(ctx); isContainerGone(err) {
		return 0, err
	} else if err != nil {
		r.log.Warn("audit failed", slog.Any("error", err))
	}
	if err := r.leases.RestoreLost(ctx); isContainerGone(err) {
		return 0, err
	} else if err != nil {
		r.log.Warn("lost leases not restored", slog.Any("error", err))
	}
	leases, err := r.listCandidates(ctx)
	if err != nil {
		return 0, err
	}
	r.verifyMissing(leases)
	r.verifyAccount(ctx)
	pass := &balancePass{listed: r.listOf(leases), byToken: map[string]*lease.Lease{}, start: start}
	leases = slices.DeleteFunc(leases, r.coolsDown)
	for _, l := range leases {
		pass.byToken[l.Token()] = l
	}
	steps, next := r.leases.Plan(leases, r.worksOn)
	r.takeSteps(ctx, pass, steps)
	return next, context.Cause(ctx)
}

// listCandidates lists the leases that may be acquired, in the order of their tokens.
func (r *functionRunner) listCandidates(ctx context.Context) ([]*lease.Lease, error) {
	leases, err := r.leases.Candidates(ctx)
	r.noteAnswer(useLeases, err)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.coolingRanges, func(_ string, c rangeCooldown) bool { return time.Since(c.retryAt) > time.Hour })
	r.noteLeases(leases)
	r.unreadable = map[string]stall.Stall{}
	for _, u := range r.leases.Unreadable() {
		r.unreadable[u.Token] = unreadableStall(u)
	}
	r.isAlone = !r.leases.HasOtherHosts(leases)
	others := r.leases.OtherHolders(leases)
	if len(others) > 0 && !slices.Equal(others, r.sharedWith) {
		r.log.Warn("another app or function takes leases of this one: each handles only a part of the changes, until one of them has another prefix",
			slog.Any("others", others), slog.String("prefix", r.function.leasePrefix()))
	}
	r.sharedWith = others
	return leases, nil
}

// noteLeases records the states of listed leases. mu is held.
func (r *functionRunner) noteLeases(leases []*lease.Lease) {
	oldPaused, now := r.pausedRanges, r.leases.Now()
	r.pausedRanges, r.freeRanges, r.heldLeaseCount = map[string]stall.Stall{}, map[string]bool{}, 0
	for _, l := range leases {
		cause, paused := pauseStall(l)
		free := l.Free(now, r.host.options.LeaseExpirationInterval)
		if c, cooling := r.coolingRanges[l.Token()]; cooling {
			c.isTaken = !free && l.Owner() != r.host.options.Owner
			r.coolingRanges[l.Token()] = c
		}
		switch {
		case paused:
			r.pausedRanges[l.Token()] = cause
			if oldPaused[l.Token()] != cause {
				r.log.Info("range is paused by an operator", slog.String("range", l.Token()), slog.String("reason", cause.Text), slog.Time("since", cause.Since))
			}
		case free:
			r.freeRanges[l.Token()] = true
		default:
			r.heldLeaseCount++
		}
	}
}

// leaseCounts counts the listed leases. Those that this host has acquired since are held.
// mu is held.
func (r *functionRunner) leaseCounts() LeaseCounts {
	counts := LeaseCounts{Held: r.heldLeaseCount, Paused: len(r.pausedRanges)}
	for token := range r.freeRanges {
		if r.rangeStats[token] != nil {
			counts.Held++
		} else {
			counts.Free++
		}
	}
	return counts
}

// workerEnded removes an ended worker. A range that failed cools down, so that another
// host may try it and this one does not spin.
func (r *functionRunner) workerEnded(w *rangeWorker, err error) {
	token := w.held.Lease().Token()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.rangeStats, token)
	delete(r.heldLeases, token)
	cooldown, wasCooling := r.coolingRanges[token]
	delete(r.coolingRanges, token)
	if reason := reasonOf(err); reason.isOrderly() || reason == ClosedLeaseLost || isFatal(err) {
		return // the function as a whole waits after a fatal error
	}
	doublings := 0
	if wasCooling && w.rangeStats.currentStatus().Changes == 0 {
		doublings = min(cooldown.doublings+1, maxDoublings)
	}
	retryAt := time.Now().Add(2 * r.host.options.LeaseAcquireInterval << doublings)
	r.coolingRanges[token] = rangeCooldown{retryAt: retryAt, cause: w.rangeStats.lastStall(err), doublings: doublings}
}

package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// function is a Function at work in a host.
type function struct {
	Function
	host   *Host
	leases *cosmos.Container
	log    *zap.Logger
	ranges topology

	store    *leaseStore   // set by prepare
	since    time.Time     // when the leases were first created, on the service's clock
	audited  time.Time     // when the key space was last checked for holes
	suspects map[span]bool // holes that the last audit saw

	mu      sync.Mutex
	workers map[string]*tally // by lease token: running now
	resting map[string]rest   // by lease token: given up in trouble, and not worked on since
	problem error             // why the function as a whole makes no progress, or nil
}

// rest is why and until when this host leaves a range to others. It doubles with
// each time in a row that came to nothing, so that a host that can work on the
// range keeps it for a while.
type rest struct {
	until     time.Time
	err       error
	doublings int
}

const maxDoublings = 2

func (r rest) over() bool { return !time.Now().Before(r.until) }

func newFunction(h *Host, f Function, leases *cosmos.Container) *function {
	return &function{
		Function: f, host: h, leases: leases, ranges: topology{container: f.Container},
		log:     h.opts.Logger.With(zap.String("function", f.Name), zap.String("owner", h.me.owner)),
		workers: map[string]*tally{}, resting: map[string]rest{},
	}
}

func (f *function) pollDelay() time.Duration {
	if f.FeedPollDelay > 0 {
		return f.FeedPollDelay
	}
	return f.host.opts.FeedPollDelay
}

func (f *function) event(e Event) {
	e.Time, e.Function = time.Now(), f.Name
	for _, observe := range f.host.opts.Observers {
		observe(e)
	}
}

// run is the continuous mode of one function.
func (f *function) run(ctx context.Context) error {
	if err := f.untilWorks(ctx, "prepare", f.prepare); err != nil {
		return endedBy(ctx, err)
	}
	caller := ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var working sync.WaitGroup
	defer working.Wait()
	kick := make(chan struct{}, 1)
	for {
		if err := f.untilWorks(ctx, "balance", func(ctx context.Context) error {
			return f.balance(ctx, func(w *worker) {
				working.Go(func() { f.work(ctx, w, fail, kick) })
			})
		}); err != nil {
			fail(err) // ends the workers too
			return endedBy(caller, err)
		}
		next := time.NewTimer(f.host.opts.LeaseAcquireInterval)
		select {
		case <-next.C:
		case <-kick:
		case <-ctx.Done():
		}
		next.Stop()
	}
}

// endedBy is err, unless the caller's context ended: then all is well.
func endedBy(caller context.Context, err error) error {
	if caller.Err() != nil {
		return nil
	}
	return err
}

// work runs one worker and sees to what follows from its end.
func (f *function) work(ctx context.Context, w *worker, fail context.CancelCauseFunc, kick chan<- struct{}) {
	err := w.run(ctx)
	f.forget(w, err)
	switch {
	case errors.Is(err, errSplit):
		select {
		case kick <- struct{}{}:
		default:
		}
	case isFatal(err):
		fail(err)
	case f.host.tooManyStuck():
		fail(fmt.Errorf("more than %d handler calls do not return: %w", f.host.opts.MaxStuck, err))
	case !reasonOf(err).good():
		w.log.Warn("range given up for now", zap.Error(err))
	}
}

// isFatal reports whether an error ends a whole function.
func isFatal(err error) bool {
	return errors.Is(err, errForeignLease) || errors.Is(err, errSetup) || cosmos.Classify(err) == cosmos.ContainerGone
}

// errSetup marks what somebody has to change before a function can start.
var errSetup = errors.New("cannot start")

// untilWorks repeats do until it succeeds, ctx ends, or going on is useless.
func (f *function) untilWorks(ctx context.Context, what string, do func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := do(ctx)
		f.setProblem(err)
		if err == nil || isFatal(err) {
			return err
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		f.log.Error(what+" failed", zap.Error(err), zap.Int("failures", failures))
		if err := backoff.Sleep(ctx, backoff.Wait(failures, backoff.Min, f.host.opts.LeaseAcquireInterval, f.host.me.owner, f.Name)); err != nil {
			return err
		}
	}
}

// prepare finds the lease set and makes sure that it was created.
func (f *function) prepare(ctx context.Context) error {
	if f.store != nil {
		return nil
	}
	store, err := newLeaseStore(ctx, f.leases, f.Function, f.host.opts.LeaseExpirationInterval)
	switch cosmos.Classify(err) {
	case cosmos.Succeeded:
	case cosmos.Denied, cosmos.Invalid, cosmos.NotFound, cosmos.ContainerGone:
		return fmt.Errorf("%w: %w", errSetup, err)
	default:
		return err
	}
	f.store = store
	if f.ResetLeases {
		err = f.discard(ctx)
	}
	if err == nil {
		_, err = f.ranges.refresh(ctx)
	}
	if err == nil {
		err = f.bootstrap(ctx)
	}
	if err != nil {
		f.store = nil
		return err
	}
	f.audited = time.Now()
	if err := f.audit(ctx); err != nil { // the first of two looks: a process may not live for AuditInterval
		f.log.Warn("audit failed", zap.Error(err))
	}
	return f.checkMode(ctx)
}

// checkMode refuses leases of another mode: their continuations mean nothing
// in this one.
func (f *function) checkMode(ctx context.Context) error {
	leases, _, err := f.store.list(ctx)
	if err != nil {
		f.store = nil
		return err
	}
	for _, l := range leases {
		if l.mode != leaseMode(f.ChangeFeedMode) {
			f.store = nil
			return fmt.Errorf("%w: lease %q is in mode %q and the function in mode %q; choose another lease container prefix, or discard the leases",
				errSetup, l.token, l.mode, leaseMode(f.ChangeFeedMode))
		}
	}
	return nil
}

// balance acquires what the plan says and starts its workers.
func (f *function) balance(ctx context.Context, start func(*worker)) error {
	if err := f.auditIfDue(ctx); err != nil {
		f.log.Warn("audit failed", zap.Error(err))
	}
	leases, err := f.candidates(ctx)
	if err != nil {
		return err
	}
	leases = slices.DeleteFunc(leases, f.rests)
	o := f.host.opts
	for _, step := range plan(f.standings(leases), f.Name, f.host.me.owner, limits{o.MinLeases, o.MaxLeases}) {
		l := leases[slices.IndexFunc(leases, func(l *lease) bool { return l.token == step.token })]
		if step.ask {
			if err := f.store.ask(ctx, l, f.host.me); err != nil {
				f.log.Info("lease not asked for", zap.String("range", l.token), zap.Error(err))
			}
			continue
		}
		w, err := f.acquire(ctx, l, outlived(l, leases))
		if err != nil {
			f.log.Info("lease not acquired", zap.String("range", l.token), zap.Error(err))
			continue
		}
		start(w)
	}
	return context.Cause(ctx)
}

// candidates lists the leases that may be acquired, in the order of their
// tokens: one per token, no tombstones. Owners of further documents for a range
// are asked to leave them.
func (f *function) candidates(ctx context.Context) ([]*lease, error) {
	listing, cancel := f.soon(ctx)
	defer cancel()
	all, bad, err := f.store.list(listing)
	if err != nil {
		return nil, err
	}
	for _, b := range bad {
		f.log.Error("document is no lease that can be used; it is left alone", zap.String("id", b.id), zap.Error(b.err))
	}
	used, ignored := onePerToken(all, f.store.now(), f.host.opts.LeaseExpirationInterval)
	for _, l := range ignored {
		f.vacate(ctx, l)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.resting, func(_ string, r rest) bool { return time.Since(r.until) > time.Hour })
	return slices.DeleteFunc(used, (*lease).tombstone), nil
}

// rests reports whether this host leaves the range of a lease to others for now.
func (f *function) rests(l *lease) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, there := f.resting[l.token]
	return there && !r.over()
}

// standings says who holds what. What this host works on is its own, even if
// the list is older than the acquisition or a renewal is late.
func (f *function) standings(leases []*lease) []standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.store.now()
	standings := make([]standing, len(leases))
	for i, l := range leases {
		if f.workers[l.token] != nil {
			standings[i] = standing{token: l.token, owner: f.host.me.owner}
			continue
		}
		s := standing{token: l.token, owner: l.owner, free: l.free(now, f.host.opts.LeaseExpirationInterval)}
		s.halley = l.ownedByHalley()
		s.left = s.free && now.Sub(l.idleSince(f.host.opts.LeaseExpirationInterval)) > f.host.opts.LeaseAcquireInterval+time.Second
		s.asked, s.ignored = l.asked(now, f.host.opts.LeaseExpirationInterval)
		standings[i] = s
	}
	return standings
}

// onePerToken chooses one of several documents with the same token, in the order
// of tokens: the one acquired last, which is the one that is worked on and above
// which no sink has seen an epoch; where that does not tell, as between leases
// of .NET, one that a live host holds, or else the one that has seen the least.
// All hosts choose alike, and nothing is lost whichever it is.
func onePerToken(leases []*lease, now time.Time, expiration time.Duration) (used, ignored []*lease) {
	free := func(l *lease) int {
		if l.free(now, expiration) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(leases, func(a, b *lease) int {
		return cmp.Or(strings.Compare(a.token, b.token), cmp.Compare(b.epoch(), a.epoch()), free(a)-free(b),
			compareContinuations(a.continuation, b.continuation), strings.Compare(a.partitionKey.String(), b.partitionKey.String()))
	})
	for _, l := range leases {
		if n := len(used); n > 0 && used[n-1].token == l.token {
			ignored = append(ignored, l)
		} else {
			used = append(used, l)
		}
	}
	return used, ignored
}

// vacate has the owner of a second document for a range leave it: two documents
// are two locks, and two hosts would deliver the range for as long as both last.
func (f *function) vacate(ctx context.Context, l *lease) {
	f.log.Error("two leases for one range; delete the one that is ignored", zap.String("range", l.token),
		zap.String("id", l.id), zap.String("ignored", l.partitionKey.String()))
	now, expiration := f.store.now(), f.host.opts.LeaseExpirationInterval
	by, _ := l.asked(now, expiration)
	if l.free(now, expiration) || !l.ownedByHalley() || l.owner == f.host.me.owner || by != "" {
		return
	}
	if err := f.store.ask(ctx, l, f.host.me); err != nil {
		f.log.Info("second lease not asked for", zap.String("range", l.token), zap.Error(err))
	}
}

// secondLook is how long after it saw a hole the audit looks again: leases that
// change while they are listed may show one that never was.
const secondLook = 5 * time.Second

func (f *function) auditIfDue(ctx context.Context) error {
	due := f.audited.Add(f.host.opts.AuditInterval)
	if len(f.suspects) > 0 {
		due = f.audited.Add(secondLook)
		if err := backoff.Sleep(ctx, time.Until(due)); err != nil {
			return err
		}
	}
	if time.Now().Before(due) {
		return nil
	}
	ctx, cancel := f.soon(ctx)
	defer cancel()
	f.audited = time.Now()
	return f.audit(ctx)
}

// soon bounds what a pass of the balancer may wait for answers: a takeover must
// not hang on one that never comes.
func (f *function) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, f.host.opts.LeaseExpirationInterval/2)
}

// acquire takes the lease and makes its worker; see outlived.
func (f *function) acquire(ctx context.Context, l *lease, outlived bool) (*worker, error) {
	if !l.span.known() {
		if at, err := f.physical(ctx, l); err == nil {
			l = l.clone()
			l.span = at.span
		}
	}
	// The request is seen to its end although ctx may end meanwhile: a lease that
	// is ours without our knowing it would lie idle until it expires.
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.host.opts.StopGrace)
	defer cancel()
	held, id, sent, err := f.store.acquire(finish, l, f.host.me)
	if err != nil {
		return nil, err
	}
	w := &worker{
		f: f, lease: held, timeout: f.HandlerTimeout, cautious: held.deaths() > 1, outlived: outlived,
		tally: newTally(held, id), log: f.log.With(zap.String("range", held.token), zap.Int64("epoch", id.epoch)),
	}
	w.tally.late = w.unfinished
	w.troubles.load(held.properties[troubleProperty])
	w.keeper = newKeeper(held, id, sent, f, &w.troubles)
	w.checkpoints = checkpoints{setting: f.Checkpoint, keeper: w.keeper, last: time.Now()}
	w.breaker.limit = f.BreakerLimit
	f.mu.Lock()
	f.workers[held.token] = w.tally
	f.mu.Unlock()
	f.event(Event{Kind: Acquired, Range: held.token, Epoch: id.epoch, Continuation: held.continuation})
	return w, nil
}

// forget removes an ended worker. A range that ended in trouble rests for a
// while, so that another host may try and nobody spins.
func (f *function) forget(w *worker, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.workers, w.lease.token)
	before, again := f.resting[w.lease.token]
	delete(f.resting, w.lease.token)
	if reason := reasonOf(err); reason.good() || reason == LeaseLost {
		return
	}
	doublings := 0
	if again && w.tally.snapshot().Changes == 0 {
		doublings = min(before.doublings+1, maxDoublings)
	}
	f.resting[w.lease.token] = rest{time.Now().Add(2 * f.host.opts.LeaseAcquireInterval << doublings), err, doublings}
}

func (f *function) setProblem(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problem = err
}

// inside are the spans, sorted, of the leases that lie within l's span: what
// follows l, begun by an earlier owner. One over all of it counts only where it
// holds keys and l a physical range, which is what a merge leaves. highest is the
// highest epoch of all leases that share keys with l, itself included.
func (f *function) inside(ctx context.Context, l *lease) (spans []span, highest int64, err error) {
	leases, _, err := f.store.list(ctx)
	if err != nil {
		return nil, 0, err
	}
	highest = l.epoch()
	for _, o := range leases {
		if o.tombstone() || !o.span.known() || !o.span.overlaps(l.span) {
			continue
		}
		highest = max(highest, o.epoch())
		if o.id == l.id || !l.span.contains(o.span) || o.span.equals(l.span) && (!o.byKeys || l.byKeys) {
			continue
		}
		spans = append(spans, o.span)
	}
	sortSpans(spans)
	return spans, highest, nil
}

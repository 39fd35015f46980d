package trigger

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"halley/trigger/internal/lease"
)

// acquireParallel is the number of leases that a host acquires at a time: 1,000
// leases at 15 ms a request take half a second.
const acquireParallel = 32

// maxWatched is the number of requested leases that a function reads again and again
// until they are released. Others are watched when one of these is decided, or
// acquired by the next pass.
const maxWatched = 64

// workStarter starts goroutines that the function waits for at its end.
type workStarter struct {
	run   func(*rangeWorker) // works on an acquired lease
	watch func(watch func()) // watches a requested lease
}

// balancePass is what the steps of one plan have in common. It does not change once
// the steps begin.
type balancePass struct {
	listed  *leaseList
	byToken map[string]*lease.Lease // those of the plan
	start   workStarter
}

// takeSteps carries out all steps, and returns when no request is under way. After
// ctx has ended it begins none.
func (r *functionRunner) takeSteps(ctx context.Context, pass *balancePass, steps []lease.Step) {
	slots := make(chan struct{}, acquireParallel)
	var working sync.WaitGroup
	defer working.Wait()
	for _, step := range steps {
		slots <- struct{}{}
		if ctx.Err() != nil {
			return
		}
		working.Go(func() {
			defer func() { <-slots }()
			switch l := pass.byToken[step.Token]; {
			case step.Request:
				r.requestLease(ctx, pass, l)
			case step.Watch:
				r.watchLease(ctx, pass, l)
			default:
				r.takeLease(ctx, pass, l)
			}
		})
	}
}

func (r *functionRunner) takeLease(ctx context.Context, pass *balancePass, l *lease.Lease) {
	listed := pass.listed
	if !l.Free(r.leases.Now(), r.host.options.LeaseExpirationInterval) {
		listed = nil // a live owner may split it until it is taken
	}
	w, err := r.acquireListed(ctx, r.stop, l, listed, pass.listed.index.Superseded(l))
	if r.noteFailover(err) {
		return
	}
	if err != nil {
		r.log.Info("lease not acquired", slog.String("range", l.Token()), slog.Any("error", err))
		return
	}
	pass.start.run(w)
}

func (r *functionRunner) requestLease(ctx context.Context, pass *balancePass, l *lease.Lease) {
	requested, err := r.leases.RequestHandover(ctx, l)
	if err != nil {
		r.log.Info("handover not requested", slog.String("range", l.Token()), slog.Any("error", err))
		return
	}
	r.watchLease(ctx, pass, requested)
}

// watchLease watches a requested lease, unless that is done already. A request is pending
// without it if its answer was lost, or if a watch has ended for a wrong one.
func (r *functionRunner) watchLease(ctx context.Context, pass *balancePass, l *lease.Lease) {
	if _, isWatched := r.watched.LoadOrStore(l.Token(), true); isWatched {
		return
	}
	pass.start.watch(func() {
		defer r.watched.Delete(l.Token())
		r.awaitHandover(ctx, l, pass.start)
	})
}

// awaitHandover acquires a requested lease as soon as its owner has released it.
func (r *functionRunner) awaitHandover(ctx context.Context, l *lease.Lease, start workStarter) {
	select {
	case r.watchSlots <- struct{}{}:
		defer func() { <-r.watchSlots }()
	case <-ctx.Done():
		return
	}
	released, err := r.leases.AwaitHandover(ctx, l)
	if err != nil {
		return // the next pass of the balancer sees why
	}
	w, err := r.acquireLease(ctx, released, false)
	if err != nil {
		r.log.Info("lease not acquired", slog.String("range", l.Token()), slog.Any("error", err))
		return
	}
	start.run(w)
}

// verifyMissing has the writers of leases that a list does not show find out whether
// their documents were deleted.
func (r *functionRunner) verifyMissing(listed []*lease.Lease) {
	isListed := map[string]bool{}
	for _, l := range listed {
		isListed[l.Token()] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for token, held := range r.heldLeases {
		if !isListed[token] {
			held.VerifySoon()
		}
	}
}

// worksOn reports whether this host works on a range or is acquiring its lease. The
// range is then its own, even if the list is older than the acquisition or a renewal
// is late.
func (r *functionRunner) worksOn(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rangeStats[token] != nil || r.acquiring[token]
}

// beginAcquisition reports whether this host may acquire a lease, and then marks it
// as its own. Two acquisitions of one process at a time would write one epoch, and
// both would seem to have succeeded.
func (r *functionRunner) beginAcquisition(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rangeStats[token] != nil || r.acquiring[token] {
		return false
	}
	r.acquiring[token] = true
	return true
}

func (r *functionRunner) endAcquisition(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.acquiring, token)
}

// acquireLease takes the lease and makes its worker. superseded says that other leases
// have taken its place. If ctx ends during the request, the worker releases the
// lease at once.
func (r *functionRunner) acquireLease(ctx context.Context, l *lease.Lease, superseded bool) (*rangeWorker, error) {
	return r.acquireListed(ctx, r.stop, l, nil, superseded)
}

// leaseList is all leases as one request has listed them.
type leaseList struct {
	index       *lease.Index
	listsBefore int64 // lists of dead letters that had begun when the request had ended
}

// listOf is called as soon as the leases have been listed.
func (r *functionRunner) listOf(leases []*lease.Lease) *leaseList {
	return &leaseList{lease.NewIndex(leases), r.deadLetterLists.begun.Load()}
}

// acquireListed is acquireLease for a lease that was free in a list of all leases. If
// its owner had released it by then, that owner had put its last dead letter, and a
// list of dead letters that begins after that of the leases has all of them.
// The worker stops within the budget.
func (r *functionRunner) acquireListed(ctx context.Context, stop *stopBudget, l *lease.Lease, listed *leaseList, superseded bool) (*rangeWorker, error) {
	token := l.Token()
	if !r.beginAcquisition(token) {
		return nil, fmt.Errorf("acquire lease %q: %w", token, errOwnRange)
	}
	defer r.endAcquisition(token)
	var index *lease.Index
	if listed != nil {
		index = listed.index
	}
	failovers := r.host.leases.Failovers() // a sign that comes now is not confirmed by the acquisition
	held, err := r.leases.Acquire(ctx, stop.requests, l, index, superseded)
	r.noteAnswer(useLeases, err)
	if err != nil {
		return nil, err
	}
	w := r.newWorker(held, stop)
	w.superseded, w.sharesFrom = superseded, r.lastOwned(l)
	w.confirmedFailovers.Store(failovers)
	w.deadLetterLists, w.listsBefore = r.deadLetterLists, r.deadLetterLists.begun.Load()
	if listed != nil && l.Owner() == "" {
		w.listsBefore = listed.listsBefore
	}
	r.mu.Lock()
	r.rangeStats[held.Lease().Token()], r.heldLeases[held.Lease().Token()] = w.rangeStats, held
	r.mu.Unlock()
	r.emitEvent(Event{Kind: EventAcquired, Range: held.Lease().Token(), Epoch: held.Epoch(), Continuation: held.Lease().Continuation()})
	return w, nil
}

// clockError bounds the error of the service's clock as this host knows it, from answers and
// timestamps of whole seconds.
const clockError = 2 * time.Second

// lastOwned returns when another host may last have had a lease as it was listed, on this
// host's clock; the zero time if none has had it. The lease is acquired as it was listed, so
// that none has had it since.
func (r *functionRunner) lastOwned(l *lease.Lease) time.Time {
	if l.NeverOwned() {
		return time.Time{}
	}
	return time.Now().Add(l.Written().Sub(r.leases.Now()) + clockError)
}

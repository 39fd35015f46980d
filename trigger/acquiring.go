package trigger

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"halley/trigger/internal/lease"
)

// acquireParallel is the number of leases that a host acquires at a time: 1,000
// leases at 15 ms a request take half a second.
const acquireParallel = 32

// maxWatched is the number of requested leases that a function reads every second
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
			if l := pass.byToken[step.Token]; step.Request {
				r.requestLease(ctx, pass, l)
			} else {
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
	if err != nil {
		r.log.Info("lease not acquired", zap.String("range", l.Token()), zap.Error(err))
		return
	}
	pass.start.run(w)
}

func (r *functionRunner) requestLease(ctx context.Context, pass *balancePass, l *lease.Lease) {
	requested, err := r.leases.RequestHandover(ctx, l)
	if err != nil {
		r.log.Info("handover not requested", zap.String("range", l.Token()), zap.Error(err))
		return
	}
	pass.start.watch(func() { r.awaitHandover(ctx, requested, pass.start) })
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
		r.log.Info("lease not acquired", zap.String("range", l.Token()), zap.Error(err))
		return
	}
	start.run(w)
}

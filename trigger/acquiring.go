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

// balancePass carries out the steps of one plan. The goroutine that balances the
// function owns it; the goroutines that it starts read it.
type balancePass struct {
	runner  *functionRunner
	index   *lease.Index
	byToken map[string]*lease.Lease
	slots   chan struct{}
	start   workStarter
}

// takeSteps carries out all steps, and returns when no request is under way. After
// ctx has ended it begins none.
func (p *balancePass) takeSteps(ctx context.Context, steps []lease.Step) {
	var working sync.WaitGroup
	defer working.Wait()
	for _, step := range steps {
		p.slots <- struct{}{}
		if ctx.Err() != nil {
			return
		}
		working.Go(func() {
			defer func() { <-p.slots }()
			if l := p.byToken[step.Token]; step.Request {
				p.requestLease(ctx, l)
			} else {
				p.acquireLease(ctx, l)
			}
		})
	}
}

func (p *balancePass) acquireLease(ctx context.Context, l *lease.Lease) {
	r := p.runner
	listed := p.index
	if !l.Free(r.leases.Now(), r.host.options.LeaseExpirationInterval) {
		listed = nil // a live owner may split it until it is taken
	}
	w, err := r.acquireListed(ctx, l, listed, p.index.Superseded(l))
	if err != nil {
		r.log.Info("lease not acquired", zap.String("range", l.Token()), zap.Error(err))
		return
	}
	p.start.run(w)
}

func (p *balancePass) requestLease(ctx context.Context, l *lease.Lease) {
	requested, err := p.runner.leases.RequestHandover(ctx, l)
	if err != nil {
		p.runner.log.Info("handover not requested", zap.String("range", l.Token()), zap.Error(err))
		return
	}
	p.start.watch(func() { p.runner.awaitHandover(ctx, requested, p.start) })
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

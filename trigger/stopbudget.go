package trigger

import (
	"context"
	"time"
)

// stopBudget divides [Options.StopGrace] after the context of Run or Drain has
// ended. All ranges of a function share one: the grace is counted from the end of
// that context and begins once, however many steps a stop has.
//
//	0          nothing is acquired and no handler call begins
//	4/5        the contexts of running handler calls end
//	9/10       the contexts of running calls of Function.Flush end
//	1          calls that have not returned are left behind
//	1 + 500 ms lease requests end, also those of releases
//
// A call that returns when its context ends leaves a fifth of the grace, 2 s by
// default, for the release: that is one write, with time to repeat it. If the function has a
// Flush, half of that is Flush's.
type stopBudget struct {
	calls    context.Context // ends when running handler calls must end
	flush    context.Context // ends when a running call of Function.Flush must end
	abandon  context.Context // ends when calls that have not returned are left behind
	requests context.Context // ends when lease requests must end
}

// releaseTime is how long after StopGrace a release may take that could not begin
// before, because a call had to be left behind: Run returns within StopGrace + 1 s.
const releaseTime = 500 * time.Millisecond

// newStopBudget returns the budget of the work under ctx. The caller calls end when
// that work has ended.
func newStopBudget(ctx context.Context, grace time.Duration) (b *stopBudget, end func()) {
	b = &stopBudget{}
	var endCalls, endFlush, endAbandon, endRequests func()
	b.calls, endCalls = outlive(ctx, grace-grace/5)
	b.flush, endFlush = outlive(ctx, grace-grace/10)
	b.abandon, endAbandon = outlive(ctx, grace)
	b.requests, endRequests = outlive(ctx, grace+releaseTime)
	return b, func() {
		endCalls()
		endFlush()
		endAbandon()
		endRequests()
	}
}

// outlive returns a context that ends with errStopping when ctx has ended for as
// long as the duration says, or when end is called.
func outlive(ctx context.Context, extra time.Duration) (longer context.Context, end func()) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unregister := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(extra, func() { cancel(errStopping) })
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() {
		unregister()
		cancel(errStopping)
	}
}

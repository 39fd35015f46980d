package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"halley/trigger/internal/backoff"
)

// endPeriod is how long all functions have to be ended by errors before Run
// returns, and how long a function has to run before such an error is over. It is
// also the longest wait between attempts. A minute outlasts a role assignment or a
// container that is created at the same time as the host.
const endPeriod = time.Minute

// errAllEnded ends the host when no function has worked for endPeriod.
var errAllEnded = errors.New("all functions have ended")

// runWithRetries runs the function until ctx ends. If an error ends the function,
// it waits and tries again, unless no function of the host has hope: then it ends
// the host.
func (r *functionRunner) runWithRetries(ctx context.Context, endHost context.CancelCauseFunc, anyHope func() bool) (err error) {
	r.refusals.clear()
	r.endIfHopeless = func() {
		if !anyHope() {
			endHost(errAllEnded)
		}
	}
	defer func() { r.forgetRun(err) }()
	for failures := 1; ; failures++ {
		began := r.beginAttempt()
		err := r.runContinuously(ctx)
		if err == nil || ctx.Err() != nil {
			return r.endedByHost(ctx)
		}
		var stuck *stuckCallsError
		if errors.As(err, &stuck) {
			endHost(err)
			return err
		}
		if time.Since(began) >= endPeriod {
			failures = 1
		}
		r.setEnded(err)
		if !anyHope() {
			endHost(errAllEnded)
			return r.endedByHost(ctx)
		}
		r.log.Error("function ended by an error, trying again later", slog.Any("error", err), slog.Int("failures", failures))
		wait := backoff.Wait(failures, time.Second, endPeriod, r.host.options.Owner, r.function.Name)
		if isContainerGone(err) { // it may be created again any time
			r.reopenLeases()
			wait = min(wait, r.host.options.LeaseAcquireInterval)
		}
		if remaining := r.untilHopeless(); remaining > 0 {
			wait = min(wait, remaining)
		}
		if backoff.Sleep(ctx, wait) != nil {
			return r.endedByHost(ctx)
		}
	}
}

// forgetRun removes the state of a run that has ended from the status: this host holds no
// lease, and lists none. After an orderly stop there is no problem either.
func (r *functionRunner) forgetRun(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pausedRanges, r.unreadable, r.freeRanges, r.heldLeaseCount, r.stepBegan = nil, nil, nil, 0, time.Time{}
	if err == nil {
		r.functionProblem, r.endedErr = nil, nil
		clear(r.coolingRanges)
		r.refusals.clear()
	}
}

func (r *functionRunner) beginAttempt() (began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attemptBegan = time.Now()
	return r.attemptBegan
}

// setEnded records that an error ended the function.
func (r *functionRunner) setEnded(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endedErr == nil || time.Since(r.attemptBegan) >= endPeriod {
		r.endedSince = time.Now()
	}
	r.endedErr, r.functionProblem = err, err
}

// endedByHost returns the last error of the function if the host ended because none
// works, and nil if it was stopped. An account that refuses the credential comes first.
func (r *functionRunner) endedByHost(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errAllEnded) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.refusalError(), r.endedErr)
}

// hasHope reports whether the function has worked within endPeriod.
func (r *functionRunner) hasHope() bool {
	for i := range r.refusals.byUse {
		if r.refusals.byUse[i].Load().isLong() {
			return false
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endedErr == nil || time.Since(r.endedSince) < endPeriod
}

// untilHopeless is the time until the function has not worked for endPeriod.
func (r *functionRunner) untilHopeless() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.endedSince.Add(endPeriod))
}

// endedBy returns err, or nil if the caller's context ended.
func endedBy(caller context.Context, err error) error {
	if caller.Err() != nil {
		return nil
	}
	return err
}

// untilWorks repeats do until it succeeds, ctx ends, or repeating is useless.
func (r *functionRunner) untilWorks(ctx context.Context, step string, do func(context.Context) error) error {
	for failures := 1; ; failures++ {
		r.beginStep(step)
		err := do(ctx)
		if cause := context.Cause(ctx); cause != nil && err != nil && !isFatal(err) {
			return cause // a stop is not a problem
		}
		r.setProblem(err)
		if err == nil || isFatal(err) {
			return err
		}
		r.log.Error(step+" failed", slog.Any("error", err), slog.Int("failures", failures))
		wait := backoff.Wait(failures, backoff.Min, r.host.options.LeaseAcquireInterval, r.host.options.Owner, r.function.Name)
		if remaining := r.untilLongRefusal(); remaining > 0 {
			wait = min(wait, remaining)
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// beginStep notes that the function waits for its lease container, until setProblem is told the
// result.
func (r *functionRunner) beginStep(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step, r.stepBegan = step, time.Now()
}

// waitError says that a step of the function has taken so long that its lease container keeps it
// waiting, or is nil. mu is held.
func (r *functionRunner) waitError() error {
	if r.stepBegan.IsZero() || time.Since(r.stepBegan) < longCall {
		return nil
	}
	return fmt.Errorf("%s: waiting for an answer of the lease container %s/%s, or of the monitored one, for %s",
		r.step, r.host.leases.Database(), r.host.leases.Name(), time.Since(r.stepBegan).Round(time.Second))
}

func (r *functionRunner) setProblem(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stepBegan = time.Time{}
	if time.Since(r.attemptBegan) >= endPeriod {
		r.endedErr = nil
	}
	r.functionProblem = cmp.Or(err, r.endedErr)
}

package trigger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/schedule"
)

// Host runs functions: it owns leases and works on their ranges. Only one Run or Drain
// may be under way, and next to it neither Dispatch nor DrainRange. Any number of calls of
// these two may be under way together. Status may be called at any time.
type Host struct {
	host            *hostState
	functionRunners []*functionRunner
}

// hostState is what the functions of a host share.
type hostState struct {
	options        Options
	leases         *cosmos.Container
	incarnation    string    // the owner's name, "/", and random text: two processes may share a name
	beat           time.Time // one of the moments at which idle ranges poll; hosts that start together have others
	pageBudget     *feed.Budget
	suspectSlot    chan struct{} // capacity 1: held by the one suspected crasher that is in a call
	abandonedCalls abandonedCalls

	tasks         *schedule.Scheduler // of the work that is under way
	reads, writes *schedule.Turns     // of the feed, and of leases; neither waits for the other

	mu    sync.Mutex // guards users; no other lock is taken under it
	users int        // of tasks
}

// beginTasks opens the scheduler for work that begins. Work at the same time shares one, and the
// last end closes it.
func (p *hostState) beginTasks() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == 0 {
		p.tasks = schedule.New()
		p.reads, p.writes = schedule.NewTurns(p.tasks), schedule.NewTurns(p.tasks)
	}
	p.users++
	tasks := p.tasks
	return func() {
		p.mu.Lock()
		p.users--
		last := p.users == 0
		p.mu.Unlock()
		if last {
			tasks.Close()
		}
	}
}

// untilPoll returns the time to the next poll of an idle range, once in each period. All idle
// ranges poll together, in turn: few connections are enough, the processor's caches are warm, and
// the functions of a range share the answer.
func (p *hostState) untilPoll(period time.Duration) time.Duration {
	return period - time.Since(p.beat)%period
}

// renewalSlots is the number of moments in a renewal interval at which leases are renewed. A renewal
// costs ten request units: those of one second are not to be more than those of others.
const renewalSlots = 32

// renewalMoment returns when to renew a lease that has to be renewed by a time. Leases are renewed
// together for the same reasons.
func (p *hostState) renewalMoment(latest time.Time) time.Time {
	return latest.Add(-latest.Sub(p.beat) % (p.options.LeaseRenewInterval / renewalSlots))
}

// New makes a host that keeps its leases in one container. It does no I/O;
// settings that cannot work are refused here.
func New(leases *cosmos.Container, functions []Function, opts *Options) (*Host, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if leases == nil {
		return nil, errors.New("no lease container")
	}
	if len(functions) == 0 {
		return nil, errors.New("no functions")
	}
	leases.PinToWriteRegion(o.LeaseExpirationInterval)
	h := &Host{host: &hostState{
		options:     o,
		leases:      leases,
		incarnation: o.Owner + "/" + rand.Text()[:13],
		beat:        time.Now().Add(-backoff.Spread(time.Hour, o.Owner)),
		pageBudget:  feed.NewBudget(o.ReadAhead),
		suspectSlot: make(chan struct{}, 1),
	}}
	prefixes, names := map[string]bool{}, map[string]bool{}
	for _, f := range functions {
		f.FeedPollDelay = cmp.Or(f.FeedPollDelay, o.FeedPollDelay)
		f, err := f.complete()
		if err != nil {
			return nil, err
		}
		if names[f.Name] {
			return nil, fmt.Errorf("two functions are named %q: give each a Name of its own, and keep its leases with LeasePrefix", f.Name)
		}
		names[f.Name] = true
		key := strings.Join([]string{f.leasePrefix(), f.Container.Client().Endpoint(), f.Container.Database(), f.Container.Name()}, "/")
		if prefixes[key] {
			return nil, fmt.Errorf("two functions share the lease prefix %q on one container: give each a LeasePrefix of its own", f.leasePrefix())
		}
		prefixes[key] = true
		h.functionRunners = append(h.functionRunners, newRunner(h.host, f, leases))
	}
	return h, nil
}

// Owner is the host's name in leases.
func (h *Host) Owner() string { return h.host.options.Owner }

// Run takes its share of the leases and works on their ranges until ctx ends and
// everything it started has stopped; then it returns nil.
//
// An error that repeating does not mend ends only the function that it concerns: a
// container does not exist, or the leases belong to another kind of processor.
// Status says so, and the function is tried again with a backoff of up to a minute, or up to
// LeaseAcquireInterval if a container is missing. If the monitored container was created
// again, it is read from its beginning whatever StartFrom says, in all-versions mode from now
// on. If the lease container was, the host writes the positions that it holds into new leases.
// An account that refuses the credential is such an error, too: see [RefusedError].
// Run returns an error earlier only if all functions have been in that state for a
// minute, or if more than [Options.MaxStuck] handler calls do not return.
func (h *Host) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	return h.eachFunction(false, func(r *functionRunner) error {
		return r.runWithRetries(ctx, end, func() (others bool) {
			return slices.ContainsFunc(h.functionRunners, (*functionRunner).hasHope)
		})
	})
}

// eachFunction calls do for every function at once and waits for all. The functions share
// their reads.
func (h *Host) eachFunction(draining bool, do func(*functionRunner) error) error {
	defer h.shareReads(h.functionRunners, draining)()
	return h.eachAlone(do)
}

// eachAlone calls do for every function at once and waits for all.
func (h *Host) eachAlone(do func(*functionRunner) error) error {
	defer h.host.beginTasks()()
	errs := make([]error, len(h.functionRunners))
	var running sync.WaitGroup
	for i, r := range h.functionRunners {
		running.Go(func() {
			if err := do(r); err != nil {
				errs[i] = fmt.Errorf("function %q: %w", r.function.Name, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

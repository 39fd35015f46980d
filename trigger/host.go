package trigger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"halley/trigger/cosmos"
)

// Host runs functions: it owns leases and works on their ranges. Its methods
// may be called one at a time; Status at any time.
type Host struct {
	opts      Options
	me        identity
	started   time.Time
	functions []*function
	budget    *budget

	alone      chan struct{} // capacity 1: the one call that may end the process, see lane.turn
	stuckCalls atomic.Int64  // handler calls left behind
}

// New makes a host that keeps its leases in one container. It does no I/O;
// settings that cannot work are refused here.
func New(leases *cosmos.Container, functions []Function, opts *Options) (*Host, error) {
	o, err := withDefaults(opts)
	if err != nil {
		return nil, err
	}
	if leases == nil {
		return nil, errors.New("no lease container")
	}
	if len(functions) == 0 {
		return nil, errors.New("no functions")
	}
	h := &Host{
		opts:    o,
		me:      identity{owner: o.Owner, incarnation: o.Owner + "/" + rand.Text()[:13]},
		started: time.Now(),
		alone:   make(chan struct{}, 1),
		budget:  newBudget(o.ReadAhead),
	}
	names := map[string]bool{}
	for _, f := range functions {
		f, err := f.withDefaults()
		if err != nil {
			return nil, err
		}
		key := strings.Join([]string{f.leasePrefix(), f.Container.Client().Endpoint(), f.Container.Database(), f.Container.Name()}, "/")
		if names[key] {
			return nil, fmt.Errorf("two functions share the lease prefix %q on one container: give each a LeasePrefix of its own", f.leasePrefix())
		}
		names[key] = true
		h.functions = append(h.functions, newFunction(h, f, leases))
	}
	return h, nil
}

// Owner is the host's name in leases.
func (h *Host) Owner() string { return h.me.owner }

// Run takes its share of the leases and works on their ranges until ctx ends
// and everything it started has stopped; then it returns nil. It returns
// earlier, with an error, only where going on is useless: a container is gone,
// or leases belong to another kind of processor.
func (h *Host) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return h.each(func(f *function) error {
		err := f.run(ctx)
		if err != nil {
			cancel() // ends the others
		}
		return err
	})
}

// each runs do for every function at once and waits for all.
func (h *Host) each(do func(*function) error) error {
	errs := make([]error, len(h.functions))
	var running sync.WaitGroup
	for i, f := range h.functions {
		running.Go(func() {
			if err := do(f); err != nil {
				errs[i] = fmt.Errorf("function %q: %w", f.Name, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

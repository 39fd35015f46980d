//go:build !nodev

package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"halley/function/app/internal/hosting"
	"halley/trigger"
)

// open opens the app once for each host, with one ledger between the runtime and the
// handlers of all. Close the session after use.
func (s *session) open(ctx context.Context, log *zap.Logger) error {
	s.log = log
	for range s.options.Hosts {
		if _, err := s.addHost(ctx, log); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return nil
}

// Close closes what the handlers opened, after run.
func (s *session) Close() error {
	var errs []error
	for _, h := range s.allHosts() {
		errs = append(errs, h.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = nil
	return errors.Join(errs...)
}

// kill ends a host as the end of its process would: from now on the account hears
// nothing of it, so that its leases expire. Handler calls that run get the end of their
// context.
func (s *session) kill(h *runHost) {
	for _, level := range h.levels {
		level.SetLevel(zapcore.FatalLevel)
	}
	h.link.isCut.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.end != nil {
		h.end()
	}
}

// addHost opens a host. Its run begins with startHost.
func (s *session) addHost(ctx context.Context, log *zap.Logger) (*runHost, error) {
	s.mu.Lock()
	s.numbered++
	number := s.numbered
	s.mu.Unlock()
	copied := *s.world.settings
	copied.App.Owner += "-" + strconv.Itoa(number)
	handlerLog := cmp.Or(s.handlerLog, log)
	h := &runHost{
		link:   &hostLink{account: s.world.account},
		levels: [2]zap.AtomicLevel{zap.NewAtomicLevelAt(log.Level()), zap.NewAtomicLevelAt(handlerLog.Level())},
	}
	observe := s.at.of(copied.App.Owner)
	a, err := hosting.Open(ctx, &copied, hosting.Options{
		Grace: time.Duration(copied.App.StopGrace), Transport: h.link, Telemetry: s.world.program.Telemetry,
		Wrap: func(fn *trigger.Function) { s.observeFunction(copied.App.Owner, fn) },
		Observe: func(e trigger.Event) {
			observe(e)
			s.recorder.Observe(copied.App.Owner, e)
		},
		HandlerLog: handlerLog.WithOptions(zap.IncreaseLevel(h.levels[1])),
	}, log.WithOptions(zap.IncreaseLevel(h.levels[0])))
	if err != nil {
		return nil, err
	}
	h.App = a
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = append(s.hosts, h)
	return h, nil
}

// errRunEnds is the error of a host that is to start while the run ends.
var errRunEnds = errors.New("the run is ending: start dev again")

// startHost begins the run of a host that was not killed. If it fails later, the whole
// run ends.
func (s *session) startHost(h *runHost) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working == nil || s.working.Err() != nil {
		return errRunEnds
	}
	if h.isKilled() {
		return nil
	}
	ctx, end := context.WithCancel(s.working)
	h.end = end
	s.running.Go(func() {
		defer end()
		if err := h.Run(ctx); err != nil && !h.isKilled() {
			s.fail(fmt.Errorf("host %s: %w", h.owner(), err))
		}
	})
	return nil
}

// stopHosts stops all hosts in good order, and waits for them. None starts after it.
func (s *session) stopHosts() {
	s.mu.Lock()
	s.fail(nil)
	s.mu.Unlock()
	s.running.Wait()
}

// allHosts returns the hosts, killed ones included.
func (s *session) allHosts() []*runHost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.hosts)
}

// liveHosts returns the hosts that were not killed.
func (s *session) liveHosts() []*runHost {
	return slices.DeleteFunc(s.allHosts(), (*runHost).isKilled)
}

// opened returns a function of a host that was not killed.
func (s *session) opened(name string) (trigger.Function, error) {
	for _, h := range s.liveHosts() {
		if fn, ok := h.Opened[name]; ok {
			return fn, nil
		}
	}
	return trigger.Function{}, fmt.Errorf("no host runs function %s: start one", name)
}

package functions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger"
)

const (
	firstRestart = time.Second      // pause after the first failure; doubles
	lastRestart  = time.Minute      // longest pause
	stableRun    = 30 * time.Second // a run of this length has recovered
)

// continuous keeps the runtime running in the background of a custom handler. A
// timer invocation is then only a health check.
type continuous struct {
	run    func(context.Context) error // returns nil only when its context has ended
	health func() ([]string, error)    // of the current run
	log    *zap.Logger

	logMetrics func(*zap.Logger, *trigger.Summary) // at each health check; may be nil

	// leftover reports whether this process still holds handler calls that ignore
	// their context. replace requests another process; it gets the settings as they are
	// then.
	leftover func() bool
	replace  func()

	mu      sync.Mutex
	failure error     // of the last run
	since   time.Time // start of the current run; zero while waiting for a restart
}

// Run runs until ctx ends and the runtime has stopped. If a run fails it is
// restarted after a pause with jitter, which doubles until a run is stable. If the
// failed run left handler calls behind, or an account refuses the credential, Run requests
// another process and returns.
func (c *continuous) Run(ctx context.Context) {
	pause := firstRestart
	for {
		began := time.Now()
		err := c.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		var refused *trigger.RefusedError
		if errors.As(err, &refused) {
			c.log.Error("an account refuses the credential of this process; replacing the process", zap.Error(err))
			c.replace()
			return
		}
		if c.leftover() {
			c.log.Error("runtime failed and left handler calls behind; replacing the process", zap.Error(err))
			c.replace()
			return
		}
		if time.Since(began) >= stableRun {
			pause = firstRestart
		}
		wait := pause/2 + rand.N(pause/2)
		c.log.Error("runtime failed, restarting later", zap.Error(err), zap.Duration("restart_in", wait))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		pause = min(2*pause, lastRestart)
	}
}

// attempt runs once and records the failure for the health check.
func (c *continuous) attempt(ctx context.Context) (err error) {
	c.set(func() { c.since = time.Now() })
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the runtime panicked: %v\n%s", v, debug.Stack())
		}
		c.set(func() { c.failure, c.since = err, time.Time{} })
	}()
	if err := c.run(ctx); err != nil {
		return err
	}
	return errors.New("the runtime ended by itself")
}

func (c *continuous) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// tick is the health check. After a failed run it fails until a later run is stable;
// it also fails if a function makes no progress.
func (c *continuous) tick(_ context.Context, _ invocation, log *zap.Logger) ([]string, error) {
	if c.logMetrics != nil {
		c.logMetrics(log, nil)
	}
	if err := c.failed(); err != nil {
		return nil, err
	}
	return c.health()
}

func (c *continuous) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := !c.since.IsZero()
	switch {
	case c.failure == nil:
		return nil
	case running && time.Since(c.since) >= stableRun:
		return nil
	case running:
		return fmt.Errorf("the runtime was restarted %v ago: %w", time.Since(c.since).Round(time.Second), c.failure)
	}
	return fmt.Errorf("the runtime waits for a restart: %w", c.failure)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	firstRestart = time.Second      // pause after the first failure; doubles
	lastRestart  = time.Minute      // longest pause
	stableRun    = 30 * time.Second // a run of this length has recovered
)

// continuous keeps the runtime running in the background of a custom handler,
// where a tick is only a health check.
type continuous struct {
	run    func(context.Context) error // until its context ends; nil only then
	health func() ([]string, error)    // of a run that is under way
	log    *zap.Logger

	// leftover reports whether handler calls that nothing can end are still in
	// this process, and replace asks for another process.
	leftover func() bool
	replace  func()

	mu      sync.Mutex
	failure error     // of the last run
	since   time.Time // start of the run that is under way; zero: waiting for a restart
}

// Run runs until ctx ends and the runtime has stopped. A run that fails is
// begun again after a pause with jitter, which doubles until a run lasts; but
// where it left handler calls behind, it asks for another process and returns.
func (c *continuous) Run(ctx context.Context) {
	pause := firstRestart
	for {
		began := time.Now()
		err := c.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.leftover() {
			c.log.Error("the runtime failed and left handler calls behind; the process is replaced", zap.Error(err))
			c.replace()
			return
		}
		if time.Since(began) >= stableRun {
			pause = firstRestart
		}
		wait := pause/2 + rand.N(pause/2)
		c.log.Error("the runtime failed", zap.Error(err), zap.Duration("restart_in", wait))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		pause = min(2*pause, lastRestart)
	}
}

// attempt is one run; its failure stays on record for the health check.
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

// tick is the health check: it fails from a failure on until a later run has
// lasted, and while a function makes no progress.
func (c *continuous) tick(context.Context, invocation, *zap.Logger) ([]string, error) {
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

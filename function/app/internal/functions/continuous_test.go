package functions

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"halley/trigger"
)

// keep starts c and returns a function that stops it and waits.
func keep(t *testing.T, c *continuous) (stop func()) {
	c.log = zap.NewNop()
	if c.leftover == nil {
		c.leftover = func() bool { return false }
	}
	if c.health == nil {
		c.health = func() ([]string, error) { return []string{"4 ranges"}, nil }
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	synctest.Wait()
	return func() { cancel(); <-done }
}

func healthy(t *testing.T, c *continuous) bool {
	t.Helper()
	synctest.Wait()
	logs, err := c.tick(t.Context(), invocation{}, zap.NewNop())
	if err == nil && (len(logs) != 1 || logs[0] != "4 ranges") {
		t.Errorf("a healthy tick says %q, want the status", logs)
	}
	return err == nil
}

func TestContinuousIsHealthyWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &continuous{run: func(ctx context.Context) error { <-ctx.Done(); return nil }}
		stop := keep(t, c)
		if !healthy(t, c) {
			t.Error("unhealthy at the start")
		}
		time.Sleep(time.Hour)
		if !healthy(t, c) {
			t.Error("unhealthy after an hour")
		}
		stop()
	})
}

func TestContinuousRestartsAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		c := &continuous{run: func(ctx context.Context) error {
			runs++
			if runs <= 3 {
				return errors.New("lease container not found")
			}
			<-ctx.Done()
			return nil
		}}
		stop := keep(t, c)
		if healthy(t, c) {
			t.Error("healthy while waiting for a restart")
		}
		time.Sleep(firstRestart + 2*firstRestart + 4*firstRestart)
		if synctest.Wait(); runs != 4 {
			t.Fatalf("%d runs, want 4", runs)
		}
		if healthy(t, c) {
			t.Error("healthy at once after three failures")
		}
		time.Sleep(stableRun)
		if !healthy(t, c) {
			t.Error("still unhealthy after a run that lasted")
		}
		stop()
	})
}

func TestContinuousSurvivesPanicsAndEarlyEnds(t *testing.T) {
	for name, end := range map[string]func() error{
		"panic":     func() error { panic("boom") },
		"early end": func() error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				c := &continuous{run: func(context.Context) error { runs++; return end() }}
				stop := keep(t, c)
				time.Sleep(5 * time.Minute)
				if healthy(t, c) {
					t.Error("healthy although every run fails")
				}
				if runs < 5 || runs > 30 {
					t.Errorf("%d runs in five minutes, want a pause that grows to %v", runs, lastRestart)
				}
				stop()
			})
		})
	}
}

func TestContinuousWaitsForTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := false
		c := &continuous{run: func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(5 * time.Second)
			released = true
			return nil
		}}
		stop := keep(t, c)
		stop()
		if !released {
			t.Error("stopped before the leases were released")
		}
	})
}

func TestContinuousIsUnhealthyWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &continuous{
			run:    func(ctx context.Context) error { <-ctx.Done(); return nil },
			health: func() ([]string, error) { return nil, errors.New("lease container unreachable") },
		}
		stop := keep(t, c)
		if healthy(t, c) {
			t.Error("healthy although no function makes progress")
		}
		stop()
	})
}

// TestContinuousAsksForAnotherProcess: a run that fails with handlers left
// behind is not begun again among them.
func TestContinuousAsksForAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, asked := 0, 0
		c := &continuous{
			run:      func(context.Context) error { runs++; return errors.New("handler has not returned") },
			leftover: func() bool { return runs == 2 },
			replace:  func() { asked++ },
		}
		stop := keep(t, c)
		time.Sleep(time.Minute)
		if synctest.Wait(); runs != 2 || asked != 1 {
			t.Errorf("%d runs, asked %d times, want 2 and once", runs, asked)
		}
		if healthy(t, c) {
			t.Error("healthy while the process is being replaced")
		}
		stop()
	})
}

// A restart in the same process would have the same credential.
func TestContinuousReplacesProcessIfRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, asked := 0, 0
		c := &continuous{
			run: func(context.Context) error {
				runs++
				return errors.Join(errors.New("function"), &trigger.RefusedError{Err: errors.New("401")})
			},
			replace: func() { asked++ },
		}
		stop := keep(t, c)
		time.Sleep(5 * time.Minute)
		if synctest.Wait(); runs != 1 || asked != 1 {
			t.Errorf("%d runs, asked %d times, want once", runs, asked)
		}
		stop()
	})
}

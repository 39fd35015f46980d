package triggertest

import (
	"context"
	"slices"
	"testing"
)

// scope is the test of one run: its cleanup functions are called at the end of the
// run. The goroutine of the test uses it.
type scope struct {
	testing.TB
	ctx      context.Context
	cancel   context.CancelFunc
	cleanups []func()
}

func newScope(t testing.TB) *scope {
	s := &scope{TB: t}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	return s
}

// Cleanup has f called at the end of the run, before functions that were given earlier.
func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Context returns a context that ends just before the cleanup functions are called.
func (s *scope) Context() context.Context { return s.ctx }

func (s *scope) end() {
	s.cancel()
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
	s.cleanups = nil
}

package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// reporter is the test of a run of the command test. It has the methods that
// [triggertest.Converges] calls; the others of its nil TB panic. mu guards failures.
type reporter struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	failures []string
}

func (r *reporter) Helper() {}

func (r *reporter) Context() context.Context { return r.ctx }

func (r *reporter) Failed() bool { return r.failure() != "" }

func (r *reporter) Error(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

func (r *reporter) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }

func (r *reporter) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *reporter) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func (r *reporter) failure() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.failures, "\n")
}

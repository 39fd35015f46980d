package delivery

import (
	"context"
	"time"
)

// These calls are the same in all tests of a testRange.

func (r *testRange) WaitRate(ctx context.Context, _, _ int) error { return context.Cause(ctx) }
func (r *testRange) WaitTrusted(ctx context.Context) error        { return context.Cause(ctx) }
func (r *testRange) ConfirmOwnership(ctx context.Context) error {
	time.Sleep(10 * time.Millisecond)
	return context.Cause(ctx)
}
func (r *testRange) WriteSoon()                                 {}
func (r *testRange) MadeProgress()                              {}
func (r *testRange) Postponed(int, *Item, DeadLetter)           {}
func (r *testRange) ReportProblem(int, error)                   {}
func (r *testRange) PlanRetry(int, []*Item, int, time.Duration) {}
func (r *testRange) ServiceNow() time.Time                      { return time.Now() }

func (r *testRange) ChargeBytes(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.charged += n
}

func (r *testRange) CountFiltered(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.filtered += n
}

// testStore takes every dead letter, and holds each key.
type testStore struct{}

func (testStore) Put(context.Context, *Item, DeadLetter) error                   { return nil }
func (testStore) Holds(context.Context, string) (bool, error)                    { return true, nil }
func (testStore) List(context.Context) (*BlockedKeys, error)                     { return &BlockedKeys{}, nil }
func (testStore) Keeps() bool                                                    { return false }
func (testStore) Owns(string) bool                                               { return true }
func (testStore) LoadKey(context.Context, string, func(StoredChange) bool) error { return nil }
func (testStore) Delete(context.Context, *StoredChange) error                    { return nil }

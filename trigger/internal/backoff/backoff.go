// Package backoff computes the waits between attempts of an operation that
// failed for the moment, and spreads actors that would act in one moment.
package backoff

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// Defaults of the first and the longest wait.
const (
	Min = 100 * time.Millisecond
	Max = 30 * time.Second
)

// Wait returns the wait after n >= 1 failures in a row: it doubles from first
// up to limit, and its upper half is jitter. The jitter is a hash of n and the
// key, so hosts and ranges spread out, and a simulated run can be repeated.
func Wait(n int, first, limit time.Duration, key ...any) time.Duration {
	ceiling := limit
	if n < 30 && first < limit>>(n-1) { // shifting first to the left could overflow
		ceiling = first << (n - 1)
	}
	return jitter(ceiling, n, key)
}

// Spread returns a time between half of limit and limit, a hash of the key: actors with
// different keys that would act in one moment get an order, and a simulated run can be
// repeated.
func Spread(limit time.Duration, key ...any) time.Duration { return jitter(limit, 1, key) }

func jitter(ceiling time.Duration, n int, key []any) time.Duration {
	h := fnv.New32a()
	fmt.Fprint(h, n, key)
	share := float64(h.Sum32()) / math.MaxUint32
	return ceiling/2 + time.Duration(share*float64(ceiling/2))
}

// Sleep waits for d. If ctx ends first, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

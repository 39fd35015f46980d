package trigger

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/stall"
)

func testCaller(lane int) limitCaller {
	return limitCaller{token: "0", lane: lane, log: slog.New(slog.DiscardHandler)}
}

// spendAll spends costs one after the other and returns when each may be spent, in
// seconds from the start.
func spendAll(t *testing.T, b *limiter, costs ...float64) (times []float64) {
	began := time.Now()
	for _, cost := range costs {
		if _, err := b.spend(t.Context(), cost, testCaller(0)); err != nil {
			t.Fatal(err)
		}
		times = append(times, math.Round(time.Since(began).Seconds()*100)/100)
	}
	return times
}

func TestLimiterPaysForWhatIsLargerThanTheBucketAfterwards(t *testing.T) {
	for _, test := range []struct {
		name      string
		perSecond float64
		costs     []float64
		at        []float64
	}{
		{"a second's worth comes at once", 10, []float64{4, 6, 1, 1}, []float64{0, 0, 0.1, 0.2}},
		{"larger than the bucket", 10, []float64{100, 1, 10}, []float64{0, 9.1, 10.1}},
		{"larger than what is left", 10, []float64{5, 100, 1}, []float64{0, 0.5, 9.6}},
		{"less than one a second", 0.1, []float64{1, 1, 2}, []float64{0, 10, 20}},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := spendAll(t, newLimiter(stall.RateLimited, test.perSecond, "changes"), test.costs...); !slices.Equal(got, test.at) {
				t.Errorf("%s: spent at %v, want %v", test.name, got, test.at)
			}
		})
	}
}

// Callers that ask at one moment are served in turn: none is served often before another.
func TestLimiterServesItsCallersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, perSecond, batch = 20, 10, 5
		b := newLimiter(stall.RateLimited, perSecond, "changes")
		var mu sync.Mutex
		var served [callers]int
		var working sync.WaitGroup
		began := time.Now()
		for lane := range callers {
			working.Go(func() {
				for range 10 { // calls
					if _, err := b.spend(t.Context(), batch, testCaller(lane)); err != nil {
						t.Error(err)
					}
					mu.Lock()
					served[lane]++
					if all := served[:]; slices.Max(all)-slices.Min(all) > 2 {
						t.Errorf("served %v times", all)
					}
					mu.Unlock()
				}
			})
		}
		working.Wait()
		least := (callers*10*batch - perSecond) * time.Second / perSecond
		if took := time.Since(began); took < least || took > least+time.Second {
			t.Errorf("%d changes took %v, want %v", callers*10*batch, took, least)
		}
	})
}

// A caller that gives up returns at once with the cause, and its tokens are not lost.
func TestLimiterReturnsWhatIsNotSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLimiter(stall.RateLimited, 1, "changes")
		spendAll(t, b, 1)
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second/2, func() { stop(errHandedOver) })
		began := time.Now()
		if _, err := b.spend(ctx, 1000, testCaller(1)); !errors.Is(err, errHandedOver) || time.Since(began) != time.Second/2 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if times := spendAll(t, b, 1); times[0] != 0.5 {
			t.Errorf("the next caller waits %v s, want 0.5", times[0])
		}
	})
}

// The charge of a read is paid before the next one, also if other ranges read meanwhile.
func TestLimiterPaysChargesOfReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLimiter(stall.ReadsLimited, 10, "request units")
		began := time.Now()
		first, err := b.spendRead(t.Context(), testCaller(0))
		must(t, err)
		second, err := b.spendRead(t.Context(), testCaller(1))
		must(t, err)
		if time.Since(began) > time.Millisecond {
			t.Errorf("the first reads waited %v", time.Since(began))
		}
		first(50)
		second(30)
		third, err := b.spendRead(t.Context(), testCaller(0))
		must(t, err)
		if took := time.Since(began).Round(10 * time.Millisecond); took != 8*time.Second { // the reads cost 80, of which a full bucket paid 10, and it must be full again
			t.Errorf("the third read waited %v, want 8s", took)
		}
		third(1)
	})
}

func TestHugeDebtDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLimiter(stall.RateLimited, 1e-300, "changes")
		b.reserve(1)
		if _, wait, _ := b.reserve(1); wait < longestWait {
			t.Errorf("waits %v", wait)
		}
	})
}

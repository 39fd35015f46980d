package migrate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
)

func TestBudgetBoundsRequestUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began := newBudget(100, nil), time.Now()
		for range 50 {
			if err := b.send(t.Context(), func(context.Context) (float64, error) { return 20, nil }); err != nil {
				t.Fatal(err)
			}
		}
		// 1,000 units at 100 a second, of which those of the first second are there at the
		// beginning and those of the last request are owed.
		if took := time.Since(began); took < 8*time.Second || took > 10*time.Second {
			t.Errorf("1000 units took %v", took)
		}
		if units, _ := b.used(); units != 1000 {
			t.Errorf("%v units used", units)
		}
	})
}

func TestBudgetWaitsAsLongAsTheServiceAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began, calls := newBudget(0, nil), time.Now(), 0
		err := b.send(t.Context(), func(context.Context) (float64, error) {
			if calls++; calls <= 2 {
				return 0, &cosmos.Error{Status: 429, RetryAfter: 3 * time.Second}
			}
			return 1, nil
		})
		if took := time.Since(began); err != nil || calls != 3 || took != 6*time.Second {
			t.Errorf("%d calls in %v: %v", calls, took, err)
		}
		if _, throttled := b.used(); throttled != 2 {
			t.Errorf("%d throttled", throttled)
		}
	})
}

func TestBudgetEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := newBudget(0, nil).send(ctx, func(context.Context) (float64, error) {
			return 0, &cosmos.Error{Status: 429, RetryAfter: time.Minute}
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestUnavailableTargetIsNotThrottling(t *testing.T) {
	b, calls := newBudget(0, nil), 0
	err := b.send(t.Context(), func(context.Context) (float64, error) {
		calls++
		return 0, &cosmos.Error{Status: 503}
	})
	if status, _ := cosmos.Status(err); status != 503 || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

package migrate

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"halley/handlers"
	"halley/trigger/cosmos"
)

// budget bounds the request units per second of one process. A request leaves when the
// balance is above 0, and its charge is subtracted when its answer has arrived, so that
// the requests under way may overdraw it.
type budget struct {
	rate  float64 // per second; 0 is no bound
	meter *handlers.Meter

	mu      sync.Mutex // guards the fields below
	balance float64
	at      time.Time // of the balance
	until   time.Time // the service asked for a pause until then
	spent   float64
	waited  int // requests that the service throttled
}

func newBudget(rate float64, meter *handlers.Meter) *budget {
	return &budget{rate: rate, meter: meter, balance: rate, at: time.Now()}
}

// smallestPause is the wait after a throttled request if the service names none.
const smallestPause = 100 * time.Millisecond

// errorCharge is counted for a request that failed: the client does not report its charge.
const errorCharge = 1

// send sends a request when the budget allows it, and again after each throttling (429,
// 449), for which all requests of the process pause as long as the service asks. request
// returns the charge of its answer.
func (b *budget) send(ctx context.Context, request func(context.Context) (charge float64, err error)) error {
	ctx = cosmos.WithoutThrottleRetries(ctx)
	for {
		if err := b.wait(ctx); err != nil {
			return err
		}
		began := time.Now()
		charge, err := request(ctx)
		b.meter.Ended(began, err)
		if err != nil {
			charge = errorCharge
		}
		throttled, pause := cosmos.IsThrottled(err)
		if status, _ := cosmos.Status(err); status == http.StatusServiceUnavailable {
			throttled = false // the target is down: the caller's call fails
		}
		b.settle(charge, throttled, pause)
		if !throttled {
			return err
		}
		b.meter.Retried()
	}
}

// settle subtracts a charge, and notes a pause.
func (b *budget) settle(charge float64, throttled bool, pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	b.balance -= charge
	b.spent += charge
	if throttled {
		b.waited++
		if pauseEnd := time.Now().Add(max(pause, smallestPause)); pauseEnd.After(b.until) {
			b.until = pauseEnd
		}
	}
}

// wait returns when a request may leave.
func (b *budget) wait(ctx context.Context) error {
	for {
		d := b.delay()
		if d <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("waiting for request units: %w", context.Cause(ctx))
		}
	}
}

// delay returns how long no request may leave.
func (b *budget) delay() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.refill(now)
	d := b.until.Sub(now)
	if b.rate > 0 && b.balance <= 0 {
		d = max(d, time.Duration((1-b.balance)/b.rate*float64(time.Second)))
	}
	return d
}

// refill adds the units of the time that has passed, up to those of a second.
func (b *budget) refill(now time.Time) {
	b.balance = min(b.balance+now.Sub(b.at).Seconds()*b.rate, b.rate)
	b.at = now
}

// used returns the units spent so far, and the requests that were throttled.
func (b *budget) used() (units float64, throttled int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent, b.waited
}

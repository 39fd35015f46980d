package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/delivery"
	"halley/trigger/stall"
)

// errHeldBack is in the error of a drain that has ended while a range waited for a limit
// before its first read.
var errHeldBack = errors.New("held back by a limit of the function")

// limiter bounds what all ranges of a function spend together on this host: changes
// that the handler gets, or request units of feed reads. It is a token bucket that
// holds a second's worth, and one token at least. Each caller is promised the tokens
// that come after those promised before it, so no range starves. A cost beyond the
// bucket waits until the bucket is full and overdraws it; the callers after it wait
// until that is paid.
//
// mu guards the fields below it, and no other lock is taken under it.
type limiter struct {
	kind      stall.Kind // of a range that waits
	unit      string     // in texts
	perSecond float64

	mu       sync.Mutex
	tokens   float64   // at that time; below 0 they are promised or overdrawn
	at       time.Time // local clock
	lastRead float64   // charge of the last feed read, which the next one is expected to cost
	logged   time.Time // when the log last told of a wait
	absurd   bool      // the log has told of a charge that cannot be
}

// newLimiter returns a limiter with a full bucket, or nil if perSecond is 0.
func newLimiter(kind stall.Kind, perSecond float64, unit string) *limiter {
	if perSecond == 0 {
		return nil
	}
	b := &limiter{kind: kind, unit: unit, perSecond: perSecond, at: time.Now(), lastRead: 1}
	b.tokens = b.size()
	return b
}

// size returns the tokens of a full bucket.
func (b *limiter) size() float64 { return max(b.perSecond, 1) }

// longestWait bounds the wait for one cost: seconds beyond it do not fit a Duration.
const longestWait = 365 * 24 * time.Hour

// reserve promises tokens to a caller, which may spend them after the wait. A cost of 0 is
// that of the last feed read. isNews says that the log is to tell of the wait: once a minute
// for the function.
func (b *limiter) reserve(cost float64) (reserved float64, wait time.Duration, isNews bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cost == 0 {
		cost = b.lastRead
	}
	now := time.Now()
	b.tokens = min(b.tokens+now.Sub(b.at).Seconds()*b.perSecond, b.size())
	b.at = now
	missing := min(cost, b.size()) - b.tokens
	b.tokens -= cost
	if missing <= 0 {
		return cost, 0, false
	}
	if isNews = now.Sub(b.logged) >= time.Minute; isNews {
		b.logged = now
	}
	seconds := min(missing/b.perSecond, longestWait.Seconds())
	return cost, time.Duration(seconds*float64(time.Second)) + 1, isNews // rounded up
}

// refund gives tokens back that were promised and not spent.
func (b *limiter) refund(tokens float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens += tokens
}

// settle replaces the tokens that were reserved for a feed read by its charge.
func (b *limiter) settle(reserved, charge float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens += reserved - charge
	b.lastRead = charge
}

// largestCharge is more request units than a read of a page can cost.
const largestCharge = 1e6

// isCharge reports whether a charge can be, and whether the log is to tell of one that
// cannot: once for the function.
func (b *limiter) isCharge(units float64) (ok, isNews bool) {
	if units >= 0 && units <= largestCharge { // NaN is not
		return true, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	isNews, b.absurd = !b.absurd, true
	return false, isNews
}

// describe returns the limit in words.
func (b *limiter) describe() string {
	return fmt.Sprintf("at most %g %s a second for the function on this host", b.perSecond, b.unit)
}

// limitCaller is a lane, or a reader (delivery.AllLanes), that spends tokens.
type limitCaller struct {
	token string // of the range
	lane  int
	log   *slog.Logger
	stats *rangeStats // tells of waits; nil before the lease is held
}

// spread bounds the time by which callers that ask at one moment are apart.
const spread = 64 * time.Microsecond

// spend waits until the caller may spend the cost, as reserve takes it. If ctx ends first,
// nothing is spent, and spend returns the cause.
func (b *limiter) spend(ctx context.Context, cost float64, c limitCaller) (spent float64, err error) {
	// Ranges and lanes that ask at one moment get an order, so that a simulated run repeats.
	if err := backoff.Sleep(ctx, backoff.Spread(spread, c.token, c.lane)); err != nil {
		return 0, err
	}
	reserved, wait, isNews := b.reserve(cost)
	if wait == 0 {
		return reserved, nil
	}
	if isNews {
		c.log.Info(errHeldBack.Error(), slog.String("cause", string(b.kind)), slog.String("limit", b.describe()), slog.Duration("wait", wait))
	}
	if c.stats != nil {
		c.stats.beginLimitWait(c.lane, stall.Stall{Kind: b.kind, Text: b.describe()}, wait)
	}
	if err := backoff.Sleep(ctx, wait); err != nil {
		b.refund(reserved)
		return 0, err
	}
	if c.stats != nil {
		c.stats.endLimitWait(c.lane)
	}
	return reserved, nil
}

// spendRead is spend for a feed read, whose cost is known afterwards: charged is told it. A
// read that fails, or with a charge that cannot be, counts like the one before it.
func (b *limiter) spendRead(ctx context.Context, c limitCaller) (charged func(units float64), err error) {
	reserved, err := b.spend(ctx, 0, c)
	return func(units float64) {
		ok, isNews := b.isCharge(units)
		if isNews {
			c.log.Warn("request charge ignored: the read counts like the one before it", slog.Float64("charge", units), slog.Float64("counted", reserved))
		}
		if ok {
			b.settle(reserved, units)
		}
	}, err
}

func (w *rangeWorker) limitCaller(lane int) limitCaller {
	return limitCaller{token: w.held.Lease().Token(), lane: lane, log: w.log, stats: w.rangeStats}
}

// WaitRate waits until the function's rate allows a call with these changes.
func (w *rangeWorker) WaitRate(ctx context.Context, lane, changes int) error {
	if w.rateLimit == nil {
		return nil
	}
	_, err := w.rateLimit.spend(ctx, float64(changes), w.limitCaller(lane))
	return err
}

// payRead waits until the function may spend request units on a read of the feed.
func (w *rangeWorker) payRead(ctx context.Context) (charged func(units float64), err error) {
	if w.readLimit == nil {
		return func(float64) {}, nil
	}
	return w.readLimit.spendRead(ctx, w.limitCaller(delivery.AllLanes))
}

// payPeek is payRead for a range whose lease is not held.
func (r *functionRunner) payPeek(ctx context.Context, token string) (charged func(units float64), err error) {
	if r.readLimit == nil {
		return func(float64) {}, nil
	}
	charged, err = r.readLimit.spendRead(ctx, limitCaller{token: token, lane: delivery.AllLanes, log: r.log.With(slog.String("range", token))})
	if err != nil {
		err = fmt.Errorf("%w (%s): %w", errHeldBack, r.readLimit.describe(), err)
	}
	return charged, err
}

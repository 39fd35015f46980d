package trigger

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"time"

	"halley/trigger/internal/backoff"
)

const (
	// shortestPoll is the default of Function.FeedPollMin: a busy range is served promptly.
	shortestPoll = 5 * time.Millisecond

	// checkpointInterval is the default of [Checkpoint].Interval.
	checkpointInterval = 200 * time.Millisecond
)

// WithDefaults returns the function with defaults in place of zero fields. An
// idle range is polled as the host's options say unless FeedPollDelay is set.
func (f Function) WithDefaults() Function {
	f.LeasePrefix = cmp.Or(f.LeasePrefix, f.Name)
	f.MaxItemsPerInvocation = cmp.Or(f.MaxItemsPerInvocation, 100)
	f.HandlerTimeout = cmp.Or(f.HandlerTimeout, 5*time.Minute)
	f.BatchBytes = cmp.Or(f.BatchBytes, 4<<20)
	f.Lanes = cmp.Or(f.Lanes, 1)
	f.MaxAhead = cmp.Or(f.MaxAhead, 1000)
	f.RetryMin = cmp.Or(f.RetryMin, backoff.Min)
	f.RetryMax = cmp.Or(f.RetryMax, max(backoff.Max, f.RetryMin))
	if f.DeadLetters == nil {
		f.MaxAttempts = cmp.Or(f.MaxAttempts, -1)
	}
	f.MaxAttempts = cmp.Or(f.MaxAttempts, 10)
	f.BreakerLimit = cmp.Or(f.BreakerLimit, 10)
	f.BreakerPause = cmp.Or(f.BreakerPause, time.Minute)
	f.StallAfter = cmp.Or(f.StallAfter, time.Minute)
	f.LostPosition = cmp.Or(f.LostPosition, lostPositionStall)
	if f.FeedPollMin == 0 {
		f.FeedPollMin = shortestPoll
		if f.FeedPollDelay > 0 {
			f.FeedPollMin = min(shortestPoll, f.FeedPollDelay)
		}
	}
	f.Checkpoint = f.Checkpoint.withDefaults()
	return f
}

// WithDefaults returns the options with defaults in place of zero fields, except
// for Owner and Logger, which [New] makes.
func (o Options) WithDefaults() Options {
	o.FeedPollDelay = cmp.Or(o.FeedPollDelay, 5*time.Second)
	o.LeaseAcquireInterval = cmp.Or(o.LeaseAcquireInterval, 13*time.Second)
	o.LeaseRenewInterval = cmp.Or(o.LeaseRenewInterval, 17*time.Second)
	o.LeaseExpirationInterval = cmp.Or(o.LeaseExpirationInterval, time.Minute)
	o.AuditInterval = cmp.Or(o.AuditInterval, 5*time.Minute)
	o.StopGrace = cmp.Or(o.StopGrace, 10*time.Second)
	o.StuckGrace = cmp.Or(o.StuckGrace, 10*time.Second)
	o.MaxStuck = cmp.Or(o.MaxStuck, 16)
	o.ReadAhead = cmp.Or(o.ReadAhead, 64<<20)
	o.Parallel = cmp.Or(o.Parallel, 32)
	return o
}

func (c Checkpoint) withDefaults() Checkpoint {
	if c == (Checkpoint{}) {
		c.Interval = checkpointInterval
	}
	return c
}

// complete returns valid options with all defaults, those of [New] as well.
func (o Options) complete() (Options, error) {
	if err := problems(o.Validate()).err("options"); err != nil {
		return o, err
	}
	o = o.WithDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Owner == "" {
		name, _ := os.Hostname()
		o.Owner = name + "-" + rand.Text()[:8]
	}
	return o, nil
}

// complete returns a valid function with its defaults.
func (f Function) complete() (Function, error) {
	return f.WithDefaults(), problems(f.Validate()).err(fmt.Sprintf("function %q", f.Name))
}

package trigger

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

// shortestLeaseInterval bounds the lease intervals from below: with less, one
// pause of the garbage collector or one slow request costs the lease.
const shortestLeaseInterval = 100 * time.Millisecond

// Problem is a field of a [Function] or of [Options] that cannot work.
type Problem struct {
	Field  string // its Go name; a dot leads into a nested struct, as in "Checkpoint.Every"
	Value  any    // the value that holds, which may be a default
	Reason string // the rule and the fix; other fields have their Go names
}

func (p Problem) String() string {
	switch p.Value {
	case nil:
		return p.Field + ": " + p.Reason
	case "":
		return fmt.Sprintf("%s=%q: %s", p.Field, p.Value, p.Reason)
	}
	return fmt.Sprintf("%s=%v: %s", p.Field, p.Value, p.Reason)
}

// problems collects the problems of one value.
type problems []Problem

func (p *problems) add(field string, value any, reason string, args ...any) {
	*p = append(*p, Problem{field, value, fmt.Sprintf(reason, args...)})
}

// field is a number with its name.
type field[N int | int64 | time.Duration] struct {
	name  string
	value N
}

const (
	positive    = "must be above 0" // used if 0 stands for the default
	nonNegative = "must not be negative"
)

func refuseNegative[N int | int64 | time.Duration](p *problems, reason string, fields ...field[N]) {
	for _, f := range fields {
		if f.value < 0 {
			p.add(f.name, f.value, "%s", reason)
		}
	}
}

// longestDuration bounds every setting of time: sums with larger ones could overflow, and
// a lease would look free, or an attempt due.
const longestDuration = 365 * 24 * time.Hour

func refuseTooLong(p *problems, fields ...field[time.Duration]) {
	for _, f := range fields {
		if f.value > longestDuration {
			p.add(f.name, f.value, "must not be more than a year (%v)", longestDuration)
		}
	}
}

// err joins the problems of the value that the text names.
func (p problems) err(subject string) error {
	errs := make([]error, len(p))
	for i, problem := range p {
		errs[i] = fmt.Errorf("%s: %s", subject, problem)
	}
	return errors.Join(errs...)
}

// Validate returns the problems of the function, with its defaults filled in. If
// there are any, [New] refuses the function.
func (f Function) Validate() []Problem {
	var p problems
	f = f.WithDefaults()
	f.validateSource(&p)
	f.validateDelivery(&p)
	f.validateGivingUp(&p)
	refuseTooLong(&p, field[time.Duration]{"FeedPollDelay", f.FeedPollDelay}, field[time.Duration]{"FeedPollMin", f.FeedPollMin},
		field[time.Duration]{"HandlerTimeout", f.HandlerTimeout}, field[time.Duration]{"BatchWindow", f.BatchWindow},
		field[time.Duration]{"RetryMin", f.RetryMin}, field[time.Duration]{"RetryMax", f.RetryMax}, field[time.Duration]{"RetryMaxAge", f.RetryMaxAge},
		field[time.Duration]{"BreakerPause", f.BreakerPause}, field[time.Duration]{"StallAfter", f.StallAfter},
		field[time.Duration]{"Checkpoint.Interval", f.Checkpoint.Interval})
	return p
}

// validateSource checks the names, the monitored container and the start.
func (f Function) validateSource(p *problems) {
	if f.Name == "" {
		p.add("Name", "", "set it; the prefix of the lease ids is LeasePrefix")
	}
	if strings.ContainsAny(f.leasePrefix(), `/\?#`) {
		p.add("LeasePrefix", f.leasePrefix(), `begins the ids of leases, which cannot contain / \ ? #`)
	}
	if f.Container == nil {
		p.add("Container", nil, "set the monitored container")
	}
	if f.Handler == nil {
		p.add("Handler", nil, "set the handler")
	}
	refuseNegative(p, positive, field[time.Duration]{"FeedPollDelay", f.FeedPollDelay}, field[time.Duration]{"FeedPollMin", f.FeedPollMin})
	if f.FeedPollDelay > 0 && f.FeedPollMin > f.FeedPollDelay {
		p.add("FeedPollMin", f.FeedPollMin, "must not be more than FeedPollDelay=%v", f.FeedPollDelay)
	}
	f.validateLimits(p)
	f.validateStart(p)
	if _, err := f.Filter.compile(); err != nil {
		p.add("Filter", f.Filter, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if f.ChangeFeedMode == cosmos.ModeAllVersions && f.SoftDeleteProperty != "" {
		p.add("SoftDeleteProperty", f.SoftDeleteProperty, "all versions show deletes as they are: remove it, or read latest versions (ChangeFeedMode)")
	}
}

// validateStart checks that the feed can begin where the function wants it.
func (f Function) validateStart(p *problems) {
	allVersions := f.ChangeFeedMode == cosmos.ModeAllVersions
	isSnapshot := f.StartFrom.Kind == feed.StartSnapshot
	if allVersions && !isSnapshot && f.StartFrom.Kind != feed.StartNow && f.StartFrom.Kind != feed.StartContinuation {
		p.add("StartFrom", f.StartFrom, "all versions begin now, with a snapshot or at a continuation: choose one of them, or read latest versions (ChangeFeedMode)")
	}
	if isSnapshot && !allVersions {
		p.add("StartFrom", f.StartFrom, "all versions follow a snapshot: read all versions (ChangeFeedMode), or start from the beginning")
	}
	if isSnapshot && f.Checkpoint.Manual && f.Flush == nil {
		p.add("StartFrom", f.StartFrom, "at the end of a snapshot all changes must be durable: set Flush, or remove Manual from Checkpoint")
	}
	if f.LostPosition != lostPositionStall && f.LostPosition != lostPositionSeek {
		p.add("LostPosition", f.LostPosition, "must be %q or %q", lostPositionStall, lostPositionSeek)
	}
	if f.StartFrom == FromContinuation("") {
		p.add("StartFrom", "", "FromContinuation needs a continuation: choose FromNow or FromBeginning")
	}
}

// validateLimits checks what the function may spend in a second.
func (f Function) validateLimits(p *problems) {
	for _, limit := range []struct {
		name  string
		value float64
	}{{"Rate", f.Rate}, {"ReadRequestUnits", f.ReadRequestUnits}} {
		if !(limit.value >= 0) || math.IsInf(limit.value, 0) { // NaN is not
			p.add(limit.name, limit.value, "must be a number of 0 or more; 0 is no limit")
		}
	}
}

// validateDelivery checks batches, lanes, retries and checkpoints.
func (f Function) validateDelivery(p *problems) {
	refuseNegative(p, positive, field[int]{"MaxItemsPerInvocation", f.MaxItemsPerInvocation}, field[int]{"PageItems", f.PageItems}, field[int]{"BatchBytes", f.BatchBytes}, field[int]{"Lanes", f.Lanes},
		field[int]{"MaxAhead", f.MaxAhead})
	refuseNegative(p, positive, field[time.Duration]{"HandlerTimeout", f.HandlerTimeout},
		field[time.Duration]{"RetryMin", f.RetryMin}, field[time.Duration]{"RetryMax", f.RetryMax})
	refuseNegative(p, nonNegative, field[time.Duration]{"BatchWindow", f.BatchWindow})
	f.Checkpoint.validate(p)
	if f.Flush != nil && !f.Checkpoint.Manual {
		p.add("Flush", nil, "has nothing to save, as a handled change is saved at once: set Checkpoint.Manual if the handler keeps changes in memory, or remove it")
	}
	if f.LanesByID && f.Lanes == 1 {
		p.add("LanesByID", true, "spreads nothing over one lane: set Lanes to 2 or more")
	}
	if f.RetryMin > f.RetryMax {
		p.add("RetryMin", f.RetryMin, "must not be more than RetryMax=%v", f.RetryMax)
	}
}

// validateGivingUp checks when changes are dead-lettered and how the range and
// the key continue then.
func (f Function) validateGivingUp(p *problems) {
	const noLimit = "must be above 0, or -1 for no limit"
	if f.MaxAttempts < -1 {
		p.add("MaxAttempts", f.MaxAttempts, noLimit)
	}
	if f.BreakerLimit < -1 {
		p.add("BreakerLimit", f.BreakerLimit, noLimit)
	}
	refuseNegative(p, nonNegative, field[time.Duration]{"RetryMaxAge", f.RetryMaxAge})
	refuseNegative(p, positive, field[time.Duration]{"BreakerPause", f.BreakerPause}, field[time.Duration]{"StallAfter", f.StallAfter})
	const noStore = "without a store nothing is given up: remove it, or set DeadLetters"
	if f.DeadLetters == nil && f.MaxAttempts > 0 {
		p.add("MaxAttempts", f.MaxAttempts, noStore)
	}
	if f.DeadLetters == nil && f.RetryMaxAge > 0 {
		p.add("RetryMaxAge", f.RetryMaxAge, noStore)
	}
	if f.BlockKeys && (f.DeadLetters == nil || f.DeadLetters == DropDeadLetters) {
		p.add("BlockKeys", true, "needs a store that keeps dead letters: set DeadLetters, or remove it")
	}
	if f.BlockKeys && f.LanesByID {
		p.add("BlockKeys", true, "keeps the order of a key, which LanesByID gives up: remove one of them")
	}
}

// Validate returns the problems of the options, with their defaults filled in. If
// there are any, [New] refuses the options.
func (o Options) Validate() []Problem {
	var p problems
	o = o.WithDefaults()
	refuseNegative(&p, positive, field[time.Duration]{"FeedPollDelay", o.FeedPollDelay}, field[time.Duration]{"AuditInterval", o.AuditInterval},
		field[time.Duration]{"StopGrace", o.StopGrace}, field[time.Duration]{"StuckGrace", o.StuckGrace})
	refuseNegative(&p, positive, field[int]{"MaxStuck", o.MaxStuck}, field[int]{"Parallel", o.Parallel})
	refuseNegative(&p, positive, field[int64]{"ReadAhead", o.ReadAhead})
	refuseNegative(&p, nonNegative, field[int]{"MinLeases", o.MinLeases}, field[int]{"MaxLeases", o.MaxLeases})
	for _, f := range []field[time.Duration]{
		{"LeaseAcquireInterval", o.LeaseAcquireInterval},
		{"LeaseRenewInterval", o.LeaseRenewInterval},
		{"LeaseExpirationInterval", o.LeaseExpirationInterval},
	} {
		if f.value < shortestLeaseInterval {
			p.add(f.name, f.value, "must be at least %v", shortestLeaseInterval)
		}
	}
	refuseTooLong(&p, field[time.Duration]{"FeedPollDelay", o.FeedPollDelay}, field[time.Duration]{"LeaseAcquireInterval", o.LeaseAcquireInterval},
		field[time.Duration]{"LeaseRenewInterval", o.LeaseRenewInterval}, field[time.Duration]{"LeaseExpirationInterval", o.LeaseExpirationInterval},
		field[time.Duration]{"AuditInterval", o.AuditInterval}, field[time.Duration]{"StopGrace", o.StopGrace}, field[time.Duration]{"StuckGrace", o.StuckGrace})
	if o.LeaseRenewInterval >= o.LeaseExpirationInterval/2 {
		p.add("LeaseRenewInterval", o.LeaseRenewInterval, "must be less than half of LeaseExpirationInterval=%v, or one lost write loses the lease", o.LeaseExpirationInterval)
	}
	if o.LeaseAcquireInterval >= o.LeaseExpirationInterval {
		p.add("LeaseAcquireInterval", o.LeaseAcquireInterval, "must be less than LeaseExpirationInterval=%v", o.LeaseExpirationInterval)
	}
	if o.MaxLeases > 0 && o.MinLeases > o.MaxLeases {
		p.add("MinLeases", o.MinLeases, "must not be more than MaxLeases=%d", o.MaxLeases)
	}
	return p
}

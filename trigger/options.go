package trigger

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/feed"
)

// Function is a handler and the container whose changes it gets.
type Function struct {
	// Name is the function's name in logs, errors, events and dead letters.
	Name string
	// LeasePrefix is the processor name: lease ids begin with it, and functions
	// that share a lease container differ in it. It cannot contain / \ ? #. By
	// default it is Name; NoLeasePrefix is the empty prefix.
	LeasePrefix string
	// Container is the monitored container.
	Container *cosmos.Container
	// Handler receives the changes.
	Handler Handler
	// Mode is what the feed shows; by default the latest versions. All versions
	// need a container with a change feed policy that was never merged, and begin
	// now or at a continuation. Leases remember their mode, and it cannot be
	// changed. A range that is behind by half of the policy's retention says so in
	// its Status; what is not delivered when the retention is over is lost, and
	// the range goes on only after somebody has discarded its lease.
	ChangeFeedMode cosmos.Mode
	// SoftDelete names a property of documents, at the first level, that marks
	// them as deleted where it is true. Such a change has the operation Delete,
	// and its document. For latest-version mode, which shows no deletes: instead
	// of deleting, a writer sets the property, and with it a ttl after which the
	// service removes the document. The ttl must be longer than any time for which
	// the function may be behind, as a document that has ended is not in the feed.
	SoftDeleteProperty string
	// Start is where a range without a checkpoint begins; by default now.
	StartFrom Start
	// ReuseBuffers lends a batch's bytes to the handler, instead of copying them:
	// they are valid until the handler returns, and [Change.Clone] keeps them.
	ReuseBuffers bool
	// MaxItemsPerInvocation is the page size that is asked for, and so the size of a batch;
	// by default 100. A transaction is never divided, so more may come.
	MaxItemsPerInvocation int
	// HandlerTimeout ends the context of a handler call; by default 5 minutes.
	// A handler that ignores it for Options.StuckGrace more loses the range.
	HandlerTimeout time.Duration
	// BatchItems and BatchBytes bound a batch; by default MaxItems and 4 MiB.
	// A single change may be larger.
	BatchItems int
	BatchBytes int
	// BatchWindow is how long a batch that is not full waits for more, counted
	// from its first change; by default not at all.
	BatchWindow time.Duration
	// Lanes is the number of ordered queues inside a range: that many handler
	// calls may run at a time for one range. Changes of one logical partition
	// key, and with LanesByID of one document, stay in one lane; by default 1.
	Lanes     int
	LanesByID bool
	// RetryMin and RetryMax bound the wait before changes come again; by default
	// 100 ms, doubling with each failure in a row up to 30 s.
	RetryMin, RetryMax time.Duration
	// NoBisection keeps a failing batch together, instead of halving it until
	// the change that fails is alone.
	NoBisection bool
	// MaxAttempts is how often the handler may fail on the same changes before
	// they are dead-lettered, whichever owners of the range called it; halving
	// uses up none. By default 10 with a dead letter store and unlimited without;
	// -1 is unlimited.
	MaxAttempts int
	// MaxAge is how long, from their first failure, changes are tried again
	// before they are dead-lettered; by default unlimited. The second half of a
	// batch begins anew: it may have waited for the first all the while.
	RetryMaxAge time.Duration
	// DeadLetters keeps what is given up. Without a store nothing is: the range
	// waits. [Discard] drops.
	DeadLetters DeadLetters
	// ParkKeys sends the later changes of a dead-lettered change's key after it,
	// untried, until a replay has emptied the store of them, so that the order
	// of the key is kept. It needs lanes that keep it, too: not LanesByID.
	BlockKeys bool
	// Breaker is how many changes in a row may be dead-lettered without one
	// success before the range pauses for BreakerPause ahead of each further
	// one; by default 10 and 1 min, -1 never pauses. What the handler gives up
	// with Skip does not count.
	BreakerLimit int
	BreakerPause time.Duration
	// Checkpoint says how often positions are saved; by default continuously.
	Checkpoint Checkpoint
	// Discard deletes the function's existing leases when the host first starts,
	// so that all ranges begin at Start. No other host should be running.
	ResetLeases bool
	// Opened and Closed are called when this host begins and ends to work on a
	// range, outside of deliveries. err is nil for the good reasons.
	Opened func(r RangeInfo)
	Closed func(r RangeInfo, reason CloseReason, err error)
	// PollDelay is the wait between two reads of a range that has nothing new;
	// by default the host's.
	FeedPollDelay time.Duration
}

// NoLeasePrefix is the [Function.LeasePrefix] of leases whose ids begin with the
// account's host name, as those of the Azure Functions trigger do unless its
// leaseContainerPrefix is set.
const NoLeasePrefix = "/"

// leasePrefix returns the text before the account's host name in lease ids.
func (f Function) leasePrefix() string {
	switch f.LeasePrefix {
	case "":
		return f.Name
	case NoLeasePrefix:
		return ""
	}
	return f.LeasePrefix
}

// Options are the settings of a host. The zero value of each field means the
// default that it names. The intervals are those of the .NET change feed
// processor (azure-cosmos-dotnet-v3, ChangeFeedProcessorOptions), and hosts that
// share leases should agree on them.
type Options struct {
	// Owner is this host's name in the leases; by default the machine's name and
	// a random suffix.
	Owner string
	// PollDelay is the wait between two reads of an idle range: 5 s.
	FeedPollDelay time.Duration
	// AcquireInterval is how often a host looks for leases to take: 13 s.
	LeaseAcquireInterval time.Duration
	// RenewInterval is how often a lease without progress is written: 17 s.
	LeaseRenewInterval time.Duration
	// Expiration is how long a lease stays with a host that does not write it: 60 s.
	LeaseExpirationInterval time.Duration
	// AuditInterval is how often the key space is checked for parts that have
	// no lease: 5 min.
	AuditInterval time.Duration
	// StopGrace is how long a running handler may go on, and then the release of
	// its lease may take, after the context of Run or Drain has ended: 10 s.
	StopGrace time.Duration
	// StuckGrace is how long a handler may ignore the end of its context before
	// its range is given up without it: 10 s. More than MaxStuck calls left
	// behind end Run with an error, so that the process can be replaced: 16.
	StuckGrace time.Duration
	MaxStuck   int
	// MinLeases and MaxLeases bound what this host takes of each function's
	// leases, beyond its equal share; 0 is no bound. The minimum wins.
	MinLeases, MaxLeases int
	// ReadAhead bounds the bytes of pages in memory over all ranges: 64 MiB. One
	// page of each range is allowed in any case.
	ReadAhead int64
	// Parallel is how many ranges of each function a drain works on at a time: 32.
	Parallel int
	// Logger gets structured logs; by default nobody does.
	Logger *zap.Logger
	// Observers are called with each event, in the order of each range, from the
	// goroutine that caused it. They must be quick and safe for concurrent use.
	Observers []func(Event)
}

func withDefaults(opts *Options) (Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	for _, d := range []struct {
		name  string
		field *time.Duration
		value time.Duration
	}{
		{"PollDelay", &o.FeedPollDelay, 5 * time.Second},
		{"AcquireInterval", &o.LeaseAcquireInterval, 13 * time.Second},
		{"RenewInterval", &o.LeaseRenewInterval, 17 * time.Second},
		{"Expiration", &o.LeaseExpirationInterval, time.Minute},
		{"AuditInterval", &o.AuditInterval, 5 * time.Minute},
		{"StopGrace", &o.StopGrace, 10 * time.Second},
		{"StuckGrace", &o.StuckGrace, 10 * time.Second},
	} {
		if *d.field < 0 {
			return o, fmt.Errorf("option %s is negative", d.name)
		}
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	switch {
	case o.LeaseRenewInterval >= o.LeaseExpirationInterval/2:
		return o, fmt.Errorf("option RenewInterval (%s) must be less than half of Expiration (%s): one lost write must not lose a lease",
			o.LeaseRenewInterval, o.LeaseExpirationInterval)
	case o.ReadAhead < 0, o.Parallel < 0, o.MaxStuck < 0, o.MinLeases < 0, o.MaxLeases < 0:
		return o, errors.New("options ReadAhead, Parallel, MaxStuck, MinLeases and MaxLeases cannot be negative")
	}
	if o.MaxStuck == 0 {
		o.MaxStuck = 16
	}
	if o.ReadAhead == 0 {
		o.ReadAhead = 64 << 20
	}
	if o.Parallel == 0 {
		o.Parallel = 32
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Owner == "" {
		name, _ := os.Hostname()
		o.Owner = name + "-" + rand.Text()[:8]
	}
	return o, nil
}

// RangeInfo is what lifecycle callbacks learn about a range.
type RangeInfo struct {
	Function     string
	Range        cosmos.Range // ID is the lease token
	Epoch        int64
	Continuation string // saved so far; "" before the first checkpoint
}

// withDefaults checks a function and fills in what it leaves open.
func (f Function) withDefaults() (Function, error) {
	switch {
	case f.Name == "":
		return f, errors.New("a function has no name: set Name (the prefix of its lease ids is LeasePrefix)")
	case strings.ContainsAny(f.leasePrefix(), `/\?#`):
		return f, fmt.Errorf(`function %q: LeasePrefix %q begins the ids of leases, which cannot contain / \ ? #`, f.Name, f.leasePrefix())
	case f.Container == nil:
		return f, fmt.Errorf("function %q has no container", f.Name)
	case f.Handler == nil:
		return f, fmt.Errorf("function %q has no handler", f.Name)
	case min(f.MaxItemsPerInvocation, f.BatchItems, f.BatchBytes, f.Lanes) < 0:
		return f, fmt.Errorf("function %q: MaxItems, BatchItems, BatchBytes and Lanes cannot be negative", f.Name)
	case min(f.HandlerTimeout, f.FeedPollDelay, f.BatchWindow, f.RetryMin, f.RetryMax, f.RetryMaxAge, f.BreakerPause, f.Checkpoint.Interval) < 0:
		return f, fmt.Errorf("function %q: a duration is negative", f.Name)
	case f.MaxAttempts < -1 || f.BreakerLimit < -1 || f.Checkpoint.Every < 0:
		return f, fmt.Errorf("function %q: MaxAttempts and Breaker are counts, or -1 for no limit; Checkpoint.Every is a count", f.Name)
	case f.Checkpoint.Manual && f.Checkpoint != (Checkpoint{Manual: true}):
		return f, fmt.Errorf("function %q: manual checkpoints leave nothing for Every and Interval", f.Name)
	case f.ChangeFeedMode == cosmos.AllVersions && f.StartFrom.feedStart.Kind != feed.StartNow && f.StartFrom.feedStart.Kind != feed.StartContinuation:
		return f, fmt.Errorf("function %q: all versions begin now or at a continuation, not at %s", f.Name, f.StartFrom)
	case f.ChangeFeedMode == cosmos.AllVersions && f.SoftDeleteProperty != "":
		return f, fmt.Errorf("function %q: SoftDelete is for latest-version mode; all versions show deletes", f.Name)
	case f.StartFrom.feedStart.Kind == feed.StartContinuation && f.StartFrom.feedStart.Continuation == "":
		return f, fmt.Errorf("function %q: FromContinuation needs a continuation; choose FromNow or FromBeginning", f.Name)
	case f.BlockKeys && f.DeadLetters == nil:
		return f, fmt.Errorf("function %q: ParkKeys needs a DeadLetters store", f.Name)
	case f.BlockKeys && f.LanesByID:
		return f, fmt.Errorf("function %q: ParkKeys keeps the order of a key, which LanesByID gives up: remove one of them", f.Name)
	}
	f.MaxItemsPerInvocation = cmp.Or(f.MaxItemsPerInvocation, 100)
	f.BatchItems = cmp.Or(f.BatchItems, f.MaxItemsPerInvocation)
	f.BatchBytes = cmp.Or(f.BatchBytes, 4<<20)
	f.Lanes = cmp.Or(f.Lanes, 1)
	f.HandlerTimeout = cmp.Or(f.HandlerTimeout, 5*time.Minute)
	f.RetryMin = cmp.Or(f.RetryMin, backoff.Min)
	f.RetryMax = cmp.Or(f.RetryMax, max(backoff.Max, f.RetryMin))
	f.BreakerLimit = cmp.Or(f.BreakerLimit, 10)
	f.BreakerPause = cmp.Or(f.BreakerPause, time.Minute)
	if f.DeadLetters != nil {
		f.MaxAttempts = cmp.Or(f.MaxAttempts, 10)
	}
	if f.RetryMax < f.RetryMin {
		return f, fmt.Errorf("function %q: RetryMax (%s) is less than RetryMin (%s)", f.Name, f.RetryMax, f.RetryMin)
	}
	return f, nil
}

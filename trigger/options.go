package trigger

import (
	"context"
	"log/slog"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/lease"
)

// Function is a handler and the container whose changes it gets. The zero value
// of a field means its default; [Function.Validate] holds the rules. No duration is longer
// than a year.
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
	// ChangeFeedMode selects latest versions (the default) or all versions. All
	// versions need a container with a change feed policy that was never merged,
	// and begin now or at a continuation. Leases record their mode, and it cannot
	// be changed. If a range is behind by half of the policy's retention, its
	// Status says so. Changes that are not delivered before the retention ends
	// are lost, and the range then waits until an operator deletes its lease.
	ChangeFeedMode cosmos.Mode
	// SoftDeleteProperty names a property of documents, at the first level. If it
	// is true the document counts as deleted: the change has the operation Delete
	// and carries the document. It is for latest-version mode, which shows no
	// deletes: instead of deleting, a writer sets the property, and with it a ttl
	// after which the service removes the document. The ttl must be longer than
	// the function is ever behind, as an expired document is not in the feed.
	SoftDeleteProperty string
	// Filter selects the changes that the handler is called with; by default all.
	Filter Filter
	// StartFrom is the position of a range without a checkpoint; by default now.
	StartFrom Start
	// ReuseBuffers lends a batch to the handler: its changes and their bytes are valid
	// until the handler returns, then the memory is used for later pages, and
	// [Change.Clone] keeps a change. By default they are the handler's.
	ReuseBuffers bool
	// MaxItemsPerInvocation is the page size in requests, and so the default size
	// of a batch: 100. A page is longer if a transaction does not fit, because the
	// service never divides one.
	MaxItemsPerInvocation int
	// HandlerTimeout ends the context of a handler call; by default 5 minutes. If
	// the handler ignores that for Options.StuckGrace, it loses the range.
	HandlerTimeout time.Duration
	// BatchItems and BatchBytes bound a batch; by default MaxItemsPerInvocation
	// and 4 MiB. If a single change is larger, it is a batch of its own.
	BatchItems int
	BatchBytes int
	// BatchWindow is how long a batch that is not full waits for more changes,
	// counted from its first change; by default it does not wait.
	BatchWindow time.Duration
	// Lanes is the number of ordered queues inside a range: that many handler
	// calls may run at a time for one range. Changes of one logical partition
	// key stay in one lane, or those of one document if LanesByID is set; by
	// default 1.
	Lanes     int
	LanesByID bool
	// RetryMin and RetryMax bound the wait before changes are redelivered; by
	// default 100 ms, doubling with each consecutive failure up to 30 s.
	RetryMin, RetryMax time.Duration
	// NoBisection keeps a failing batch together. By default it is halved until
	// the change that fails is alone.
	NoBisection bool
	// MaxAttempts is how often the handler may fail on the same changes before
	// they are dead-lettered, summed over the owners of the range; halving uses up
	// no attempt. By default 10 if there is a dead letter store, and unlimited if
	// there is none; -1 is unlimited.
	MaxAttempts int
	// RetryMaxAge is how long, from their first failure, changes are retried
	// before they are dead-lettered; by default unlimited. When a batch is
	// halved, the age of the second half starts again: it may have waited for the
	// first half all the time.
	RetryMaxAge time.Duration
	// DeadLetters stores changes that are given up. If it is nil none is given up:
	// the range waits. [DropDeadLetters] loses them.
	DeadLetters DeadLetters
	// MaxAhead is the number of changes, from the first unfinished one of a range, at
	// which reading pauses; by default 1,000. While a key is being retried the others
	// continue up to this bound, and after a handover or a stop at most these changes
	// are delivered again. Ten changes that do not pass the filter count as one.
	MaxAhead int
	// BlockKeys sends later changes of a dead-lettered change's key to the store
	// as well, without an attempt, until a replay has emptied the store of that
	// key: the key's order is kept. It excludes LanesByID, which gives up that
	// order.
	BlockKeys bool
	// BreakerLimit is how many consecutive changes may be dead-lettered, without
	// a success between them, before the range pauses for BreakerPause before each
	// further one; by default 10 and 1 min, -1 never pauses. Changes that the
	// handler gives up with Skip do not count.
	// While everything fails, the backoff between failures of the sink adds to the pause.
	BreakerLimit int
	BreakerPause time.Duration
	// StallAfter is how long a range may make no progress before the log and an event
	// of kind EventStalled say so: 1 min. Five equal failures in a row count as well.
	StallAfter time.Duration
	// Checkpoint says how often positions are saved; by default every 200 ms while there is progress.
	Checkpoint Checkpoint
	// ResetLeases deletes the function's existing leases when the host first
	// starts, so that all ranges begin at StartFrom. No other host should run.
	ResetLeases bool
	// Opened is called when this host starts working on a range. Nothing is delivered
	// until it has returned. It may take its time: the lease is renewed meanwhile, and
	// from 10 s on the status says that the range waits for it. ctx ends when the host
	// stops or gives up the range. If Opened ignores that for Options.StuckGrace, or
	// until the grace of a stop is over, it is left behind like a handler call.
	Opened func(ctx context.Context, r RangeInfo)
	// Closed is called when this host stops working on a range: after Opened and all
	// deliveries, and not if Opened was left behind. err is nil if the reason is a good
	// one.
	Closed func(r RangeInfo, reason CloseReason, err error)
	// FeedPollDelay is the wait between two reads of an idle range; by default the
	// host's.
	FeedPollDelay time.Duration
	// FeedPollMin is the wait before the first read after changes: 5 ms. It doubles with
	// each read that finds nothing, up to FeedPollDelay. Each of these reads costs about
	// one request unit.
	FeedPollMin time.Duration
	// Rate is how many changes a second the handler gets on this host at most, over all
	// lanes and ranges, retries included; by default there is no limit. A second's worth
	// may come at once. A larger batch is delivered whole, and the wait after it is longer.
	Rate float64
	// ReadRequestUnits is how many request units a second this host spends on reads of
	// the feed for the function at most; by default there is no limit. A read that
	// functions share counts for the function that sends it. Reads for [EstimateLag] and
	// requests for leases do not count. A charge above a million cannot be: the read then
	// counts like the one before it, and the log says so once.
	ReadRequestUnits float64
}

// NoLeasePrefix is the [Function.LeasePrefix] of leases whose ids begin with the
// account's host name, as those of the Azure Functions trigger do unless its
// leaseContainerPrefix is set.
const NoLeasePrefix = lease.NoPrefix

// leasePrefix returns the text before the account's host name in lease ids.
func (f Function) leasePrefix() string { return lease.IDPrefix(f.Name, f.LeasePrefix) }

// Options are the settings of a host. The zero value of a field means the
// default that its comment names; [Options.Validate] holds the rules. No duration is
// longer than a year. The
// intervals are those of the .NET change feed processor (azure-cosmos-dotnet-v3,
// ChangeFeedProcessorOptions). Hosts that share leases should agree on them.
type Options struct {
	// Owner is this host's name in the leases; by default the machine's name and
	// a random suffix.
	Owner string
	// FeedPollDelay is the wait between two reads of an idle range: 5 s.
	FeedPollDelay time.Duration
	// LeaseAcquireInterval is how often a host looks for leases to take: 13 s. It
	// is less than the expiration, and 100 ms at least, as all lease intervals.
	LeaseAcquireInterval time.Duration
	// LeaseRenewInterval is how often a lease without progress is written: 17 s.
	// It is less than half of the expiration, so that one lost write does not
	// lose the lease.
	LeaseRenewInterval time.Duration
	// LeaseExpirationInterval is how long a lease belongs to a host that does not
	// write it: 60 s.
	LeaseExpirationInterval time.Duration
	// AuditInterval is how often the key space is checked for parts without a
	// lease: 5 min.
	AuditInterval time.Duration
	// StopGrace is how long Run and Drain may take to return after their context
	// has ended: 10 s. Running handlers, lease writes and releases share it. The
	// context of a handler ends after four fifths of it; a call that has not
	// returned when all of it is over is left behind.
	StopGrace time.Duration
	// StuckGrace is how long a handler may ignore the end of its context before
	// the host gives up the range and leaves the call behind: 10 s. If more than
	// MaxStuck calls are left behind, Run ends with an error, so that the process
	// can be replaced: 16.
	StuckGrace time.Duration
	MaxStuck   int
	// MinLeases and MaxLeases bound the leases of each function that this host
	// takes, instead of its equal share; 0 is no bound. For MinLeases it takes leases
	// without an owner, and none that another host needs for its own share.
	MinLeases, MaxLeases int
	// ReadAhead bounds the bytes of pages in memory over all ranges: 64 MiB. They are
	// reserved before they are read. If little is left, requests ask for fewer changes
	// than MaxItemsPerInvocation. Above the bound each range may have one transaction.
	ReadAhead int64
	// Parallel is how many ranges of each function a drain works on at a time: 32.
	Parallel int
	// Logger receives structured logs; by default they are dropped.
	Logger *slog.Logger
	// Observers are called with each event, in the order of each range, from the
	// goroutine that caused it. They must be quick and safe for concurrent use.
	Observers []func(Event)
}

// RangeInfo describes a range to the callbacks Opened and Closed.
type RangeInfo struct {
	Function     string
	Range        cosmos.Range // ID is the lease token
	Epoch        int64
	Continuation string // saved so far; "" before the first checkpoint
}

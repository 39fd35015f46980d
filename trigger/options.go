package trigger

import (
	"context"
	"log/slog"
	"time"

	"halley/trigger/cosmos"
)

// Function is a handler and the container whose changes it gets. Fields that belong
// together are values of their own, and are embedded: f.Lanes is f.BatchPolicy.Lanes. The
// zero value of a field means its default; [Function.Validate] holds the rules. No
// duration is longer than a year.
type Function struct {
	// FeedSource is the Name of the function, its Container and the place of its leases.
	FeedSource
	// Handler receives the changes.
	Handler Handler
	// SoftDeleteProperty names a property of documents, at the first level. If it
	// is true the document counts as deleted: the change has the operation Delete
	// and carries the document. It is for latest-version mode, which shows no
	// deletes: instead of deleting, a writer sets the property, and with it a ttl
	// after which the service removes the document. The ttl must be longer than
	// the function is ever behind, as an expired document is not in the feed.
	SoftDeleteProperty string
	// Filter selects the changes that the handler is called with; by default all.
	Filter Filter
	// ReuseBuffers lends a batch to the handler: its changes and their bytes are valid
	// until the handler returns, then the memory is used for later pages, and
	// [Change.Clone] keeps a change. By default they are the handler's.
	ReuseBuffers bool
	// BatchPolicy has the sizes of pages and batches, Lanes and MaxAhead.
	BatchPolicy
	// HandlerTimeout ends the context of a handler call; by default 5 minutes. If
	// the handler ignores that for Options.StuckGrace, it loses the range.
	HandlerTimeout time.Duration
	// RetryPolicy has the waits between attempts, and NoBisection.
	RetryPolicy
	// GiveUpPolicy has MaxAttempts and RetryMaxAge, and says how a key and a range continue
	// when changes have gone to DeadLetters.
	GiveUpPolicy
	// DeadLetters stores changes that are given up. If it is nil none is given up:
	// the range waits. [DropDeadLetters] loses them.
	DeadLetters DeadLetters
	// StallAfter is how long a range may make no progress before the log and an event
	// of kind EventStalled say so: 1 min. Five equal failures in a row count as well.
	StallAfter time.Duration
	// LostPosition says what happens to a range whose position no region of the account has
	// reached, because an unplanned failover has lost changes, if the account has several regions,
	// one of which writes, and does not tell which changes all of them had: "stall" keeps the position, and an operator sets it back; "seek" sets it
	// back by itself after a minute, to 15 minutes before the last read that agreed with it, so
	// that changes are delivered again. All versions cannot be read from a time, and stall. By
	// default "stall".
	LostPosition string
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
	// Flush makes the changes durable that the handler keeps in memory for a range. It
	// needs Checkpoint.Manual. It is called once for each acquisition in which a handler
	// call was made, after the last call of the range has returned: before the range is
	// released at a stop, a handover, the end of a drain, a pause or a failure of the feed,
	// and before the children of a split are created. The lease is renewed meanwhile.
	//
	// nil counts as a request for a checkpoint that covers all calls of the range, see
	// [Batch.Checkpoint]. After an error or a panic, which the log, the status and an event
	// of kind EventFlushed tell, nothing is saved beyond the last request, and the next
	// owner delivers the unflushed changes again.
	//
	// ctx ends after HandlerTimeout, when nine tenths of Options.StopGrace are over after a
	// stop, and as soon as this host cannot rely on the lease any more. If Flush ignores
	// that, it is left behind like a handler call. It is not called if the lease is lost, if
	// a handler call was left behind, or if no time is left for it.
	Flush func(ctx context.Context, r RangeInfo) error
	// Closed is called when this host stops working on a range: after Opened, all
	// deliveries and Flush, and not if Opened, Flush or SnapshotRead was left behind. err is nil if the
	// reason is a good one.
	Closed func(r RangeInfo, reason CloseReason, err error)
	// SnapshotRead ends the snapshot of a range of a function that starts [FromSnapshot]: all of
	// its changes are handled, or are in DeadLetters. It removes rows from the sink that this snapshot
	// and later changes have not shown, of documents that were deleted while no host could see it.
	// For example, host A stood still for longer than the retention of all versions, and an
	// operator has moved the range to a new snapshot. A sink stores [Change.Generation] and
	// [Change.EffectiveKey] with each row, and removes the rows of the range with a smaller
	// generation, except those of the kept keys.
	//
	// Until it has returned nil, the range stays in its snapshot, and no later change is
	// delivered. After an error or a panic it is called again, with the waits of RetryPolicy,
	// and the status says why. It may be called several times for one snapshot, also by two
	// hosts at a time, one of which has lost the lease. ctx ends as that of a handler call: after
	// HandlerTimeout, so that a call that removes much does so in steps, and the next one
	// continues. If it ignores that, it is left behind like a handler call.
	SnapshotRead func(ctx context.Context, s SnapshotEnd) error
	// RateLimits has Rate, ReadRequestUnits and the waits between reads.
	RateLimits
}

// Options are the settings of a host. The zero value of a field means the
// default that its comment names; [Options.Validate] holds the rules. No duration is
// longer than a year. The
// intervals are those of the .NET change feed processor (azure-cosmos-dotnet-v3,
// ChangeFeedProcessorOptions). Hosts that share leases should agree on them.
type Options struct {
	// Owner is this host's name in the leases; by default the machine's name and
	// a random suffix.
	Owner string
	// AppName is the name of the app that this host belongs to. Its leases have it with the
	// name of the function, so that two apps that share them by mistake can be told; without
	// it a host neither tells nor is told.
	AppName string
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
	// than PageItems. Above the bound each range may have one transaction.
	ReadAhead int64
	// Parallel is how many ranges of each function a drain works on at a time: 32.
	Parallel int
	// Logger receives structured logs; by default they are dropped.
	Logger *slog.Logger
	// Observers are called with each event, in the order of each range, from the
	// goroutine that caused it. They must be quick and safe for concurrent use.
	Observers []func(Event)
}

// SnapshotEnd describes the end of a snapshot to the callback SnapshotRead. Min and Max of its
// Range are in the form of [Change.EffectiveKey]: the rows of the range are those with a key
// that is not below Min, and below Max.
type SnapshotEnd struct {
	RangeInfo
	Generation int64    // of the snapshot, see [Change.Generation]
	KeptKeys   []string // partition keys of the range, as of [Change.PartitionKey], with changes in DeadLetters: what the sink has of them stays

	partitionKey cosmos.PartitionKeyDefinition
}

// EffectiveKey returns what [Change.EffectiveKey] returns for the changes of a partition key, for
// rows that were stored without it.
func (s SnapshotEnd) EffectiveKey(partitionKey string) (string, error) {
	key, err := s.partitionKey.EffectiveKey(partitionKey)
	return cosmos.TrimKey(key), err
}

// RangeInfo describes a range to the callbacks Opened, Flush and Closed.
type RangeInfo struct {
	Function     string
	Range        cosmos.Range // ID is the lease token
	Epoch        int64
	Continuation string // saved so far; "" before the first checkpoint
}

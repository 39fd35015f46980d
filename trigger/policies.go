package trigger

import "time"

// The delivery of a range follows these values as they are: delivery has types with the
// same fields, and the compiler refuses the conversion if one of them is missing there.

// BatchPolicy says how the changes of a range are read and made into handler calls.
type BatchPolicy struct {
	// MaxItemsPerInvocation and BatchBytes bound a batch; by default 100 changes and
	// 4 MiB. If a single change is larger, it is a batch of its own.
	MaxItemsPerInvocation int
	BatchBytes            int
	// PageItems is the page size in requests. By default it is 100, and 1,000 while a
	// range is behind, in which a page is as large as Options.ReadAhead allows. It stays 100 if
	// positions inside a page have no names, as in merged ranges, and if ReadRequestUnits is
	// set. A page is longer if a transaction does not fit, because the service never divides
	// one.
	PageItems int
	// BatchWindow is how long a batch that is not full waits for more changes,
	// counted from its first change; by default it does not wait. It ends early if
	// reading has paused, at MaxAhead for example, and no call of the range runs.
	BatchWindow time.Duration
	// Lanes is the number of ordered queues inside a range: that many handler
	// calls may run at a time for one range. Changes of one logical partition
	// key stay in one lane, or those of one document if LanesByID is set; by
	// default 1.
	Lanes     int
	LanesByID bool
	// MaxAhead is the number of changes, from the first unfinished one of a range whose key
	// does not wait for a retry, at which reading pauses; by default 1,000. After a handover
	// or a stop at most these changes are delivered again, and 100 or PageItems more. On a
	// merged range, changes that wait for a retry count, too: its lease cannot tell what is
	// finished behind them. Ten changes that do not pass the filter count as one.
	MaxAhead int
}

// RetryPolicy says how changes on which the handler has failed are redelivered. It holds
// until they are given up, see [GiveUpPolicy].
type RetryPolicy struct {
	// RetryMin and RetryMax bound the wait before changes are redelivered; by
	// default 100 ms, doubling with each consecutive failure up to 30 s.
	RetryMin, RetryMax time.Duration
	// NoBisection keeps a failing batch together. By default it is halved until
	// the change that fails is alone.
	NoBisection bool
}

// GiveUpPolicy says when changes on which the handler fails are dead-lettered, and how
// their key and their range continue then.
type GiveUpPolicy struct {
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
}

// RateLimits bound how often a function reads its feed, and how many changes it handles.
type RateLimits struct {
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
	// FeedPollDelay is the wait between two reads of an idle range; by default the
	// host's.
	FeedPollDelay time.Duration
	// FeedPollMin is the wait before the first read after changes: 5 ms. It doubles with
	// each read that finds nothing, up to FeedPollDelay. Each of these reads costs about
	// one request unit.
	FeedPollMin time.Duration
}

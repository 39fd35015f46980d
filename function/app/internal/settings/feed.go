package settings

import "halley/trigger"

// Feed select the monitored container, the leases and their intervals. If
// the Cosmos DB extension for Azure Functions has a setting, its name in upper snake
// case and its default are used. A function may override each:
// HALLEY_<FUNCTION>_<NAME>. Other defaults are those of [trigger.Function.WithDefaults] and
// [trigger.Options.WithDefaults].
type Feed struct {
	Connection              ConnectionName `split_words:"true" desc:"name of the connection of the monitored account"`
	DatabaseName            string         `split_words:"true" desc:"database of the monitored container; required"`
	ContainerName           string         `split_words:"true" desc:"monitored container; required"`
	LeaseConnection         ConnectionName `split_words:"true" desc:"name of the connection of the leases; CONNECTION if empty"`
	LeaseDatabaseName       string         `split_words:"true" desc:"database of the leases; DATABASE_NAME if empty"`
	LeaseContainerName      string         `split_words:"true" desc:"container of the leases, with partition key /id"`
	LeaseContainerPrefix    string         `split_words:"true" desc:"begins the ids of the leases; the function's name if not set, and / for none, as in a Cosmos DB trigger without a prefix"`
	FeedPollDelay           interval       `split_words:"true" desc:"wait between two reads of an idle range"`
	FeedPollMin             interval       `split_words:"true" desc:"wait before the first read after changes; doubles up to FEED_POLL_DELAY"`
	Priority                priority       `desc:"priority of requests to the monitored account, low or high, if it has priority-based execution: requests of low priority are throttled first; the account's default if empty"`
	ThroughputBucket        bucket         `split_words:"true" desc:"throughput bucket of requests to the monitored account, 1 to 5; 0 is none"`
	LeasePriority           priority       `split_words:"true" desc:"priority of requests for leases, as PRIORITY"`
	LeaseThroughputBucket   bucket         `split_words:"true" desc:"throughput bucket of requests for leases, as THROUGHPUT_BUCKET"`
	ReadRequestUnits        perSecond      `split_words:"true" desc:"request units a second that reads of the feed cost on this host at most; 0 is no limit"`
	LeaseAcquireInterval    interval       `split_words:"true" desc:"how often a host looks for leases to take"`
	LeaseExpirationInterval interval       `split_words:"true" desc:"how long a lease belongs to a host that does not write it"`
	LeaseRenewInterval      interval       `split_words:"true" desc:"how often a lease without progress is written; less than half the expiration"`
	MaxItemsPerInvocation   count          `split_words:"true" desc:"changes in a batch at most"`
	PageItems               bound          `split_words:"true" desc:"requested page size; 0 is 100, and up to 1,000 while a range is behind; a transaction is never divided, so a page may be larger"`
	StartFrom               startFrom      `split_words:"true" desc:"start of a range without a checkpoint: beginning, now or an RFC 3339 time; in all-versions mode now, or snapshot: the documents that exist, then every version"`
	PreferredLocations      list           `split_words:"true" desc:"regions to read from, in order; the account's own order if empty"`
	ChangeFeedMode          feedMode       `split_words:"true" desc:"latest-version, or all-versions with every version and delete"`
	SoftDeleteProperty      string         `split_words:"true" desc:"property that marks a document as deleted if it is true, in latest-version mode"`
	Filter                  filterSetting  `split_words:"true" desc:"changes that the function gets: an event filter pattern as of AWS Lambda, or a JSON list of patterns, one of which must match; all if empty"`
	MinLeases               bound          `split_words:"true" desc:"leases that a continuous host takes at least if they have no owner, even if its equal share is less; 0 is no bound"`
	MaxLeases               bound          `split_words:"true" desc:"leases that a continuous host takes at most, even if its equal share is more; 0 is no bound"`
	ResetLeases             toggle         `split_words:"true" desc:"delete the function's leases at the start and begin at START_FROM: for one start of the command run, with no other host running"`
}

// StartsFromSnapshot reports whether the function reads a snapshot before all versions.
func (f Feed) StartsFromSnapshot() bool { return trigger.Start(f.StartFrom) == trigger.FromSnapshot() }

// WithoutRemoval tells an operator of a handler that does not follow the ends of snapshots.
const WithoutRemoval = "after a gap longer than the retention of all versions, documents that were deleted in it stay in the sink: empty it before leases seek --to snapshot, see docs/handlers.md"

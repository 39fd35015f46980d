package settings

// Delivery control batches, lanes, retries, dead letters and checkpoints. A
// function may override each: HALLEY_<FUNCTION>_<NAME>. Defaults are those of
// [trigger.Function.WithDefaults].
type Delivery struct {
	HandlerTimeout        interval       `split_words:"true" desc:"deadline of one handler call"`
	StuckGrace            interval       `split_words:"true" desc:"how long a handler may ignore its deadline before its range is given up"`
	BatchBytes            count          `split_words:"true" desc:"bytes in a batch at most; a single change may be larger"`
	BatchWindow           interval       `split_words:"true" desc:"how long a batch that is not full waits for more, counted from its first change"`
	Lanes                 count          `split_words:"true" desc:"ordered queues inside a range: handler calls at a time; one partition key stays in one lane"`
	LanesByID             toggle         `split_words:"true" desc:"spread by partition key and id: order per document only"`
	RetryMin              interval       `split_words:"true" desc:"wait after the first failure; doubles with each further one in a row"`
	RetryMax              interval       `split_words:"true" desc:"longest wait between two attempts"`
	NoBisection           toggle         `split_words:"true" desc:"keep a failing batch together instead of halving it until the change that fails is alone"`
	MaxAttempts           Limit          `split_words:"true" desc:"failures of the same changes before they are dead-lettered, or unlimited; without a dead letter store unlimited"`
	RetryMaxAge           interval       `split_words:"true" desc:"age of the first failure at which changes are dead-lettered; 0s is unlimited"`
	DeadLetters           StoreSetting   `split_words:"true" desc:"container (that of the leases), container:NAME (in their database), directory:PATH, blob:CONTAINER, queue:NAME (messages about dead letters in the blob container of that name), drop (lose them) or none (wait)"`
	DeadLettersConnection ConnectionName `split_words:"true" desc:"name of the connection of the Azure Storage account of blob: and queue:"`
	DeadLetterRetention   interval       `split_words:"true" desc:"how long a dead letter in a container is kept, in whole seconds; the container needs a defaultTtl, such as -1; 0s keeps dead letters until they are replayed or discarded"`
	Rate                  perSecond      `split_words:"true" desc:"changes a second that the handler gets on this host at most, retries included; 0 is no limit"`
	MaxAhead              count          `split_words:"true" desc:"changes read, from the first unfinished one whose key does not wait for a retry, at which the reading of a range pauses; after a handover or a stop at most these are delivered again; ten filtered changes count as one"`
	BlockKeys             toggle         `split_words:"true" desc:"later changes of a dead-lettered change's key go to the store without an attempt, until a replay"`
	BreakerLimit          Limit          `split_words:"true" desc:"changes dead-lettered in a row before a range pauses before each further one, or unlimited"`
	BreakerPause          interval       `split_words:"true" desc:"length of that pause"`
	StallAfter            interval       `split_words:"true" desc:"how long a range may make no progress before the log and status say that it is stalled; five equal failures in a row count as well"`
	LostPosition          string         `split_words:"true" desc:"what happens to a range whose position no region has reached after a failover, if the service does not tell what all regions had: stall keeps it until an operator sets it back, seek sets it back to 15 minutes before the last read that agreed with it"`
	CheckpointEvery       bound          `split_words:"true" desc:"save a position after that many changes, instead of by the interval, or with both whichever comes first"`
	CheckpointInterval    saveInterval   `split_words:"true" desc:"save a position when the last save is that long ago, or each-batch: as soon as a batch is handled; after a crash, at most that interval is delivered again"`
	CheckpointManual      toggle         `split_words:"true" desc:"save a position only if requests of the handler cover all handled changes before it"`
}

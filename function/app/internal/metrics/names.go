package metrics

// Names of all metrics. They are a contract with dashboards and alert rules: a metric
// may be added, but not renamed.
const (
	lagName            = "halley_lag_transactions"
	pendingName        = "halley_pending_changes"
	lagSecondsName     = "halley_lag_seconds"
	checkpointAgeName  = "halley_checkpoint_age_seconds"
	stalledName        = "halley_range_stalled_seconds"
	expiringName       = "halley_range_expiring"
	waitingKeysName    = "halley_waiting_keys"
	blockedKeysName    = "halley_blocked_keys"
	postponedKeysName  = "halley_postponed_keys"
	leasesName         = "halley_leases"
	problemName        = "halley_function_problem"
	readAheadName      = "halley_read_ahead_bytes"
	handlerSecondsName = "halley_handler_duration_seconds"
	changesName        = "halley_changes_total"
	batchName          = "halley_batch_changes"
	deadLettersName    = "halley_dead_letters_total"
	postponedName      = "halley_postponed_total"
	leaseEventsName    = "halley_lease_events_total"
	flushesName        = "halley_flushes_total"
	requestsName       = "halley_requests_total"
	requestUnitsName   = "halley_request_units_total"
	pollsName          = "halley_feed_polls_total"
	sinkRequestsName   = "halley_sink_requests_total"
	sinkSecondsName    = "halley_sink_duration_seconds"
	sinkRowsName       = "halley_sink_rows_total"
	sinkRetriesName    = "halley_sink_retries_total"
)

// Labels. Each has the names of functions, the tokens of leases, or a few constants.
const (
	functionLabel  = "function"
	rangeLabel     = "range"
	outcomeLabel   = "outcome"   // of handler calls, changes, flushes, requests, polls and requests to sinks
	causeLabel     = "cause"     // of a stall, see stall.Kind
	stateLabel     = "state"     // of a lease: held, free or paused
	eventLabel     = "event"     // in the life of a lease
	operationLabel = "operation" // of a request
	sinkLabel      = "sink"      // kind of a sink
)

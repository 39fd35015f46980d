package main

// verdictRows are the verdicts of handlers, each in a scenario.
var verdictRows = []row{
	{"verdict Failed", "TestPartialFailureRedeliversOnlyFailedChanges", "partial-failure-inverted"},
	{"verdict FailedFrom", "TestFailedFromRedeliversTheRest", "failed-from-the-next"},
	{"verdict RetryAfter", "TestPostponedChangeIsRedeliveredWhenDue", "postponed-before-due"},
	{"verdict Skip", "TestSkipDeadLettersWithoutRetry", "skipped-is-retried"},
	{"verdict error", "TestFailedBatchIsRedelivered", "error-is-success"},
	{"verdict hang", "TestHangingChangeIsDeadLettered", "hung-call-is-not-an-attempt"},
	{"verdict joined", "TestJoinedFailuresAreAllRedelivered", "first-joined-error-counts"},
	{"verdict nil", "TestRunDeliversAndCheckpoints", "handled-batch-fails"},
	{"verdict panic", "TestFailedBatchIsRedelivered", "panic-is-success"},
	{"verdict wrapped", "TestWrappedVerdictsAreRead", "wrapped-error-names-none"},
}

package delivery

import "time"

// BatchPolicy, RetryPolicy and GiveUpPolicy have the fields of the types of these names in
// package trigger, which says what they mean, with the defaults filled in. The worker
// converts them, so that a field that one side lacks does not compile.

// BatchPolicy says how the changes of a range are read and made into handler calls.
type BatchPolicy struct {
	MaxItemsPerInvocation int // changes in a page, usually at most
	BatchItems            int // changes in a batch at most
	BatchBytes            int // bytes in a batch at most; a single change may be larger
	BatchWindow           time.Duration
	Lanes                 int  // ordered queues of the range
	LanesByID             bool // keep the order per document only
	MaxAhead              int  // changes read, from the first unfinished one whose key does not wait, at which reading stops
}

// RetryPolicy says how changes on which the handler has failed are redelivered.
type RetryPolicy struct {
	RetryMin, RetryMax time.Duration // bounds of the wait between attempts
	NoBisection        bool          // keep a failing batch together
}

// GiveUpPolicy says when changes on which the handler fails are dead-lettered.
type GiveUpPolicy struct {
	MaxAttempts  int           // failed calls with the same changes before they are dead-lettered; <= 0 is unlimited
	RetryMaxAge  time.Duration // age of the first failure at which they are dead-lettered; 0 is unlimited
	BlockKeys    bool          // later changes of a dead-lettered change's key follow it
	BreakerLimit int           // dead letters in a row after which each further one waits for BreakerPause; <= 0 is never
	BreakerPause time.Duration
}

// Policy is everything that [Decide] follows.
type Policy struct {
	RetryPolicy
	GiveUpPolicy
	DeadLetters bool          // there is a store; without one nothing is given up
	HungAfter   time.Duration // grace after the deadline of a call, for the error text
	JitterKey   []any         // spreads the waits of ranges and hosts
}

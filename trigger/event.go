package trigger

import "time"

// Event is something that happened to a range, for logs, metrics, tests and
// the progress of a development run. Events of one range arrive in order.
type Event struct {
	Time     time.Time
	Kind     EventKind
	Function string
	Range    string // lease token
	Epoch    int64

	Changes      int           // Delivered: how many; Failed: how many were tried
	Attempt      int           // Delivered, Failed
	LastLSN      int64         // Delivered: of the last change
	Duration     time.Duration // Delivered, Failed: of the handler call
	Continuation string        // Checkpointed, Released
	Children     []string      // Split: tokens of the leases that took over
	Err          error         // Failed, Released: why; nil for a release in good order
}

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of event.
const (
	Acquired     EventKind = "acquired"     // this host owns the lease now
	Delivered    EventKind = "delivered"    // the handler accepted a batch
	Failed       EventKind = "failed"       // the handler refused a batch, which comes again
	Checkpointed EventKind = "checkpointed" // the lease document holds a newer continuation
	Split        EventKind = "split"        // the lease gave way to children
	Released     EventKind = "released"     // this host no longer owns the lease
)

package trigger

import (
	"errors"
	"time"
)

// Event is something that happened to a range, for logs, metrics, tests and
// the progress of a development run. Events of one range arrive in order.
type Event struct {
	Time     time.Time
	Kind     EventKind
	Function string
	Range    string // lease token
	Epoch    int64

	Changes      int           // Delivered: how many; Refused: how many were tried
	Attempt      int           // Delivered, Refused
	LastLSN      int64         // Delivered: of the last change
	Duration     time.Duration // Delivered, Refused: of the handler call
	Continuation string        // Checkpointed, Released
	Children     []string      // Split: tokens of the leases that took over
	Reason       CloseReason   // Released
	Err          error         // Refused, Released: why; nil for a release in good order
}

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of event.
const (
	Acquired       EventKind = "acquired"      // this host owns the lease now
	Delivered      EventKind = "delivered"     // the handler accepted a batch
	DeliveryFailed EventKind = "refused"       // the handler refused a batch, which comes again
	DeadLettered   EventKind = "dead-lettered" // a change was given up and is in the dead letter store
	Checkpointed   EventKind = "checkpointed"  // the lease document holds a newer continuation
	Split          EventKind = "split"         // the lease gave way to children
	Released       EventKind = "released"      // this host no longer owns the lease
)

// CloseReason says why a host stopped working on a range.
type CloseReason string

// The reasons. Stopped, CaughtUp, Gone and HandedOver are the good ones.
const (
	Stopped    CloseReason = "stopped"     // the host is stopping
	CaughtUp   CloseReason = "caught up"   // a drain found nothing more
	Gone       CloseReason = "gone"        // the range split or merged; children follow
	HandedOver CloseReason = "handed over" // another host asked for its share
	LeaseLost  CloseReason = "lease lost"  // another host has it, or it was deleted
	Stuck      CloseReason = "stuck"       // the handler did not return
	Broken     CloseReason = "broken"      // the feed or the lease cannot be used
)

// Ways for a worker to end that are not errors of the service.
var (
	errStopping   = errors.New("host is stopping")
	errCaughtUp   = errors.New("caught up with the feed")
	errSplit      = errors.New("range split or merged")
	errHandedOver = errors.New("another host asked for the range")
	errOutlived   = errors.New("other leases have taken the lease's place")
)

// reasonOf sorts the error that a worker ended with.
func reasonOf(err error) CloseReason {
	var stuck errStuck
	switch {
	case errors.Is(err, errStopping):
		return Stopped
	case errors.Is(err, errCaughtUp):
		return CaughtUp
	case errors.Is(err, errSplit):
		return Gone
	case errors.Is(err, errHandedOver):
		return HandedOver
	case errors.Is(err, errLeaseLost):
		return LeaseLost
	case errors.As(err, &stuck):
		return Stuck
	default:
		return Broken
	}
}

// good reports whether a range was closed as it should be.
func (r CloseReason) good() bool {
	return r == Stopped || r == CaughtUp || r == Gone || r == HandedOver
}

package trigger

import (
	"errors"
	"time"

	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// Event reports a step in the life of a range, for logs, metrics, tests and the
// progress of a development run. Events of one range arrive in order.
type Event struct {
	Time     time.Time
	Kind     EventKind
	Function string
	Range    string // lease token
	Epoch    int64

	Changes      int           // Delivered, DeliveryFailed: changes in the batch; Filtered: changes of a page
	Handled      int           // Delivered, DeliveryFailed: those that the handler handled; all of them if Delivered
	Attempt      int           // Delivered, DeliveryFailed
	LastLSN      int64         // Delivered: of the last change
	Duration     time.Duration // Delivered, DeliveryFailed: of the handler call; EventFlushed: of the call of Flush
	Continuation string        // Checkpointed, Released
	Children     []string      // Split: tokens of the leases that took over
	Reason       CloseReason   // Released
	Due          time.Time     // Postponed: when the change is delivered again, on the service's clock
	Stall        *Stall        // Stalled, Recovered, and Released if an operator has paused the range: why, and since when
	Lasting      time.Duration // Stalled, Recovered: how long that was so
	Err          error         // DeliveryFailed, EventFlushed, Released: why; nil for a call of Flush that succeeded and for an orderly release
}

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of event.
const (
	Acquired       EventKind = "acquired"      // this host owns the lease now
	Delivered      EventKind = "delivered"     // the handler accepted a batch
	DeliveryFailed EventKind = "failed"        // the handler failed; the changes that it did not handle are delivered again, postponed or given up
	DeadLettered   EventKind = "dead-lettered" // a change was given up and is in the dead letter store
	Postponed      EventKind = "postponed"     // a change is in the dead letter store until it is due; also one that follows it
	Filtered       EventKind = "filtered"      // changes that were read do not pass the filter
	Checkpointed   EventKind = "checkpointed"  // the lease document holds a newer continuation
	Split          EventKind = "split"         // the lease gave way to children
	Released       EventKind = "released"      // this host no longer owns the lease
	CaughtUpFirst  EventKind = "caught-up"     // the first read since the acquisition that found nothing more
	Stalled        EventKind = "stalled"       // the range makes no progress; once until it recovers
	Recovered      EventKind = "recovered"     // the range that was stalled makes progress again
	EventFlushed   EventKind = "flushed"       // [Function.Flush] was called, or could not be called in time; before Split and Released
)

// CloseReason says why a host stopped working on a range.
type CloseReason string

// The reasons. Stopped, CaughtUp, Gone, HandedOver and PausedRange are the good ones.
const (
	Stopped     CloseReason = "stopped"     // the host is stopping
	CaughtUp    CloseReason = "caught up"   // a drain found nothing more
	Gone        CloseReason = "gone"        // the range split or merged; children follow
	HandedOver  CloseReason = "handed over" // another host asked for its share
	PausedRange CloseReason = "paused"      // an operator has paused the range
	LeaseLost   CloseReason = "lease lost"  // another host has it, or it was deleted, or an operator has moved its position
	Stuck       CloseReason = "stuck"       // the handler did not return
	Broken      CloseReason = "broken"      // the feed or the lease cannot be used
)

// Reasons for a worker to end that are not errors of the service, besides those of
// packages lease, feed and delivery.
var (
	errStopping   = errors.New("host is stopping")
	errHandedOver = errors.New("another host requested the range")
	errPaused     = errors.New("an operator has paused the range")
	errSuperseded = errors.New("other leases have taken the lease's place")
)

// reasonOf sorts the error that a worker ended with.
func reasonOf(err error) CloseReason {
	var hung *delivery.HungError
	switch {
	case errors.Is(err, errStopping), errors.Is(err, delivery.ErrLeftAside):
		return Stopped
	case errors.Is(err, feed.ErrCaughtUp):
		return CaughtUp
	case errors.Is(err, lease.ErrSplit):
		return Gone
	case errors.Is(err, errHandedOver):
		return HandedOver
	case errors.Is(err, errPaused):
		return PausedRange
	case errors.Is(err, lease.ErrLost):
		return LeaseLost
	case errors.As(err, &hung):
		return Stuck
	default:
		return Broken
	}
}

// isOrderly reports whether the reason is an orderly one.
func (r CloseReason) isOrderly() bool {
	return r == Stopped || r == CaughtUp || r == Gone || r == HandedOver || r == PausedRange
}

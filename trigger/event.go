package trigger

import (
	"errors"
	"time"

	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
	"halley/trigger/stall"
)

// Event reports a step in the life of a range, for logs, metrics, tests and the
// progress of a development run. Events of one range arrive in order.
type Event struct {
	Time     time.Time
	Kind     EventKind
	Function string
	Range    string // lease token
	Epoch    int64

	Changes      int           // EventDelivered, EventDeliveryFailed: changes in the batch; EventFiltered: changes of a page
	Handled      int           // EventDelivered, EventDeliveryFailed: those that the handler handled; all of them if EventDelivered
	Attempt      int           // EventDelivered, EventDeliveryFailed
	LastLSN      int64         // EventDelivered: of the last change
	Duration     time.Duration // EventDelivered, EventDeliveryFailed: of the handler call; EventFlushed: of the call of Flush
	Continuation string        // EventCheckpointed, EventReleased
	Children     []string      // EventSplit: tokens of the leases that took over
	Reason       CloseReason   // EventReleased
	Due          time.Time     // EventPostponed: when the change is delivered again, on the service's clock
	Stall        *stall.Stall  // EventStalled, EventRecovered, and EventReleased if an operator has paused the range: why, and since when
	Lasting      time.Duration // EventStalled, EventRecovered: how long that was so
	Err          error         // EventDeliveryFailed, EventFlushed, EventReleased: why; nil for a call of Flush that succeeded and for an orderly release
}

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of event.
const (
	EventAcquired       EventKind = "acquired"      // this host owns the lease now
	EventDelivered      EventKind = "delivered"     // the handler accepted a batch
	EventDeliveryFailed EventKind = "failed"        // the handler failed; the changes that it did not handle are delivered again, postponed or given up
	EventDeadLettered   EventKind = "dead-lettered" // a change was given up and is in the dead letter store
	EventPostponed      EventKind = "postponed"     // a change is in the dead letter store until it is due; also one that follows it
	EventFiltered       EventKind = "filtered"      // changes that were read do not pass the filter
	EventCheckpointed   EventKind = "checkpointed"  // the lease document holds a newer continuation
	EventSplit          EventKind = "split"         // the lease gave way to children
	EventReleased       EventKind = "released"      // this host no longer owns the lease
	EventCaughtUp       EventKind = "caught-up"     // the first read since the acquisition that found nothing more
	EventStalled        EventKind = "stalled"       // the range makes no progress; once until it recovers
	EventRecovered      EventKind = "recovered"     // the range that was stalled makes progress again
	EventFlushed        EventKind = "flushed"       // [Function.Flush] was called, or could not be called in time; before Split and Released
)

// CloseReason says why a host stopped working on a range.
type CloseReason string

// The reasons. ClosedStopped, ClosedCaughtUp, ClosedGone, ClosedHandedOver, ClosedPaused and
// ClosedPhaseEnded are the good ones.
const (
	ClosedStopped    CloseReason = "stopped"     // the host is stopping
	ClosedCaughtUp   CloseReason = "caught up"   // a drain found nothing more
	ClosedGone       CloseReason = "gone"        // the range split or merged; children follow
	ClosedHandedOver CloseReason = "handed over" // another host asked for its share
	ClosedPaused     CloseReason = "paused"      // an operator has paused the range
	ClosedPhaseEnded CloseReason = "phase ended" // the snapshot of the range was read, or has to begin again, or the position was set back after a failover; the lease is acquired again at once
	ClosedLeaseLost  CloseReason = "lease lost"  // another host has it, or it was deleted, or an operator has moved its position
	ClosedStuck      CloseReason = "stuck"       // the handler did not return
	ClosedBroken     CloseReason = "broken"      // the feed or the lease cannot be used
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
		return ClosedStopped
	case errors.Is(err, feed.ErrCaughtUp):
		return ClosedCaughtUp
	case errors.Is(err, lease.ErrSplit):
		return ClosedGone
	case errors.Is(err, errHandedOver):
		return ClosedHandedOver
	case errors.Is(err, errPaused):
		return ClosedPaused
	case errors.Is(err, feed.ErrSnapshotRead), errors.Is(err, errSnapshotVoid), errors.Is(err, errFeedFailedOver), errors.Is(err, errPositionLost):
		return ClosedPhaseEnded
	case errors.Is(err, lease.ErrLost):
		return ClosedLeaseLost
	case errors.As(err, &hung):
		return ClosedStuck
	default:
		return ClosedBroken
	}
}

// isOrderly reports whether the reason is an orderly one.
func (r CloseReason) isOrderly() bool {
	return r == ClosedStopped || r == ClosedCaughtUp || r == ClosedGone || r == ClosedHandedOver || r == ClosedPaused || r == ClosedPhaseEnded
}

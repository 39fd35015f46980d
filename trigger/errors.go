package trigger

import (
	"errors"

	"halley/trigger/internal/delivery"
	"halley/trigger/internal/lease"
)

// ErrNoFunction is wrapped by the error of [Host.DrainRange] if the host has no function of
// the name. The same message cannot succeed on this host.
var ErrNoFunction = errors.New("no function")

// ErrLeaseLost means that this host does not own the lease of a range any more: another host
// has it, or it was deleted, or an operator has moved its position. It is the cause of the
// end of a handler call's context, see [context.Cause], and the error that Function.Closed and
// an [Event] have with the reason [ClosedLeaseLost].
var ErrLeaseLost = lease.ErrLost

// HungError is the error of a handler call that did not return within Options.StuckGrace
// after its deadline. Function.Closed and an [Event] have it with the reason [ClosedStuck].
type HungError = delivery.HungError

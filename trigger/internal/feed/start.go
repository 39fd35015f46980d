package feed

import (
	"time"

	"halley/trigger/cosmos"
)

// StartKind says how a [Start] is given.
type StartKind int

// The kinds of start.
const (
	StartNow StartKind = iota
	StartBeginning
	StartTime
	StartContinuation
)

// Start is the position at which a range without a checkpoint begins.
type Start struct {
	Kind         StartKind
	Time         time.Time // of StartTime
	Continuation string    // of StartContinuation
}

// feedStart returns the start as a read without a continuation sends it.
func (s Start) feedStart() cosmos.Start {
	switch s.Kind {
	case StartBeginning:
		return cosmos.Start{}
	case StartTime:
		return cosmos.StartAt(s.Time)
	default:
		return cosmos.StartNow
	}
}

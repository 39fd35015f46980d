package feed

import (
	"fmt"
	"strings"
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
	StartSnapshot // of a function in all-versions mode: latest versions first
)

// Start says where a range begins that has no checkpoint yet. The zero value is now.
type Start struct {
	Kind         StartKind
	Time         time.Time // of StartTime
	Continuation string    // of StartContinuation
}

// ParseStart parses a setting: "now", "beginning", "snapshot", or a time in RFC 3339.
func ParseStart(s string) (Start, error) {
	switch strings.ToLower(s) {
	case "", "now":
		return Start{}, nil
	case "beginning":
		return Start{Kind: StartBeginning}, nil
	case "snapshot":
		return Start{Kind: StartSnapshot}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return Start{}, fmt.Errorf(`start %q is neither "now", "beginning", "snapshot" nor an RFC 3339 time such as 2026-01-31T12:00:00Z`, s)
	}
	return Start{Kind: StartTime, Time: t}, nil
}

// String returns the start as [ParseStart] takes it, or the continuation.
func (s Start) String() string {
	switch s.Kind {
	case StartBeginning:
		return "beginning"
	case StartTime:
		return s.Time.UTC().Format(time.RFC3339)
	case StartContinuation:
		return s.Continuation
	case StartSnapshot:
		return "snapshot"
	default:
		return "now"
	}
}

// SinceBeginning stands for the time at which leases were first created if their container
// was deleted and created again while a host ran: they begin at the beginning of its feed,
// whatever the start is. A continuation belongs to the former container, and a start from
// now would skip what was written before a host noticed. All versions begin now, or with
// a snapshot.
var SinceBeginning = time.Unix(1, 0)

// Since returns where a lease without a continuation begins. since is the moment when the
// function's leases were first created, or zero before that.
//
// Bootstrap gives every lease a position if the function starts from now. A lease
// without one was created by a .NET host, or again by the audit, and its history is
// unknown: its "now" means the time of the first bootstrap, to avoid skipping
// changes. All-versions mode cannot begin at a time; there it means the moment when
// the lease is first used.
func (s Start) Since(since time.Time, mode cosmos.Mode) Start {
	if s.Kind == StartSnapshot {
		return s
	}
	if since.Equal(SinceBeginning) {
		if mode == cosmos.ModeAllVersions {
			return Start{}
		}
		return Start{Kind: StartBeginning}
	}
	if s.Kind == StartNow && mode == cosmos.ModeLatestVersion && !since.IsZero() {
		return Start{Kind: StartTime, Time: since}
	}
	return s
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

package trigger

import (
	"fmt"
	"strings"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

// Start says where a range begins that has no checkpoint yet. A checkpoint always
// wins over it. The zero value is [FromNow].
type Start struct{ feedStart feed.Start }

// FromNow starts with changes that are written after the leases are first created.
// The position is saved at that moment, before anything is delivered.
func FromNow() Start { return Start{} }

// FromBeginning starts with the oldest document that still exists.
func FromBeginning() Start { return Start{feed.Start{Kind: feed.StartBeginning}} }

// FromTime starts with changes that were written after t; the service is precise
// to about five seconds.
func FromTime(t time.Time) Start { return Start{feed.Start{Kind: feed.StartTime, Time: t}} }

// FromContinuation starts every range at one continuation, a raw etag of the feed
// such as "\"1526\"".
func FromContinuation(token string) Start {
	return Start{feed.Start{Kind: feed.StartContinuation, Continuation: token}}
}

// ParseStart parses a setting: "now", "beginning", or a time in RFC 3339.
func ParseStart(s string) (Start, error) {
	switch strings.ToLower(s) {
	case "", "now":
		return FromNow(), nil
	case "beginning":
		return FromBeginning(), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return Start{}, fmt.Errorf(`start %q is neither "now", "beginning" nor an RFC 3339 time such as 2026-01-31T12:00:00Z`, s)
	}
	return FromTime(t), nil
}

func (s Start) String() string {
	switch s.feedStart.Kind {
	case feed.StartBeginning:
		return "beginning"
	case feed.StartTime:
		return s.feedStart.Time.UTC().Format(time.RFC3339)
	case feed.StartContinuation:
		return s.feedStart.Continuation
	default:
		return "now"
	}
}

// startSince returns where a lease without a continuation begins. since is the
// moment when the function's leases were first created, or zero before that.
//
// Bootstrap gives every lease a position if the function starts from now. A lease
// without one was created by a .NET host, or again by the audit, and its history is
// unknown: its "now" means the time of the first bootstrap, to avoid skipping
// changes. All-versions mode cannot begin at a time; there it means the moment when
// the lease is first used.
func (f *Function) startSince(since time.Time) feed.Start {
	if f.StartFrom.feedStart.Kind == feed.StartNow && f.ChangeFeedMode == cosmos.ModeLatestVersion && !since.IsZero() {
		return feed.Start{Kind: feed.StartTime, Time: since}
	}
	return f.StartFrom.feedStart
}

package trigger

import (
	"time"

	"halley/trigger/internal/feed"
)

// Start says where a range begins that has no checkpoint yet. A checkpoint always
// wins over it. The zero value is [FromNow], and the functions From… return others. Its
// text is that of [ParseStart], or a continuation.
type Start = feed.Start

// FromNow starts with changes that are written after the leases are first created.
// The position is saved at that moment, before anything is delivered.
func FromNow() Start { return Start{} }

// FromBeginning starts with the oldest document that still exists.
func FromBeginning() Start { return Start{Kind: feed.StartBeginning} }

// FromTime starts with changes that were written after t; the service is precise
// to about five seconds.
func FromTime(t time.Time) Start { return Start{Kind: feed.StartTime, Time: t} }

// FromContinuation starts every range at one continuation, a raw etag of the feed
// such as "\"1526\"".
func FromContinuation(token string) Start {
	return Start{Kind: feed.StartContinuation, Continuation: token}
}

// ParseStart parses a setting: "now", "beginning", "snapshot", or a time in RFC 3339.
func ParseStart(s string) (Start, error) { return feed.ParseStart(s) }

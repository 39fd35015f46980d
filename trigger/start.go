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

// FromSnapshot starts a function in all-versions mode with the latest version of each
// document that exists, and continues with every version and delete that is written after.
// Changes of the first part are marked, see [Change.FromSnapshot]. A document that is changed
// or deleted meanwhile may come only with that change, so a handler must take a replace or a
// delete of an id that it has not seen.
//
// With manual checkpoints it needs [Function.Flush]. If a range is not read before the
// retention of all versions ends, its snapshot begins again; Status warns before. If no host reads
// a range for longer than that, an operator begins a new snapshot, and [Function.SnapshotRead]
// removes what was deleted meanwhile.
func FromSnapshot() Start { return Start{Kind: feed.StartSnapshot} }

// FromContinuation starts every range at one continuation, a raw etag of the feed
// such as "\"1526\"".
func FromContinuation(token string) Start {
	return Start{Kind: feed.StartContinuation, Continuation: token}
}

// ParseStart parses a setting: "now", "beginning", "snapshot", or a time in RFC 3339.
func ParseStart(s string) (Start, error) { return feed.ParseStart(s) }

package trigger

import (
	"fmt"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// Start says where a range begins that has no checkpoint yet. A checkpoint
// always wins over it. The zero value is [FromNow].
type Start struct {
	kind  startKind
	at    time.Time
	token string
}

type startKind int

const (
	startNow startKind = iota
	startBeginning
	startTime
	startToken
)

// FromNow starts with what is written after the leases are first created. The
// position is saved at that moment, before anything is delivered.
func FromNow() Start { return Start{} }

// FromBeginning starts with the oldest document that is still there.
func FromBeginning() Start { return Start{kind: startBeginning} }

// FromTime starts with what was written after t; the service keeps it to about
// five seconds.
func FromTime(t time.Time) Start { return Start{kind: startTime, at: t} }

// FromContinuation starts every range at one continuation, a raw etag of the
// feed such as "\"1526\"".
func FromContinuation(token string) Start { return Start{kind: startToken, token: token} }

// ParseStart reads what a setting says: "now", "beginning", or a time in RFC 3339.
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
	switch s.kind {
	case startBeginning:
		return "beginning"
	case startTime:
		return s.at.UTC().Format(time.RFC3339)
	case startToken:
		return s.token
	default:
		return "now"
	}
}

// begin is where a lease without a continuation begins. Bootstrap gives every
// lease a position when the function starts from now; one that has none was
// created by a .NET host, or anew by the audit, and nobody knows what was seen of
// it: so its now is the moment when the leases were first created. All versions
// cannot begin at a time: there it is the moment when the lease is first used.
func (f *function) begin() Start {
	if f.StartFrom.kind == startNow && f.ChangeFeedMode == cosmos.LatestVersion && !f.since.IsZero() {
		return FromTime(f.since)
	}
	return f.StartFrom
}

// feed is where a read without a continuation begins.
func (s Start) feed() cosmos.Start {
	switch s.kind {
	case startBeginning:
		return cosmos.Start{}
	case startTime:
		return cosmos.StartAt(s.at)
	default:
		return cosmos.StartNow
	}
}

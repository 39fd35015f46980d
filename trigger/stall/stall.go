// Package stall names the reasons why a range makes no progress, as the status of a host, its
// events and the lag of a lease tell them, and says what an operator can do.
package stall

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Stall says why a range makes no progress at the moment.
type Stall struct {
	Kind     Kind      `json:"kind"`
	Since    time.Time `json:"since,omitzero"`     // on the service's clock; zero if it is not known
	Attempt  int       `json:"attempt,omitempty"`  // HandlerFails: failed calls with the same changes
	Attempts int       `json:"attempts,omitempty"` // HandlerFails: after which they are dead-lettered; 0 is never
	Next     time.Time `json:"next,omitzero"`      // of the next attempt, on the service's clock
	Text     string    `json:"text,omitempty"`     // the error
}

// Kind is the kind of a [Stall].
type Kind string

// The kinds of stall.
const (
	HandlerFails    Kind = "handler"   // the handler fails on the next changes
	CallRuns        Kind = "call"      // a handler call has not returned yet
	Opening         Kind = "opened"    // Function.Opened has not returned yet
	Flushing        Kind = "flush"     // Function.Flush has not returned yet, or the last owner's has failed
	Removing        Kind = "remove"    // Function.SnapshotRead has not returned yet, or has failed: the snapshot of the range does not end
	StorePending    Kind = "store"     // the dead letter store fails
	Breaker         Kind = "breaker"   // everything fails, so the circuit breaker pauses the range
	FeedFails       Kind = "feed"      // the feed cannot be read
	PositionAhead   Kind = "ahead"     // no region of the account has reached the position of the range
	RetentionMissed Kind = "retention" // the feed of all versions refuses the position of the range: changes after it are probably gone
	FeedThrottled   Kind = "throttle"  // the service throttles reads of the feed
	LeaseFails      Kind = "lease"     // the lease cannot be written
	Unreadable      Kind = "document"  // the lease document cannot be read: no host reads the range
	NewerForm       Kind = "version"   // a newer version of Halley has written the lease document, or postponed changes of the range: this one leaves it alone
	OwnerSilent     Kind = "owner"     // the owner has not written its lease in time
	NoOwner         Kind = "free"      // no host has taken the range although it has changes
	Paused          Kind = "operator"  // an operator has paused the range, see package leases
	RateLimited     Kind = "rate"      // the next batch waits for RateLimits.Rate
	ReadsLimited    Kind = "units"     // the next read of the feed waits for RateLimits.ReadRequestUnits
	RangeWaits      Kind = "range"     // any other reason
)

// kindTexts begin the description of a stall; its duration follows.
var kindTexts = map[Kind]string{
	HandlerFails:    "handler has failed",
	CallRuns:        "handler call running",
	Opening:         "waiting for Opened",
	Flushing:        "changes not flushed",
	Removing:        "waiting for SnapshotRead at the end of the snapshot",
	StorePending:    "waiting for the dead letter store",
	Breaker:         "paused by the circuit breaker",
	FeedFails:       "feed not readable",
	PositionAhead:   "waiting for a position",
	FeedThrottled:   "feed throttled",
	RetentionMissed: "position refused by the feed of all versions",
	LeaseFails:      "lease writes refused",
	Unreadable:      "lease document not readable",
	NewerForm:       "left alone",
	OwnerSilent:     "owner silent",
	NoOwner:         "without an owner",
	Paused:          "paused by an operator",
	RateLimited:     "held back by RATE",
	ReadsLimited:    "held back by READ_REQUEST_UNITS",
}

// IsLimit reports whether the range waits for a limit that its function sets. It then
// does as it was told, however long it waits: a stall of this kind is not reported by an
// event of kind EventStalled.
func (k Kind) IsLimit() bool { return k == RateLimited || k == ReadsLimited }

// Describe says in a line why the range is stalled, at a time of the service's clock.
func (s Stall) Describe(now time.Time) string {
	var b strings.Builder
	b.WriteString(cmp.Or(kindTexts[s.Kind], "waiting"))
	if !s.Since.IsZero() {
		fmt.Fprintf(&b, " for %s", roundAge(now.Sub(s.Since)))
	}
	switch {
	case s.Kind != HandlerFails:
	case s.Attempts == 0:
		fmt.Fprintf(&b, ", attempt %d, no limit", s.Attempt)
	case s.Attempt > s.Attempts: // the circuit breaker or the store has held up the dead letter
		fmt.Fprintf(&b, ", its %d attempts are spent", s.Attempts)
	default:
		fmt.Fprintf(&b, ", attempt %d of %d", s.Attempt, s.Attempts)
	}
	if wait := s.Next.Sub(now); !s.Next.IsZero() && s.Kind == OwnerSilent {
		if wait > 0 {
			fmt.Fprintf(&b, " (lease expires in %s)", roundAge(wait))
		} else {
			fmt.Fprintf(&b, " (lease expired %s ago, and no host takes it)", roundAge(-wait))
		}
	} else if wait > 0 { // an old lease may tell of an attempt that has begun since
		fmt.Fprintf(&b, ", next in %s", roundAge(wait))
	}
	if s.Text != "" {
		b.WriteString(": " + s.Text)
	}
	return b.String()
}

// advice is the next step of an operator, for each kind of stall.
var advice = map[Kind]string{
	HandlerFails:    "repair the handler or what it calls; without a limit of attempts and a dead letter store the range waits until it succeeds",
	CallRuns:        "look at what the handler calls; at HANDLER_TIMEOUT the call's context ends",
	Opening:         "look at what Opened of the function waits for; nothing is delivered until it returns",
	Flushing:        "look at what Flush of the function waits for, or why its sink refuses; what it does not flush is delivered again",
	Removing:        "look at what SnapshotRead of the function waits for, or why its sink refuses to remove what the snapshot has not shown; the range stays in its snapshot until it succeeds",
	StorePending:    "make the dead letter store and the handler's sink reachable; nothing is lost meanwhile",
	Breaker:         "make the dead letter store and the handler's sink reachable; nothing is lost meanwhile",
	FeedThrottled:   "raise the throughput of the monitored container, or wait: the range continues by itself",
	FeedFails:       "check the network, the account and the identity's permissions",
	PositionAhead:   "set the position back to a time before the failover, or have LOST_POSITION=seek do it: until the feed has reached the position, new changes are not delivered",
	RetentionMissed: "if changes after the position have left the retention of all versions, move the range to a new snapshot, which shows the documents that exist; if the function does not start from a snapshot, move it to now, and changes in between are lost",
	LeaseFails:      "check the lease container and its throughput",
	Unreadable:      "repair the document or restore its lease from an export; if it is deleted, hosts create the lease again within two audits, and changes are delivered again",
	NewerForm:       "run the version that has written it; docs/upgrading.md tells how to go back to this one",
	OwnerSilent:     "check that the owner's process runs and can write its lease, of which its log and its page tell; another host takes the range when the lease has expired",
	Paused:          "resume the range when the reason is gone",
	RateLimited:     "nothing is lost; raise the limit if there is room for more",
	ReadsLimited:    "nothing is lost; raise the limit if there is room for more",
	NoOwner:         "start a host, or check why the running ones do not take the range",
}

// Advice says what an operator can do about the stall.
func (s Stall) Advice() string {
	if s.Kind == HandlerFails && s.Attempts > 0 {
		return "repair the handler or what it calls; the changes are dead-lettered after their attempts, and a replay delivers them again"
	}
	return cmp.Or(advice[s.Kind], "see the text")
}

func roundAge(d time.Duration) time.Duration { return max(d, 0).Round(time.Second) }

package trigger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/lease"
)

// Stall says why a range makes no progress at the moment.
type Stall struct {
	Kind     StallKind `json:"kind"`
	Since    time.Time `json:"since"`              // on the service's clock
	Attempt  int       `json:"attempt,omitempty"`  // StallHandlerFails: failed calls with the same changes
	Attempts int       `json:"attempts,omitempty"` // StallHandlerFails: after which they are dead-lettered; 0 is never
	Next     time.Time `json:"next,omitzero"`      // of the next attempt, on the service's clock
	Text     string    `json:"text,omitempty"`     // the error
}

// StallKind is the kind of a [Stall].
type StallKind string

// The kinds of stall.
const (
	StallHandlerFails  StallKind = "handler"  // the handler fails on the next changes
	StallCallRuns      StallKind = "call"     // a handler call has not returned yet
	StallOpening       StallKind = "opened"   // [Function.Opened] has not returned yet
	StallFlushing      StallKind = "flush"    // [Function.Flush] has not returned yet, or the last owner's has failed
	StallStorePending  StallKind = "store"    // the dead letter store fails
	StallBreaker       StallKind = "breaker"  // everything fails, so the circuit breaker pauses the range
	StallFeedFails     StallKind = "feed"     // the feed cannot be read
	StallFeedThrottled StallKind = "throttle" // the service throttles reads of the feed
	StallLeaseFails    StallKind = "lease"    // the lease cannot be written
	StallUnreadable    StallKind = "document" // the lease document cannot be read: no host reads the range
	StallOwnerSilent   StallKind = "owner"    // the owner has not written its lease in time
	StallNoOwner       StallKind = "free"     // no host has taken the range although it has changes
	StallPaused        StallKind = "operator" // an operator has paused the range, see package leases
	StallRateLimited   StallKind = "rate"     // the next batch waits for [RateLimits.Rate]
	StallReadsLimited  StallKind = "units"    // the next read of the feed waits for [RateLimits.ReadRequestUnits]
	StallRangeWaits    StallKind = "range"    // any other reason
)

// longCall is the time after which a call of the function that has not returned is shown as
// the reason why its range makes no progress, unless StallAfter is shorter.
const longCall = 10 * time.Second

// stallTexts begin the description of a stall; its duration follows.
var stallTexts = map[StallKind]string{
	StallHandlerFails:  "handler has failed",
	StallCallRuns:      "handler call running",
	StallOpening:       "waiting for Opened",
	StallFlushing:      "changes not flushed",
	StallStorePending:  "waiting for the dead letter store",
	StallBreaker:       "paused by the circuit breaker",
	StallFeedFails:     "feed not readable",
	StallFeedThrottled: "feed throttled",
	StallLeaseFails:    "lease writes refused",
	StallUnreadable:    "lease document not readable",
	StallOwnerSilent:   "owner silent",
	StallNoOwner:       "without an owner",
	StallPaused:        "paused by an operator",
	StallRateLimited:   "held back by RATE",
	StallReadsLimited:  "held back by READ_REQUEST_UNITS",
}

// IsLimit reports whether the range waits for a limit that its function sets. It then
// does as it was told, however long it waits: a stall of this kind is not reported by an
// event of kind EventStalled.
func (k StallKind) IsLimit() bool { return k == StallRateLimited || k == StallReadsLimited }

// Describe says in a line why the range is stalled, at a time of the service's clock.
func (s Stall) Describe(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s for %s", cmp.Or(stallTexts[s.Kind], "waiting"), roundAge(now.Sub(s.Since)))
	if s.Kind == StallHandlerFails && s.Attempts > 0 {
		fmt.Fprintf(&b, ", attempt %d of %d", s.Attempt, s.Attempts)
	} else if s.Kind == StallHandlerFails {
		fmt.Fprintf(&b, ", attempt %d, no limit", s.Attempt)
	}
	if wait := s.Next.Sub(now); !s.Next.IsZero() && s.Kind == StallOwnerSilent {
		if wait > 0 {
			fmt.Fprintf(&b, " (lease expires in %s)", roundAge(wait))
		} else {
			fmt.Fprintf(&b, " (lease expired %s ago, and no host takes it)", roundAge(-wait))
		}
	} else if !s.Next.IsZero() {
		fmt.Fprintf(&b, ", next in %s", roundAge(max(wait, 0)))
	}
	if s.Text != "" {
		b.WriteString(": " + s.Text)
	}
	return b.String()
}

// Advice says what an operator can do about the stall.
func (s Stall) Advice() string {
	switch s.Kind {
	case StallHandlerFails:
		if s.Attempts > 0 {
			return "repair the handler or what it calls; the changes are dead-lettered after their attempts, and a replay delivers them again"
		}
		return "repair the handler or what it calls; without a limit of attempts and a dead letter store the range waits until it succeeds"
	case StallCallRuns:
		return "look at what the handler calls; at HANDLER_TIMEOUT the call's context ends"
	case StallOpening:
		return "look at what Opened of the function waits for; nothing is delivered until it returns"
	case StallFlushing:
		return "look at what Flush of the function waits for, or why its sink refuses; what it does not flush is delivered again"
	case StallStorePending, StallBreaker:
		return "make the dead letter store and the handler's sink reachable; nothing is lost meanwhile"
	case StallFeedThrottled:
		return "raise the throughput of the monitored container, or wait: the range continues by itself"
	case StallFeedFails:
		return "check the network, the account and the identity's permissions"
	case StallLeaseFails:
		return "check the lease container and its throughput"
	case StallUnreadable:
		return "repair the document or restore its lease from an export; if it is deleted, hosts create the lease again within two audits, and changes are delivered again"
	case StallOwnerSilent:
		return "check that the owner's process runs; another host takes the range when the lease has expired"
	case StallPaused:
		return "resume the range when the reason is gone"
	case StallRateLimited, StallReadsLimited:
		return "nothing is lost; raise the limit if there is room for more"
	case StallNoOwner:
		return "start a host, or check why the running ones do not take the range"
	}
	return "see the text"
}

func roundAge(d time.Duration) time.Duration { return max(d, 0).Round(time.Second) }

// stallOf classifies an error that delivery, the reader or the lease's writer reports.
func stallOf(err error) StallKind {
	switch {
	case errors.Is(err, delivery.ErrStoreFails):
		return StallStorePending
	case errors.Is(err, delivery.ErrPaused):
		return StallBreaker
	}
	return StallRangeWaits
}

// feedStallOf classifies an error of reading the feed.
func feedStallOf(err error) StallKind {
	if throttled, _ := cosmos.IsThrottled(err); throttled {
		return StallFeedThrottled
	}
	return StallFeedFails
}

// statusProperty is the lease property in which an owner tells other machines why its
// range makes no progress. It goes with the regular writes of the lease.
const statusProperty = "halley.status"

// leaseStatus is the value of statusProperty, as JSON. Times are Unix seconds on the
// service's clock.
type leaseStatus struct {
	Kind        StallKind `json:"kind,omitempty"`
	Since       int64     `json:"since,omitempty"`
	Attempt     int       `json:"attempt,omitempty"`
	Attempts    int       `json:"attempts,omitempty"`
	Next        int64     `json:"next,omitempty"`
	Text        string    `json:"text,omitempty"`       // at most lease.MaxText bytes
	Checkpoint  int64     `json:"checkpoint,omitempty"` // when the position last moved
	DeadLetters int       `json:"deadLetters,omitempty"`
}

// parseLeaseStatus reads the property of a lease. The owner of a lease that Halley did
// not write last has not written it, so it is not valid then.
func parseLeaseStatus(l *lease.Lease) (s leaseStatus) {
	if l.Owner() != "" && !l.OwnedByHalley() {
		return s
	}
	if json.Unmarshal([]byte(l.Property(statusProperty)), &s) != nil {
		return leaseStatus{}
	}
	s.Text = lease.CleanText(s.Text) // another host, or anybody with access to the container, wrote it
	return s
}

// stall returns the stall that the property tells of.
func (s leaseStatus) stall() (Stall, bool) {
	stall := Stall{Kind: s.Kind, Since: unixTime(s.Since), Attempt: s.Attempt, Attempts: s.Attempts, Next: unixTime(s.Next), Text: s.Text}
	return stall, s.Kind != ""
}

// pauseStall returns the stall of a range that an operator has paused.
func pauseStall(l *lease.Lease) (Stall, bool) {
	p, paused := l.Paused()
	return Stall{Kind: StallPaused, Since: p.Since.UTC(), Text: lease.CleanText(p.Reason)}, paused
}

// unreadableStall returns the stall of a range whose lease document cannot be read.
func unreadableStall(u lease.Unreadable) Stall {
	return Stall{Kind: StallUnreadable, Since: u.Since.UTC(), Text: lease.CleanText(fmt.Sprintf("lease %q: %v", u.ID, u.Err))}
}

func unixTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

func unixSeconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// encode returns the property's value, "" if there is nothing to tell.
func (s leaseStatus) encode() string {
	if s == (leaseStatus{}) {
		return ""
	}
	s.Text = lease.CleanText(s.Text)
	b, _ := json.Marshal(s) // strings and numbers encode
	return string(b)
}

// longestStall returns the one of several stalls that lasts longest.
func longestStall(stalls []Stall) (longest Stall, ok bool) {
	for i, s := range stalls {
		if i == 0 || s.Since.Before(longest.Since) {
			longest = s
		}
	}
	return longest, len(stalls) > 0
}

func describeStalls(stalls []Stall, now time.Time) []string {
	var texts []string
	for _, s := range stalls {
		texts = append(texts, s.Describe(now))
	}
	return texts
}

package trigger

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
	"halley/trigger/stall"
)

// longCall is the time after which a call of the function that has not returned is shown as
// the reason why its range makes no progress, unless StallAfter is shorter.
const longCall = 10 * time.Second

// stallOf classifies an error that delivery, the reader or the lease's writer reports.
func stallOf(err error) stall.Kind {
	switch {
	case errors.Is(err, delivery.ErrStoreFails):
		return stall.StorePending
	case errors.Is(err, delivery.ErrPaused):
		return stall.Breaker
	case errors.Is(err, delivery.ErrNewerForm):
		return stall.NewerForm
	}
	return stall.RangeWaits
}

// feedStallOf classifies an error of reading the feed in a mode.
func feedStallOf(err error, mode cosmos.Mode) stall.Kind {
	if throttled, _ := cosmos.IsThrottled(err); throttled {
		return stall.FeedThrottled
	}
	var ahead *feed.AheadError
	if errors.As(err, &ahead) {
		return stall.PositionAhead
	}
	if mode == cosmos.ModeAllVersions && cosmos.Classify(err) == cosmos.OutcomeInvalid {
		return stall.RetentionMissed
	}
	return stall.FeedFails
}

// statusProperty is the lease property in which an owner tells other machines why its
// range makes no progress. It goes with the regular writes of the lease.
const statusProperty = "halley.status"

// leaseStatus is the value of statusProperty, as JSON. Times are Unix seconds on the
// service's clock.
type leaseStatus struct {
	Kind        stall.Kind `json:"kind,omitempty"`
	Since       int64      `json:"since,omitempty"`
	Attempt     int        `json:"attempt,omitempty"`
	Attempts    int        `json:"attempts,omitempty"`
	Next        int64      `json:"next,omitempty"`
	Text        string     `json:"text,omitempty"`       // at most lease.MaxText bytes
	Told        bool       `json:"told,omitempty"`       // an owner has reported the stall: its recovery is news
	Checkpoint  int64      `json:"checkpoint,omitempty"` // when the position last moved
	DeadLetters int        `json:"deadLetters,omitempty"`
	Expiry      string     `json:"expiry,omitempty"` // why changes may be lost soon; at most lease.MaxText bytes
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
	s.Text, s.Expiry = lease.CleanText(s.Text), lease.CleanText(s.Expiry) // another host, or anybody with access to the container, wrote it
	return s
}

// stall returns the stall that the property tells of.
func (s leaseStatus) stall() (stall.Stall, bool) {
	cause := stall.Stall{Kind: s.Kind, Since: unixTime(s.Since), Attempt: s.Attempt, Attempts: s.Attempts, Next: unixTime(s.Next), Text: s.Text}
	return cause, s.Kind != ""
}

// pauseStall returns the stall of a range that an operator has paused.
func pauseStall(l *lease.Lease) (stall.Stall, bool) {
	p, paused := l.Paused()
	return stall.Stall{Kind: stall.Paused, Since: p.Since.UTC(), Text: lease.CleanText(p.Reason)}, paused
}

// unreadableStall returns the stall of a range whose lease document cannot be read.
func unreadableStall(u lease.Unreadable) stall.Stall {
	return stall.Stall{Kind: unreadableKind(u.Err), Since: u.Since.UTC(), Text: lease.CleanText(fmt.Sprintf("lease %q: %v", u.ID, u.Err))}
}

func unreadableKind(err error) stall.Kind {
	if errors.Is(err, lease.ErrNewerForm) {
		return stall.NewerForm
	}
	return stall.Unreadable
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
func longestStall(stalls []stall.Stall) (longest stall.Stall, ok bool) {
	for i, s := range stalls {
		if i == 0 || s.Since.Before(longest.Since) {
			longest = s
		}
	}
	return longest, len(stalls) > 0
}

func describeStalls(stalls []stall.Stall, now time.Time) []string {
	var texts []string
	for _, s := range stalls {
		texts = append(texts, s.Describe(now))
	}
	return texts
}

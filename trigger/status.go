package trigger

import (
	"cmp"
	"sort"
	"time"

	"halley/trigger/internal/lease"
	"halley/trigger/stall"
	"halley/trigger/units"
)

// Summary counts the work of a drain.
type Summary struct {
	Ranges  int `json:"ranges"`  // leases that were considered
	Idle    int `json:"idle"`    // of these: nothing new, no retry that is due, and no lease write
	Drained int `json:"drained"` // of these: worked on until caught up
	Skipped int `json:"skipped"` // of these: held by another host, cooling down after a failure, or paused by an operator
	Behind  int `json:"behind"`  // of these: not caught up, because the drain was ended or the range failed
	Batches int `json:"batches"` // handler calls that succeeded
	Changes int `json:"changes"` // that were handled, also by calls that failed on others
	Retries int `json:"retries"` // handler calls that failed

	DeadLetters int `json:"deadLetters"` // changes that were given up and stored
	Filtered    int `json:"filtered"`    // changes that were read and do not pass the filter

	// Lag is how many transactions the ranges are still behind that were worked on, as far
	// as their last reads have seen it, or whose changes wait for a retry, and LagSeconds the age of their oldest
	// change. The lag of LagUnknown ranges is not known.
	Lag        int64   `json:"lag"`
	LagSeconds float64 `json:"lagSeconds"`
	LagUnknown int     `json:"lagUnknown"`

	Problem string `json:"problem,omitempty"` // first error of a range that was not caught up, or not flushed; Drain returned none for it
}

// Add adds the counts of o, and its problem if there is none yet.
func (s *Summary) Add(o Summary) {
	s.Ranges += o.Ranges
	s.Idle += o.Idle
	s.Drained += o.Drained
	s.Skipped += o.Skipped
	s.Behind += o.Behind
	s.Batches += o.Batches
	s.Changes += o.Changes
	s.Retries += o.Retries
	s.DeadLetters += o.DeadLetters
	s.Filtered += o.Filtered
	s.Lag += o.Lag
	s.LagSeconds = max(s.LagSeconds, o.LagSeconds)
	s.LagUnknown += o.LagUnknown
	s.Problem = cmp.Or(s.Problem, o.Problem)
}

// Status is a snapshot of a host.
type Status struct {
	Owner     string           `json:"owner"`
	Functions []FunctionStatus `json:"functions"`

	ReadAheadBytes int64 `json:"readAheadBytes"` // of pages in memory, over all ranges
}

// FunctionStatus is a snapshot of one function on this host.
type FunctionStatus struct {
	Name    string      `json:"name"`
	Problem string      `json:"problem,omitempty"` // why the function makes no progress
	Leases  LeaseCounts `json:"leases"`            // of all hosts, as this host last listed them
	// SharedWith are other apps and functions that take leases of this one, as "app/function":
	// each handles only a part of the changes.
	SharedWith []string      `json:"sharedWith,omitempty"`
	Units      units.Hourly  `json:"units"`  // request units an hour that the function costs on this host
	Ranges     []RangeStatus `json:"ranges"` // those that this host works on or failed on, that are paused, or whose lease cannot be read, by token
}

// LeaseCounts counts the leases of a function by their state.
type LeaseCounts struct {
	Held   int `json:"held"`   // by a host that renews them
	Free   int `json:"free"`   // without an owner, or with one that does not renew
	Paused int `json:"paused"` // by an operator
}

// RangeStatus is a snapshot of one leased range.
type RangeStatus struct {
	Range         string        `json:"range"` // lease token
	Epoch         int64         `json:"epoch"`
	Continuation  string        `json:"continuation"` // newest read
	LastLSN       int64         `json:"lastLsn"`      // of the last change handled; 0 before the first
	Batches       int           `json:"batches"`
	Changes       int           `json:"changes"` // that were handled, also by calls that failed on others
	Retries       int           `json:"retries"`
	DeadLetters   int           `json:"deadLetters"`
	Filtered      int           `json:"filtered"`              // changes that were read and do not pass the filter
	WaitingKeys   int           `json:"waitingKeys"`           // keys with a change that is being retried
	BlockedKeys   int           `json:"blockedKeys"`           // keys with a dead letter, whose later changes follow it
	Postponed     int           `json:"postponed"`             // changes that the handler has postponed, and those that follow them
	PostponedKeys int           `json:"postponedKeys"`         // keys with a postponed change, whose later changes follow it
	NextDue       time.Time     `json:"nextDue,omitzero"`      // when the first postponed change is due, on the service's clock
	Checkpointed  time.Time     `json:"checkpointed,omitzero"` // when the position last moved, on the service's clock
	Since         time.Time     `json:"since"`                 // of the acquisition
	CaughtUp      time.Time     `json:"caughtUp,omitzero"`     // first read since then that found nothing more
	Cooldown      bool          `json:"cooldown,omitempty"`    // failed here; another host, or this one after a while, tries again
	Paused        bool          `json:"paused,omitempty"`      // an operator has paused the range, and no host works on it
	Expiring      bool          `json:"expiring,omitempty"`    // so late that changes may be lost soon: Problem says which
	Limited       bool          `json:"limited,omitempty"`     // waits for a limit of its function, and has no other problem
	Stalls        []stall.Stall `json:"stalls,omitempty"`      // why the range makes no progress, one for each lane at most
	Problem       string        `json:"problem,omitempty"`     // the same in words

	// Behind is how far the range is behind the newest transaction of the feed that
	// this host has seen, if BehindKnown. It counts transactions, also those of other
	// containers that share the throughput of the database, and 0 is caught up.
	Behind        int64   `json:"behind"`
	BehindKnown   bool    `json:"behindKnown"`
	Pending       int     `json:"pending"`       // changes that are read and not finished: a page or two at most
	BehindSeconds float64 `json:"behindSeconds"` // age of the oldest change that is read and not finished
}

// Status reports the ranges that the host works on. It may be called at any time. Once Run
// has returned nil, no function has leases, ranges or a problem.
func (h *Host) Status() Status {
	s := Status{Owner: h.Owner(), ReadAheadBytes: h.host.pageBudget.UsedBytes()}
	for _, r := range h.functionRunners {
		s.Functions = append(s.Functions, r.functionStatus())
	}
	return s
}

func (r *functionRunner) functionStatus() FunctionStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := FunctionStatus{Name: r.function.Name, Ranges: []RangeStatus{}, Leases: r.leaseCounts(), SharedWith: r.sharedWith, Units: r.measuredUnits().Hourly}
	if problem := cmp.Or(r.refusalError(), r.functionProblem, r.failoverError(), r.waitError()); problem != nil {
		s.Problem = problem.Error()
	}
	for _, stats := range r.rangeStats {
		s.Ranges = append(s.Ranges, stats.currentStatus())
	}
	for token, cause := range r.pausedRanges {
		if r.rangeStats[token] == nil {
			s.Ranges = append(s.Ranges, RangeStatus{Range: token, Paused: true, Stalls: []stall.Stall{cause}, Problem: cause.Describe(r.leases.Now())})
		}
	}
	for token, cause := range r.unreadable {
		if r.rangeStats[token] == nil {
			s.Ranges = append(s.Ranges, RangeStatus{Range: token, Stalls: []stall.Stall{cause}, Problem: cause.Describe(r.leases.Now())})
		}
	}
	for token, c := range r.coolingRanges {
		_, paused := r.pausedRanges[token]
		_, unreadable := r.unreadable[token]
		if paused || unreadable || r.rangeStats[token] != nil || c.isTaken || c.hasEnded() && !r.freeRanges[token] {
			continue
		}
		s.Ranges = append(s.Ranges, RangeStatus{Range: token, Cooldown: true, Stalls: []stall.Stall{c.cause}, Problem: c.cause.Describe(r.leases.Now())})
	}
	// slices.SortFunc would be compiled for this type: 20 kB of every app.
	sort.Slice(s.Ranges, func(i, j int) bool { return lease.CompareTokens(s.Ranges[i].Range, s.Ranges[j].Range) < 0 })
	return s
}

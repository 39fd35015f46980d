package trigger

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
)

// Summary is what a drain did.
type Summary struct {
	Ranges  int `json:"ranges"`  // leases that were looked at
	Idle    int `json:"idle"`    // of these: nothing new, and nothing written
	Drained int `json:"drained"` // of these: worked on until caught up
	Skipped int `json:"skipped"` // of these: held by another host, or resting after trouble
	Behind  int `json:"behind"`  // of these: left with work, because the drain was ended or the range failed
	Batches int `json:"batches"` // handler calls that succeeded
	Changes int `json:"changes"` // changes in them
	Retries int `json:"retries"` // handler calls that failed

	DeadLetters int `json:"deadLetters"` // changes that were given up and stored
}

// Add counts o in.
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
}

// Status is a snapshot of a host.
type Status struct {
	Owner     string           `json:"owner"`
	Functions []FunctionStatus `json:"functions"`
}

// FunctionStatus is a snapshot of one function on this host.
type FunctionStatus struct {
	Name    string        `json:"name"`
	Problem string        `json:"problem,omitempty"` // why the function makes no progress
	Ranges  []RangeStatus `json:"ranges"`            // those that this host works on or gave up, by token
}

// RangeStatus is a snapshot of one leased range.
type RangeStatus struct {
	Range        string    `json:"range"` // lease token
	Epoch        int64     `json:"epoch"`
	Continuation string    `json:"continuation"` // newest read
	LastLSN      int64     `json:"lastLsn"`      // of the last change handled; 0 before the first
	Batches      int       `json:"batches"`
	Changes      int       `json:"changes"`
	Retries      int       `json:"retries"`
	DeadLetters  int       `json:"deadLetters"`
	Since        time.Time `json:"since"`             // of the acquisition
	Resting      bool      `json:"resting,omitempty"` // given up after trouble; tried again in a while, by whoever takes it
	Problem      string    `json:"problem,omitempty"` // why the range makes no progress
}

// Status reports what the host works on. It may be called at any time.
func (h *Host) Status() Status {
	s := Status{Owner: h.me.owner}
	for _, f := range h.functions {
		s.Functions = append(s.Functions, f.status())
	}
	return s
}

func (f *function) status() FunctionStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := FunctionStatus{Name: f.Name, Ranges: []RangeStatus{}}
	if f.problem != nil {
		s.Problem = f.problem.Error()
	}
	for _, t := range f.workers {
		s.Ranges = append(s.Ranges, t.snapshot())
	}
	for token, r := range f.resting {
		if f.workers[token] != nil || r.over() {
			continue
		}
		s.Ranges = append(s.Ranges, RangeStatus{Range: token, Resting: true, Problem: r.err.Error()})
	}
	slices.SortFunc(s.Ranges, func(a, b RangeStatus) int { return strings.Compare(a.Range, b.Range) })
	return s
}

// tally keeps the counts of one worker for whoever asks.
type tally struct {
	late func() error // whether changes may be lost soon; or nil

	mu       sync.Mutex
	status   RangeStatus
	problems map[int]string // by where they are: a lane, or outside of lanes
}

// outside of lanes is where the feed is read and ranges are split.
const outside = -1

func newTally(l *lease, id identity) *tally {
	return &tally{problems: map[int]string{}, status: RangeStatus{Range: l.token, Epoch: id.epoch, Continuation: l.continuation, Since: time.Now()}}
}

func (t *tally) snapshot() RangeStatus {
	t.mu.Lock()
	s := t.status
	var problems []string
	for _, where := range slices.Sorted(maps.Keys(t.problems)) {
		if p := t.problems[where]; !slices.Contains(problems, p) {
			problems = append(problems, p)
		}
	}
	t.mu.Unlock()
	if t.late != nil {
		if err := t.late(); err != nil {
			problems = append(problems, err.Error())
		}
	}
	s.Problem = strings.Join(problems, "; ")
	return s
}

func (t *tally) update(change func(*RangeStatus)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.status)
}

// read notes a page; the feed works.
func (t *tally) read(p *cosmos.Page) {
	t.update(func(s *RangeStatus) {
		s.Continuation = p.Continuation
		delete(t.problems, outside)
	})
}

// delivered notes a batch that the handler accepted from a lane.
func (t *tally) delivered(lane int, e Event) {
	t.update(func(s *RangeStatus) {
		s.Batches++
		s.Changes += e.Changes
		s.LastLSN = e.LastLSN
		delete(t.problems, lane)
	})
}

// failed notes a batch that the handler refused.
func (t *tally) failed(lane int, e Event) {
	t.update(func(s *RangeStatus) {
		s.Retries++
		t.problems[lane] = e.Err.Error()
	})
}

// buried notes a change of a lane that was dead-lettered.
func (t *tally) buried(lane int) {
	t.update(func(s *RangeStatus) {
		s.DeadLetters++
		delete(t.problems, lane)
	})
}

// trouble notes why a lane, or what is outside of them, makes no progress.
func (t *tally) trouble(where int, err error) {
	t.update(func(*RangeStatus) { t.problems[where] = err.Error() })
}

// compareContinuations orders tokens by the position that they name: none
// first, then by LSN where both are one, else as text.
func compareContinuations(a, b string) int {
	x, errX := strconv.ParseInt(strings.Trim(a, `"`), 10, 64)
	y, errY := strconv.ParseInt(strings.Trim(b, `"`), 10, 64)
	if a == "" || b == "" || errX != nil || errY != nil {
		return strings.Compare(a, b)
	}
	return cmp.Compare(x, y)
}

// stackField is the stack of a panic, for the log.
func stackField(err error) zap.Field {
	var p *PanicError
	if errors.As(err, &p) {
		return zap.ByteString("stack", p.Stack)
	}
	return zap.Skip()
}

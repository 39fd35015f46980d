package page

import (
	"context"
	"io"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/stall"
)

// lookEvery is the time between two looks, for all viewers.
const lookEvery = 500 * time.Millisecond

// Source is the part of the page's data that the recorder does not have. The page reads
// it for viewers only, once for all of them.
type Source struct {
	// Look describes the process now, in at most about a second.
	Look func(context.Context) State
	// Behind returns how many changes each function is behind on this host, without I/O. Functions
	// of which that is not known are left out. It may be nil.
	Behind func() map[string]int64
	// DeadLetters returns a page of the records of all functions, the newest first. Its error
	// is about the token; other errors are in the page.
	DeadLetters func(context.Context, LetterQuery) (LetterPage, error)
	// FindDeadLetter returns the record of any kind with an id.
	FindDeadLetter func(ctx context.Context, id string) (trigger.DeadLetter, error)
	// Settings are the effective settings; secrets are redacted.
	Settings []Setting
	// ExportDeadLetters writes the selected dead letters as the command deadletters export
	// does, and ExportLeases the leases of a function as leases export does. If they are
	// nil, the page offers no copy.
	ExportDeadLetters func(context.Context, io.Writer, Selection) error
	ExportLeases      func(ctx context.Context, out io.Writer, function string) error
}

// LetterQuery asks for a page of dead letters and postponed changes. Empty fields select all.
type LetterQuery struct {
	Function, Range string
	Key             string // part of a key or of a document id
	Error           string // part of the error

	After string // token of the page before
	Limit int    // of the records
}

// LetterPage is a page of dead letters and postponed changes. The counts include those of the
// pages before.
type LetterPage struct {
	Records  []trigger.DeadLetter // the newest first
	Next     string               // token of the next page; "" if there is none
	Searched int                  // records that the stores have read

	// Dead and Postponed are the records that the stores have to search.
	Dead, Postponed int

	Stopped bool   // at a bound, before the page was full
	Problem string // of a store or a record; the others are listed
}

// State is one look at the hosts, functions and ranges.
type State struct {
	Hosts     []Host
	Functions []Function
	Ranges    []Range
	Why       []Cause  // why ranges make no progress, the most harmful first
	Poison    []string // ids of documents on which the handlers of a development run fail
}

// Host is a host that the page knows.
type Host struct {
	Name   string `json:"name"`
	State  string `json:"state"` // running; silent, if its leases are about to expire; or killed
	Leases int    `json:"leases"`

	Elsewhere bool `json:"elsewhere,omitempty"` // in another process: its leases tell of it
}

// Cause is one reason why ranges of a function make no progress, in words.
type Cause struct {
	Title    string `json:"title"` // the function, and its ranges that share the reason
	Cause    string `json:"cause"`
	Since    string `json:"since"`
	Evidence string `json:"evidence"`
	Next     string `json:"next"` // step of an operator
}

// Function is a function of the app.
type Function struct {
	Name        string `json:"name"`
	Container   string `json:"container"` // DATABASE/CONTAINER that it monitors
	DeadLetters string `json:"deadLetters"`
	Keeps       bool   `json:"keeps"` // dead letters can be read again
	Problem     string `json:"problem,omitempty"`
	Units       string `json:"units,omitempty"` // request units an hour, in words; "" is not known

	Ranges  int `json:"ranges"`  // the page counts them
	Stalled int `json:"stalled"` // of these
}

// Range is one lease of a function.
type Range struct {
	Function     string `json:"function"`
	Range        string `json:"range"` // lease token
	Owner        string `json:"owner"` // "" is free
	Paused       bool   `json:"paused,omitempty"`
	Limited      bool   `json:"limited,omitempty"` // Problem is only that it waits for a limit of its function
	Epoch        int64  `json:"epoch,string"`
	Continuation string `json:"continuation"`
	LastLSN      int64  `json:"lastLsn,string"` // of the last change that was handled; 0 is none

	Changes int64   `json:"changes"` // that it is behind
	Exact   bool    `json:"exact"`
	Known   bool    `json:"known"` // whether that is known
	Seconds float64 `json:"seconds"`

	Counted     bool `json:"counted"` // a host of this process has the range, so that the next four counts are known
	Batches     int  `json:"batches"` // since the acquisition, as the counts that follow
	Handled     int  `json:"handled"`
	Retries     int  `json:"retries"`
	DeadLetters int  `json:"deadLetters"`

	Waiting      int       `json:"waiting"`               // keys with a change that is being retried
	Blocked      int       `json:"blocked"`               // keys behind a dead letter
	Postponed    int       `json:"postponed"`             // keys with a postponed change
	NextDue      time.Time `json:"nextDue,omitzero"`      // when the first of these is due
	Checkpointed time.Time `json:"checkpointed,omitzero"` // when the position last moved

	Problem string `json:"problem,omitempty"` // why it makes no progress
	Advice  string `json:"advice,omitempty"`  // the next step of an operator

	Stalls  []stall.Stall `json:"-"`              // the reasons in Problem
	Renewed time.Time     `json:"-"`              // last write of the lease by a host of another process
	Rate    []int         `json:"rate,omitempty"` // delivered changes in slots of 5 s, the oldest first; the page adds it
}

// State is the state of a range in a word or two.
func (r *Range) State() string {
	switch {
	case r.Paused:
		return "paused"
	case r.Limited:
		return "limited"
	case r.Problem != "":
		return rangeStalled
	case r.Owner == "":
		return "free"
	case r.Changes > 0:
		return "behind"
	}
	return "caught up"
}

const rangeStalled = "stalled"

// Setting is one effective setting.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// health is the line above all others.
type health struct {
	Changes  int64   `json:"changes"` // sum of the lag
	Exact    bool    `json:"exact"`
	Known    bool    `json:"known"`
	Seconds  float64 `json:"seconds"`  // the largest
	Problems int     `json:"problems"` // ranges and functions with one
	Paused   int     `json:"paused"`   // ranges, by an operator
	Letters  int     `json:"letters"`  // -1 if they are not counted yet
	Hosts    int     `json:"hosts"`    // that run
}

func healthOf(s State, letters int) health {
	h := health{Exact: true, Known: true, Letters: letters}
	for _, r := range s.Ranges {
		h.Changes += r.Changes
		h.Exact, h.Known = h.Exact && r.Exact, h.Known && r.Known
		h.Seconds = max(h.Seconds, r.Seconds)
		if r.Problem != "" && !r.Paused && !r.Limited {
			h.Problems++
		}
		if r.Paused {
			h.Paused++
		}
	}
	for _, f := range s.Functions {
		if f.Problem != "" {
			h.Problems++
		}
	}
	for _, host := range s.Hosts {
		if host.State == "running" {
			h.Hosts++
		}
	}
	return h
}

// countRanges adds the number of ranges to their functions.
func (s *State) countRanges() {
	for i := range s.Functions {
		f := &s.Functions[i]
		f.Ranges, f.Stalled = 0, 0
		for j := range s.Ranges {
			if r := &s.Ranges[j]; r.Function == f.Name {
				f.Ranges++
				if r.State() == rangeStalled {
					f.Stalled++
				}
			}
		}
	}
}

// letterRow is a dead letter in a list.
type letterRow struct {
	ID         string           `json:"id"`
	Function   string           `json:"function"`
	Range      string           `json:"range"`
	LSN        int64            `json:"lsn,string"`
	Key        string           `json:"key"`
	DocumentID string           `json:"documentId"`
	Operation  cosmos.Operation `json:"operation"`
	Error      string           `json:"error"`
	Attempts   int              `json:"attempts"`
	Blocked    bool             `json:"blocked,omitempty"`
	Due        time.Time        `json:"due,omitzero"` // of a postponed change
	Time       time.Time        `json:"time"`
}

// letterDetail is a dead letter with its document.
type letterDetail struct {
	letterRow
	Written time.Time `json:"written"`
	Stack   string    `json:"stack,omitempty"`
	Text    string    `json:"text"`             // the whole error
	Hidden  bool      `json:"hidden,omitempty"` // the document is not shown
	image
}

func rowOf(d trigger.DeadLetter) letterRow {
	return letterRow{
		ID: d.ID, Function: d.Function, Range: d.Range, LSN: d.LSN, Key: d.Key, DocumentID: d.DocumentID, Operation: d.Operation,
		Error: firstLine(d.Error), Attempts: d.Attempts, Blocked: d.Blocked, Due: d.Due, Time: d.Time,
	}
}

func (p *Page) detailOf(d trigger.DeadLetter) letterDetail {
	detail := letterDetail{letterRow: rowOf(d), Written: d.Written, Stack: cutText(d.Stack, maxStackText), Text: cutText(d.Error, maxErrorText), Hidden: p.options.Hidden}
	if !p.options.Hidden {
		detail.image = imageOf(d.Document, d.Previous)
	}
	return detail
}

func (p *Page) state(ctx context.Context) State {
	return p.states.get(ctx, 0, func(ctx context.Context) State {
		s := p.options.Source.Look(ctx)
		s.countRanges()
		return s
	})
}

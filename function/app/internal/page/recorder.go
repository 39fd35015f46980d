package page

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"halley/trigger"
)

// Bounds of the recorder.
const (
	maxChanges  = 1000
	maxFailures = 200
	maxBytes    = 16 << 20 // of documents and errors
)

// Recorder keeps the life of the newest changes of all functions of a process, at most
// 1,000 and 16 MiB. It stands between the runtime and the handlers and stores; it
// changes nothing that they see. The zero value is ready. It may be used by any number
// of goroutines.
type Recorder struct {
	// FailuresOnly keeps the newest 200 changes of failed calls only, without documents,
	// which costs calls that succeed nothing. Set it before use.
	FailuresOnly bool

	mu      sync.Mutex // guards the fields below
	entries map[string]*entry
	order   []*entry // by arrival
	bytes   int
	dropped int
	version int64 // counts the updates of entries
	letters int64 // counts the updates of dead letter stores
	history history
	graphs  graphs
}

// sample records how many changes functions are behind.
func (r *Recorder) sample(behind map[string]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for function, changes := range behind {
		r.graphs.at(function, time.Now()).behind = changes
	}
}

// listGraphs returns the last hour of each function.
func (r *Recorder) listGraphs() []Graph {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.graphs.list(time.Now())
}

// Watch records the calls of a handler on a host. limit is the function's number of
// attempts; 0 or less is no limit.
func (r *Recorder) Watch(host string, limit int, handle trigger.Handler) trigger.Handler {
	if r.FailuresOnly {
		return r.watchFailures(host, max(limit, 0), handle)
	}
	return func(ctx context.Context, b trigger.Batch) error {
		calls := r.begin(ctx, host, max(limit, 0), b, time.Now())
		err := errGoexit
		defer func() { r.end(calls, b, err) }() // also if the handler ends the goroutine
		err = guardPanic(ctx, b, handle)
		return err
	}
}

// errGoexit is the error of a handler that ended its goroutine.
var errGoexit = errors.New("handler called runtime.Goexit")

// guardPanic returns a panic of the handler as the runtime would, so that its stack can
// be recorded.
func guardPanic(ctx context.Context, b trigger.Batch, handle trigger.Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &trigger.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return handle(ctx, b)
}

// recordedCall is the call of a handler with one change.
type recordedCall struct {
	entry    *entry
	changeID string // of the change as it was delivered, which may be edited
	number   int
}

// directCall marks the context of a call that a viewer asked for.
type directCall struct {
	id     string // of the entry
	edited bool
}

type directKey struct{}

// IsEdited reports whether a handler call delivers a document that a viewer has edited.
func IsEdited(ctx context.Context) bool {
	direct, _ := ctx.Value(directKey{}).(directCall)
	return direct.edited
}

// begin records the calls with the changes of a batch, which began at now.
func (r *Recorder) begin(ctx context.Context, host string, limit int, b trigger.Batch, now time.Time) []recordedCall {
	direct, isDirect := ctx.Value(directKey{}).(directCall)
	found := make([]*entry, len(b.Changes))
	for i, c := range b.Changes {
		found[i] = r.newEntry(b.Function, b.Range.ID, now, c)
		found[i].MaxAttempts = limit
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := make([]recordedCall, 0, len(found))
	for i, e := range found {
		id := e.ID
		if isDirect {
			if e = r.entries[direct.id]; e == nil {
				continue // it was dropped meanwhile
			}
		} else {
			e = r.add(e)
			e.Range = b.Range.ID
		}
		a := Attempt{
			Attempt: b.Attempt, Began: now, Host: host, Epoch: b.Epoch, Batch: len(b.Changes), State: Delivering,
			Direct: isDirect, Edited: direct.edited,
		}
		if a.Edited {
			a.Document, _ = shownText(b.Changes[i].Document)
		}
		r.update(e, func() {
			calls = append(calls, recordedCall{e, id, e.addCall(a)})
			e.setState(Delivering, now)
			if !isDirect {
				e.Attempt = b.Attempt
			}
		})
	}
	return calls
}

func (r *Recorder) end(calls []recordedCall, b trigger.Batch, err error) {
	now := time.Now()
	text, stack := "", ""
	failed := map[string]bool{}
	if err != nil {
		text = cutText(err.Error(), maxErrorText)
		var p *trigger.PanicError
		if errors.As(err, &p) {
			stack = cutText(string(p.Stack), maxStackText)
		}
		for _, c := range b.Judge(err).Failed {
			failed[idOf(b.Function, string(c.PartitionKey()), c.ID(), c)] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range calls {
		r.update(c.entry, func() { c.entry.finish(c.number, now, failed[c.changeID], text, stack) })
	}
}

// finish records the end of a call.
func (e *entry) finish(number int, now time.Time, failed bool, text, stack string) {
	state := Handled
	if failed {
		state = Failing
	} else {
		text, stack = "", ""
	}
	began := now
	if a := e.call(number); a != nil {
		began = a.Began
		a.Millis, a.State, a.Error, a.Stack = millis(now.Sub(began)), state, text, stack
	}
	e.Millis = millis(now.Sub(began))
	if state == Failing && e.Letter != "" { // a viewer tried it again
		state = DeadLettered
	}
	e.Error = firstLine(text)
	e.setState(state, now)
}

func (e *entry) setState(s ChangeState, now time.Time) {
	if e.State != s {
		e.State, e.Since = s, now
	}
}

func (r *Recorder) newEntry(function, token string, now time.Time, c trigger.Change) *entry {
	key, documentID := string(c.PartitionKey()), c.ID()
	e := &entry{}
	if !r.FailuresOnly {
		e.change = c.Clone()
	}
	e.Summary = Summary{
		ID: idOf(function, key, documentID, c), Function: function, Range: token, LSN: c.LSN, Key: key, DocumentID: documentID,
		Operation: c.Operation, Written: c.Time, Arrived: now, Since: now,
	}
	return e
}

// add returns the entry that is recorded for a change, which may be e. mu is held.
func (r *Recorder) add(e *entry) *entry {
	if known := r.entries[e.ID]; known != nil {
		return known
	}
	if r.entries == nil {
		r.entries = map[string]*entry{}
	}
	r.entries[e.ID] = e
	r.order = append(r.order, e)
	r.bytes += e.size()
	r.shrink(e)
	return e
}

// shrink drops the oldest entries but one until the rest is within the bounds. mu is held.
func (r *Recorder) shrink(but *entry) {
	limit := maxChanges
	if r.FailuresOnly {
		limit = maxFailures
	}
	for len(r.order) > 1 && (len(r.order) > limit || r.bytes > maxBytes) {
		at := 0
		if r.order[0] == but {
			at = 1
		}
		oldest := r.order[at]
		delete(r.entries, oldest.ID)
		r.order = slices.Delete(r.order, at, at+1)
		r.bytes -= oldest.size()
		r.dropped++
	}
}

// update changes an entry, which may have been dropped. mu is held.
func (r *Recorder) update(e *entry, change func()) {
	before := e.size()
	change()
	r.version++
	e.Version = r.version
	if r.entries[e.ID] == e {
		r.bytes += e.size() - before
		r.shrink(e)
	}
}

// Letter adds the change of a dead letter that no handler of this process has had, so
// that it can be delivered, and returns its id.
func (r *Recorder) Letter(d trigger.DeadLetter) (id string) {
	e := r.newEntry(d.Function, d.Range, time.Now(), d.Change())
	r.mu.Lock()
	defer r.mu.Unlock()
	e = r.add(e)
	r.update(e, func() { e.markLetter(d) })
	return e.ID
}

func (e *entry) markLetter(d trigger.DeadLetter) {
	state := DeadLettered
	switch {
	case d.IsPostponed():
		state = Postponed
	case d.Blocked:
		state = Blocked
	}
	e.setState(state, time.Now())
	e.Letter, e.Attempt = d.ID, max(d.Attempts, e.Attempt)
	if d.Error != "" {
		e.Error = firstLine(d.Error)
	}
	if len(e.calls) == 0 && d.Error != "" {
		e.addCall(Attempt{
			Attempt: d.Attempts, Began: d.Time, Epoch: d.Epoch, Batch: 1, State: Failing,
			Error: cutText(d.Error, maxErrorText), Stack: cutText(d.Stack, maxStackText),
		})
	}
}

// ErrDropped says that the recorder does not know a change (any more).
var ErrDropped = errors.New("the change is not kept any more")

// Deliver calls a handler that Watch has returned with one recorded change, and with
// another document unless that is nil. The feed's own delivery is not affected: the
// call may come before or after it.
func (r *Recorder) Deliver(ctx context.Context, id string, edited json.RawMessage, handle trigger.Handler) error {
	r.mu.Lock()
	e := r.entries[id]
	if e == nil {
		r.mu.Unlock()
		return ErrDropped
	}
	change := e.change.Clone()
	b := trigger.Batch{Function: e.Function, Attempt: e.Attempt + 1, Epoch: 1}
	b.Range.ID = e.Range
	if n := len(e.calls); n > 0 {
		b.Epoch = max(e.calls[n-1].Epoch, 1)
	}
	r.mu.Unlock()
	if edited != nil {
		change.Document = edited
	}
	b.Changes = []trigger.Change{change}
	return handle(context.WithValue(ctx, directKey{}, directCall{id, edited != nil}), b)
}

// Find returns a recorded change with its document.
func (r *Recorder) Find(id string) (Detail, trigger.Change, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil {
		return Detail{}, trigger.Change{}, false
	}
	detail := e.detail(time.Now())
	detail.Hidden = r.FailuresOnly
	return detail, e.change, true
}

// filter selects changes. Empty fields select all.
type filter struct {
	Function, Key, Range string
	State                ChangeState
}

func (f filter) wants(s *Summary) bool {
	return (f.Function == "" || f.Function == s.Function) && (f.Range == "" || f.Range == s.Range) &&
		(f.State == "" || f.State == s.State) && (f.Key == "" || strings.Contains(s.Key, f.Key) || strings.Contains(s.DocumentID, f.Key))
}

// changeList is a part of the changes, the newest first.
type changeList struct {
	Items   []Summary `json:"items"`
	Next    string    `json:"next,omitempty"` // after, for the items that follow
	Version int64     `json:"version,string"` // of the newest update
	Dropped int       `json:"dropped"`        // changes that are not kept any more
	Kept    int       `json:"kept"`
	More    bool      `json:"more,omitempty"` // further changes were updated since
}

// list returns the newest changes before the one with the id after, if that is not "".
func (r *Recorder) list(f filter, after string, limit int) changeList {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := changeList{Items: []Summary{}, Version: r.version, Dropped: r.dropped, Kept: len(r.order)}
	skip := after != "" && r.entries[after] != nil
	for _, e := range slices.Backward(r.order) {
		switch {
		case skip:
			skip = e.ID != after
		case !f.wants(&e.Summary):
		case len(l.Items) == limit:
			l.Next = l.Items[limit-1].ID
			return l
		default:
			l.Items = append(l.Items, e.Summary)
		}
	}
	return l
}

// updated returns the changes that were updated after a version, the newest first, in
// any state: a viewer must learn that one does not match its filter any more.
func (r *Recorder) updated(f filter, since int64, limit int) changeList {
	f.State = ""
	r.mu.Lock()
	defer r.mu.Unlock()
	l := changeList{Items: []Summary{}, Version: r.version, Dropped: r.dropped, Kept: len(r.order)}
	if since == r.version {
		return l
	}
	for _, e := range slices.Backward(r.order) {
		if e.Version <= since || !f.wants(&e.Summary) {
			continue
		}
		if len(l.Items) == limit {
			l.More = true
			break
		}
		l.Items = append(l.Items, e.Summary)
	}
	return l
}

package trigger

import (
	"fmt"
	"slices"
	"time"
)

// Skip marks err as final: the handler gives changes up. They are dead-lettered without a
// further attempt, and the range continues. Around [Failed] it gives up the changes named
// there, and the others are handled. If it is joined with an error that is not final, the
// joined error is not final.
//
// If err names no change of the call, and the batch has several, the batch is halved at
// once, without a wait and without counting an attempt. The halves are delivered again,
// until a skipped change is alone: that one is dead-lettered. With [Function].NoBisection
// the batch is given up as a whole.
func Skip(err error) error {
	if err == nil {
		return nil
	}
	return &skipError{err}
}

// Failed says that exactly these changes of the batch failed with err and that all
// others were handled. Only these are delivered again, in order, as the next
// attempt. Without changes it returns err: the whole batch failed. Several may be
// joined; if one is joined with any other error, the whole batch failed. So it did if a
// named change is not of this call: a change is known only to the call that delivered it,
// and its redelivery is another one.
func Failed(err error, changes ...Change) error {
	if err == nil || len(changes) == 0 {
		return err
	}
	f := &failedError{err: err, failedChanges: make(map[int64]bool, len(changes))}
	for _, c := range changes {
		if c.callNumber == 0 || !f.failedChanges[c.callNumber] {
			f.count++
		}
		f.failedChanges[c.callNumber] = true
	}
	return f
}

// FailedFrom says that the batch was handled up to, but not including, the
// change: that change and all after it are delivered again. The order is that of the
// batch as it was delivered, also if the handler has sorted its changes. If the change is
// not of this call, the whole batch failed. A partial batch response of an AWS Lambda
// event source mapping means the same.
func FailedFrom(err error, first Change) error {
	if err == nil {
		return nil
	}
	return &failedError{err: err, firstFailed: first.callNumber}
}

// maxDelay bounds the time for which a change is postponed.
const maxDelay = 30 * 24 * time.Hour

// RetryAfter says that err will pass, and not before d: the changes are postponed. Each
// is kept in the function's dead letter store with the time at which it is due, and the
// range continues. The range's owner delivers it again when it is due, and not before.
// Later changes of its key wait for it and follow in order, whether the function blocks
// keys or not.
//
// Around [Failed], or within it, it postpones the changes named there, and the others
// are handled. If a change is named by several errors that are joined, it is postponed
// only if all of them postpone it, by the longest. [Skip] around it gives the changes
// up.
//
// A postponed call counts as an attempt, so MaxAttempts and RetryMaxAge hold: after
// them, the change is dead-lettered. More than 30 days count as 30 days. If d is not
// above 0, RetryAfter returns err. In a function without a store that keeps changes, and
// in a range with 1,000 postponed keys, the changes fail as with err alone. With manual
// checkpoints a key counts until a request covers its postponed changes.
func RetryAfter(err error, d time.Duration) error {
	if err == nil || d <= 0 {
		return err
	}
	return &postponedError{err, min(d, maxDelay)}
}

// Postponement is a change that a handler has postponed.
type Postponement struct {
	Change Change
	After  time.Duration // when it is due
}

// Verdict is the meaning of a handler's error for the changes of its batch.
type Verdict struct {
	Handled    []Change       // in the order of the batch
	Failed     []Change       // likewise; they are delivered again
	Postponed  []Postponement // of the failed ones: those that are delivered again when they are due, if the function has a store
	GivenUp    bool           // those that failed are dead-lettered instead, without a further attempt
	Halved     bool           // all failed: the batch is given up without a name, and delivered again in halves at once
	Checkpoint bool           // nothing failed, and the handler called [Batch.Checkpoint]
	Err        error          // of the handler; a [PanicError] if it panicked
}

// String tells the verdict in one line.
func (v Verdict) String() string {
	text := fmt.Sprintf("%d handled", len(v.Handled))
	if len(v.Postponed) > 0 {
		text += fmt.Sprintf(", %d postponed", len(v.Postponed))
		for i, p := range v.Postponed {
			text += fmt.Sprintf("%s %q by %s", []string{"", ","}[min(i, 1)], p.Change.ID(), p.After)
		}
	}
	var ids []string
	for _, c := range v.Failed {
		if !slices.ContainsFunc(v.Postponed, func(p Postponement) bool { return p.Change.callNumber == c.callNumber }) {
			ids = append(ids, c.ID())
		}
	}
	if len(ids) > 0 {
		fate := "failed"
		switch {
		case v.GivenUp:
			fate = "given up"
		case v.Halved:
			fate = "halved"
		}
		text += fmt.Sprintf(", %d %s %q", len(ids), fate, ids)
	}
	if v.Err == nil {
		return text
	}
	return fmt.Sprintf("%s: %v", text, v.Err)
}

// Judge returns the verdict that err is on the batch, as the runtime reads it. The
// batch is one that a handler got, or one of [NewBatch], which is of a function with
// bisection.
func (b Batch) Judge(err error) Verdict {
	numbers := make([]int64, len(b.Changes))
	for i, c := range b.Changes {
		numbers[i] = c.callNumber
	}
	fates, end := judgeBatch(numbers, err, !b.noBisection)
	v := Verdict{GivenUp: end == endGivenUp, Halved: end == endHalved, Err: err, Checkpoint: err == nil && b.checkpoint != nil && b.checkpoint.requested.Load() > 0}
	for i, c := range b.Changes {
		if fates == nil || !fates[i].failed {
			v.Handled = append(v.Handled, c)
			continue
		}
		v.Failed = append(v.Failed, c)
		if fates[i].after > 0 {
			v.Postponed = append(v.Postponed, Postponement{c, fates[i].after})
		}
	}
	return v
}

type skipError struct{ err error }

func (e *skipError) Error() string { return e.err.Error() }
func (e *skipError) Unwrap() error { return e.err }

type failedError struct {
	err           error
	failedChanges map[int64]bool // by Change.callNumber; nil if firstFailed counts
	count         int            // of the changes in failedChanges; a change made by hand has no number of its own
	firstFailed   int64          // likewise
}

func (e *failedError) Error() string {
	if e.failedChanges != nil {
		return fmt.Sprintf("%d changes failed: %v", e.count, e.err)
	}
	return e.err.Error()
}
func (e *failedError) Unwrap() error { return e.err }

type postponedError struct {
	err   error
	after time.Duration
}

func (e *postponedError) Error() string { return e.err.Error() }
func (e *postponedError) Unwrap() error { return e.err }

// changeFate is the verdict on one change.
type changeFate struct {
	failed bool
	after  time.Duration // it is postponed, if this is above 0
}

// batchEnd says what becomes of the changes of a call that failed.
type batchEnd int

const (
	endRetried batchEnd = iota
	endGivenUp
	endHalved // given up without a name, and delivered again in halves
)

// judgeBatch reads a handler's error on changes with these numbers. It returns
// the fate of each change, nil if all are handled, and what becomes of those that failed.
// The whole batch failed if some part of the error names no changes, or names a change
// that was not in the batch.
func judgeBatch(numbers []int64, err error, halves bool) (fates []changeFate, end batchEnd) {
	if err == nil {
		return nil, endRetried
	}
	parts := errorParts(err, 0)
	if slices.ContainsFunc(parts, func(p errorPart) bool { return !p.partial.knows(numbers) }) {
		parts = []errorPart{{}}
	}
	fates = make([]changeFate, len(numbers))
	for i, number := range numbers {
		fates[i] = fateOf(number, parts)
	}
	if !isFinal(err) {
		return fates, endRetried
	}
	for i := range fates {
		fates[i].after = 0
	}
	if halves && len(numbers) > 1 && slices.ContainsFunc(parts, func(p errorPart) bool { return p.partial == nil }) {
		return fates, endHalved
	}
	return fates, endGivenUp
}

// fateOf returns the fate of a change after all parts of an error.
func fateOf(number int64, parts []errorPart) (fate changeFate) {
	for _, part := range parts {
		if part.names(number) {
			fate = fate.with(part.after)
		}
	}
	return fate
}

// with returns the fate after a further error on the change.
func (f changeFate) with(delay time.Duration) changeFate {
	if f.failed && (f.after == 0 || delay == 0) {
		return changeFate{failed: true}
	}
	return changeFate{true, max(f.after, delay)}
}

// errorPart is an error that is not joined from others.
type errorPart struct {
	partial *failedError  // names the changes that failed; nil stands for the whole batch
	after   time.Duration // it postpones the changes; 0 if it does not
}

func (p errorPart) names(number int64) bool {
	switch {
	case p.partial == nil:
		return true
	case p.partial.failedChanges == nil:
		return number >= p.partial.firstFailed
	}
	return p.partial.failedChanges[number]
}

// knows reports whether all changes that an error names are among those with these numbers.
func (e *failedError) knows(numbers []int64) bool {
	switch {
	case e == nil:
		return true
	case e.failedChanges == nil:
		return slices.Contains(numbers, e.firstFailed)
	}
	found := 0
	for _, number := range numbers {
		if e.failedChanges[number] {
			found++
		}
	}
	return found >= len(e.failedChanges)
}

// errorParts returns the parts of an error that postpones its changes if delay is above
// 0. A panic does not tell about the changes after it.
func errorParts(err error, delay time.Duration) (parts []errorPart) {
	switch e := err.(type) {
	case *failedError:
		if delay == 0 {
			delay = delayOf(e.err)
		}
		return []errorPart{{e, delay}}
	case *postponedError:
		if delay == 0 {
			delay = e.after
		}
		return errorParts(e.err, delay)
	case *PanicError:
		return []errorPart{{}}
	case interface{ Unwrap() error }:
		return errorParts(e.Unwrap(), delay)
	case interface{ Unwrap() []error }:
		for _, joined := range e.Unwrap() {
			parts = append(parts, errorParts(joined, delay)...)
		}
	}
	if parts == nil {
		parts = []errorPart{{after: delay}}
	}
	return parts
}

// delayOf returns the time by which an error postpones changes, 0 if some part of it
// does not.
func delayOf(err error) (longest time.Duration) {
	for _, part := range errorParts(err, 0) {
		if part.after == 0 {
			return 0
		}
		longest = max(longest, part.after)
	}
	return longest
}

// isFinal reports whether an error is final in all its parts.
func isFinal(err error) bool {
	switch e := err.(type) {
	case *skipError:
		return true
	case *PanicError, *postponedError:
		return false
	case interface{ Unwrap() error }:
		return isFinal(e.Unwrap())
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		return len(parts) > 0 && !slices.ContainsFunc(parts, func(part error) bool { return !isFinal(part) })
	}
	return false
}

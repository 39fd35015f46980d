package trigger

import (
	"fmt"
	"maps"
	"slices"
)

// Skip marks err as final: the handler gives these changes up. They are
// dead-lettered without a further attempt, and the range continues. Around
// [Failed] it gives up the changes named there, and the others are handled. If it
// is joined with an error that is not final, the joined error is not final.
func Skip(err error) error {
	if err == nil {
		return nil
	}
	return &skipError{err}
}

// Failed says that exactly these changes of the batch failed with err and that all
// others were handled. Only these are delivered again, in order, as the next
// attempt. Without changes it returns err: the whole batch failed. Several may be
// joined; if one is joined with any other error, the whole batch failed.
func Failed(err error, changes ...Change) error {
	if err == nil || len(changes) == 0 {
		return err
	}
	f := &failedError{err: err, failedSeqs: make(map[int64]bool, len(changes))}
	for _, c := range changes {
		if c.seq == 0 || !f.failedSeqs[c.seq] {
			f.count++
		}
		f.failedSeqs[c.seq] = true
	}
	return f
}

// FailedFrom says that the batch was handled up to, but not including, the
// change: that change and all after it are delivered again. A partial batch
// response of an AWS Lambda event source mapping means the same.
func FailedFrom(err error, first Change) error {
	if err == nil {
		return nil
	}
	return &failedError{err: err, firstFailed: first.seq}
}

// Verdict is the meaning of a handler's error for the changes of its batch.
type Verdict struct {
	Handled    []Change // in the order of the batch
	Failed     []Change // likewise; they are delivered again
	GivenUp    bool     // those that failed are dead-lettered instead, without a further attempt
	Checkpoint bool     // nothing failed, and the handler called [Batch.Checkpoint]
	Err        error    // of the handler; a [PanicError] if it panicked
}

// String tells the verdict in one line.
func (v Verdict) String() string {
	if len(v.Failed) == 0 {
		return fmt.Sprintf("%d handled", len(v.Handled))
	}
	ids := make([]string, len(v.Failed))
	for i, c := range v.Failed {
		ids[i] = c.ID()
	}
	fate := "failed"
	if v.GivenUp {
		fate = "given up"
	}
	return fmt.Sprintf("%d handled, %d %s %q: %v", len(v.Handled), len(v.Failed), fate, ids, v.Err)
}

// Judge returns the verdict that err is on the batch, as the runtime reads it. The
// batch is one that a handler got, or one of [NewBatch].
func (b Batch) Judge(err error) Verdict {
	seqs := make([]int64, len(b.Changes))
	for i, c := range b.Changes {
		seqs[i] = c.seq
	}
	failed, final := judgeBatch(seqs, err)
	v := Verdict{GivenUp: final, Err: err, Checkpoint: err == nil && b.checkpoint != nil && b.checkpoint.Load()}
	for i, c := range b.Changes {
		if slices.Contains(failed, i) {
			v.Failed = append(v.Failed, c)
		} else {
			v.Handled = append(v.Handled, c)
		}
	}
	return v
}

type skipError struct{ err error }

func (e *skipError) Error() string { return e.err.Error() }
func (e *skipError) Unwrap() error { return e.err }

type failedError struct {
	err         error
	failedSeqs  map[int64]bool // sequence numbers; nil if firstFailed counts
	count       int            // of the changes in failedSeqs; a change made by hand has no number of its own
	firstFailed int64
}

func (e *failedError) Error() string {
	if e.failedSeqs != nil {
		return fmt.Sprintf("%d changes failed: %v", e.count, e.err)
	}
	return e.err.Error()
}
func (e *failedError) Unwrap() error { return e.err }

// judgeBatch reads a handler's error on changes with these sequence numbers. failed
// are the indexes of the changes that are not handled, in order, and final says that
// the handler gives them up. The whole batch failed if some part of the error names
// no changes, or names a change that was not in the batch.
func judgeBatch(seqs []int64, err error) (failed []int, final bool) {
	if err == nil {
		return nil, false
	}
	final = isFinal(err)
	partial, all := partialFailures(err)
	if !all {
		return allIndexes(len(seqs)), final
	}
	named := map[int64]bool{}
	for _, f := range partial {
		maps.Copy(named, f.failedSeqs)
	}
	for i, seq := range seqs {
		if named[seq] || slices.ContainsFunc(partial, func(f *failedError) bool { return f.failedSeqs == nil && seq >= f.firstFailed }) {
			failed = append(failed, i)
		}
	}
	for _, seq := range seqs {
		delete(named, seq)
	}
	if len(named) > 0 || len(failed) == 0 {
		failed = allIndexes(len(seqs))
	}
	return failed, final
}

func allIndexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// partialFailures returns the parts of an error that name the changes that failed,
// and whether all its parts do. A panic does not tell about the changes after it.
func partialFailures(err error) (found []*failedError, all bool) {
	switch e := err.(type) {
	case *failedError:
		return []*failedError{e}, true
	case *PanicError:
		return nil, false
	case interface{ Unwrap() error }:
		return partialFailures(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			more, all := partialFailures(part)
			if !all {
				return nil, false
			}
			found = append(found, more...)
		}
		return found, len(found) > 0
	}
	return nil, false
}

// isFinal reports whether an error is final in all its parts.
func isFinal(err error) bool {
	switch e := err.(type) {
	case *skipError:
		return true
	case *PanicError:
		return false
	case interface{ Unwrap() error }:
		return isFinal(e.Unwrap())
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		return len(parts) > 0 && !slices.ContainsFunc(parts, func(part error) bool { return !isFinal(part) })
	}
	return false
}

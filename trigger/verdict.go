package trigger

import (
	"errors"
	"fmt"
)

// Skip marks err as final: the handler gives these changes up. They are
// dead-lettered without a further attempt, and the range goes on. Around
// [Failed] it gives up the changes named there and takes the rest as handled.
func Skip(err error) error {
	if err == nil {
		return nil
	}
	return &skipError{err}
}

// Failed says that exactly these changes of the batch failed with err and that
// all others were handled. They come again, alone and in order, as the next
// attempt. Without changes it is err: the whole batch failed.
func Failed(err error, changes ...Change) error {
	if err == nil || len(changes) == 0 {
		return err
	}
	f := &failedError{err: err, which: make(map[int64]bool, len(changes))}
	for _, c := range changes {
		f.which[c.ordinal] = true
	}
	return f
}

// FailedFrom says that the batch was handled up to, but not including, the
// change, and that it and everything after it is to come again. It is what a
// partial batch response means to an AWS Lambda event source mapping.
func FailedFrom(err error, first Change) error {
	if err == nil {
		return nil
	}
	return &failedError{err: err, from: first.ordinal}
}

type skipError struct{ err error }

func (e *skipError) Error() string { return e.err.Error() }
func (e *skipError) Unwrap() error { return e.err }

type failedError struct {
	err   error
	which map[int64]bool // ordinals; nil where from counts
	from  int64
}

func (e *failedError) Error() string {
	if e.which != nil {
		return fmt.Sprintf("%d changes failed: %v", len(e.which), e.err)
	}
	return e.err.Error()
}
func (e *failedError) Unwrap() error { return e.err }

// verdict is what a handler's answer means for the changes it was given.
type verdict struct {
	err     error
	failed  []*pending // these are not handled; the others are
	giveUp  bool       // Skip: no further attempt
	handled []*pending
}

// judge reads a handler's answer. A Failed that names a change which was not
// in the batch is taken for the failure of all of it.
func judge(group []*pending, err error) verdict {
	if err == nil {
		return verdict{handled: group}
	}
	v := verdict{err: err}
	var skip *skipError
	v.giveUp = errors.As(err, &skip)
	var partial *failedError
	if !errors.As(err, &partial) {
		v.failed = group
		return v
	}
	for _, p := range group {
		if partial.which[p.ordinal] || partial.which == nil && p.ordinal >= partial.from {
			v.failed = append(v.failed, p)
		} else {
			v.handled = append(v.handled, p)
		}
	}
	if partial.which != nil && len(v.failed) != len(partial.which) || len(v.failed) == 0 {
		v.failed, v.handled = group, nil
	}
	return v
}

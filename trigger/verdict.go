package trigger

import (
	"fmt"
	"maps"
	"slices"
)

// Skip marks err as final: the handler gives these changes up. They are
// dead-lettered without a further attempt, and the range goes on. Around
// [Failed] it gives up the changes named there and takes the rest as handled.
// Joined with an error that is not final, it is not.
func Skip(err error) error {
	if err == nil {
		return nil
	}
	return &skipError{err}
}

// Failed says that exactly these changes of the batch failed with err and that
// all others were handled. They come again, alone and in order, as the next
// attempt. Without changes it is err: the whole batch failed. Several may be
// joined; joined with another error, the whole batch failed.
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

// judge reads a handler's answer. Where it is an error of several parts that do
// not all name changes, or names a change that was not in the batch, all of the
// batch failed; where not all parts are final, none is.
func judge(group []*pending, err error) verdict {
	if err == nil {
		return verdict{handled: group}
	}
	v := verdict{err: err, giveUp: skips(err)}
	partial, all := partialFailures(err)
	if !all {
		v.failed = group
		return v
	}
	named := map[int64]bool{}
	for _, f := range partial {
		maps.Copy(named, f.which)
	}
	for _, p := range group {
		if named[p.ordinal] || slices.ContainsFunc(partial, func(f *failedError) bool { return f.which == nil && p.ordinal >= f.from }) {
			v.failed = append(v.failed, p)
		} else {
			v.handled = append(v.handled, p)
		}
		delete(named, p.ordinal)
	}
	if len(named) > 0 || len(v.failed) == 0 {
		v.failed, v.handled = group, nil
	}
	return v
}

// partialFailures are the parts of an error that say which changes failed, and
// whether that is all of it. A panic says nothing of what came after it.
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

// skips reports whether an error is final in all its parts.
func skips(err error) bool {
	switch e := err.(type) {
	case *skipError:
		return true
	case *PanicError:
		return false
	case interface{ Unwrap() error }:
		return skips(e.Unwrap())
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		return len(parts) > 0 && !slices.ContainsFunc(parts, func(part error) bool { return !skips(part) })
	}
	return false
}

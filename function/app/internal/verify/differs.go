package verify

import "fmt"

// differenceError is the error of a probe that has seen something else than expected.
type differenceError struct{ seen string }

func (e *differenceError) Error() string { return e.seen }

func differs(format string, args ...any) error {
	return &differenceError{fmt.Sprintf(format, args...)}
}

// unverifiedError is the error of a probe that could not see the fact on this account.
type unverifiedError struct{ reason string }

func (e *unverifiedError) Error() string { return e.reason }

func unverified(format string, args ...any) error {
	return &unverifiedError{fmt.Sprintf(format, args...)}
}

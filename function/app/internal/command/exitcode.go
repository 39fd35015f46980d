package command

import "errors"

// codedError is the error of a command with an exit code of its own.
type codedError struct {
	code int
	error
}

// ExitCode returns the exit code of a command that has failed.
func ExitCode(err error) int {
	if coded, ok := errors.AsType[codedError](err); ok {
		return coded.code
	}
	return 1
}

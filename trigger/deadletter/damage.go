package deadletter

import (
	"errors"
	"fmt"
)

// DamageError is a letter, or a part of a file, that cannot be read as it was
// written.
type DamageError struct {
	Where string // document, blob, or file with the offset
	Err   error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("damaged dead letter at %s: %v", e.Where, e.Err)
}

// Unwrap gives the cause.
func (e *DamageError) Unwrap() error { return e.Err }

func isDamage(err error) bool {
	var d *DamageError
	return errors.As(err, &d)
}

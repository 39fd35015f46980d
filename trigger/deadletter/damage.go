package deadletter

import (
	"errors"
	"fmt"

	"halley/trigger"
)

// DamageError reports a dead letter, or a part of a file, that cannot be read
// or differs from the data that was written. It is [trigger.ErrDamaged].
type DamageError struct {
	Where string // document, blob, or file with the offset
	Err   error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("damaged dead letter at %s: %v", e.Where, e.Err)
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// Is reports whether target is [trigger.ErrDamaged].
func (e *DamageError) Is(target error) bool { return target == trigger.ErrDamaged }

func isDamage(err error) bool {
	var d *DamageError
	return errors.As(err, &d)
}

package connection

import (
	"fmt"
	"strings"
)

// Name names the variable, or the variables, that hold a connection. If it
// is not a name it may be the connection string itself, and prints as [redacted].
type Name string

// Misplaced reports whether the value is a connection string instead of its name.
func (n Name) Misplaced() bool { return strings.ContainsAny(string(n), "=;/") }

func (n Name) String() string {
	if n.Misplaced() {
		return redacted
	}
	return string(n)
}

// Format implements [fmt.Formatter].
func (n Name) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(n.String())) }

// MarshalText implements [encoding.TextMarshaler].
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// redacted is printed instead of a value that may hold a secret.
const redacted = "[redacted]"

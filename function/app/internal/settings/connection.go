package settings

import (
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// ConnectionDefaults stand for what the environment does not say about connections.
type ConnectionDefaults struct {
	// Emulator is the endpoint of the account that the connection "emulator" selects; ""
	// is that of the emulators of this machine.
	Emulator string
	// Unnamed makes the credential of connections with neither a key nor a named
	// identity; nil is that of the machine.
	Unnamed func() (azcore.TokenCredential, error)
}

// ConnectionName names the variable, or the variables, that hold a connection. If it
// is not a name it may be the connection string itself, and prints as [redacted].
type ConnectionName string

// Misplaced reports whether the value is a connection string instead of its name.
func (n ConnectionName) Misplaced() bool { return strings.ContainsAny(string(n), "=;/") }

func (n ConnectionName) String() string {
	if n.Misplaced() {
		return redacted
	}
	return string(n)
}

// Format implements [fmt.Formatter].
func (n ConnectionName) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(n.String())) }

// MarshalText implements [encoding.TextMarshaler].
func (n ConnectionName) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

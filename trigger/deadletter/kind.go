package deadletter

import (
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
)

// Kind is a kind of store that an app links and selects by the setting
// HALLEY_DEAD_LETTERS as NAME:STORE.
type Kind struct {
	// Name is the word before the colon, in lower-case letters.
	Name string
	// Placeholder stands for the store's name in texts, such as CONTAINER.
	Placeholder string
	// CheckName returns an error that says how the store's name is written, or nil.
	CheckName func(store string) error
	// Open returns the store without I/O.
	Open func(store string, connection Connection) (trigger.DeadLetters, error)
}

// Connection names the account of a store.
type Connection struct {
	// Name is the value of the setting HALLEY_DEAD_LETTERS_CONNECTION. It is not empty.
	Name string
	// Credential makes the app's Entra ID credential, for a connection with neither a key
	// nor a named identity. Nil stands for the default of Halley's connections.
	Credential func() (azcore.TokenCredential, error)
}

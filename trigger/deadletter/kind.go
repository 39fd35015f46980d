package deadletter

import "halley/trigger"

// Kind is a kind of store that an app links and selects by the setting
// HALLEY_DEAD_LETTERS as NAME:STORE.
type Kind struct {
	// Name is the word before the colon, in lower-case letters.
	Name string
	// Placeholder stands for the store's name in texts, such as CONTAINER.
	Placeholder string
	// CheckName returns an error that says how the store's name is written, or nil.
	CheckName func(store string) error
	// Open returns the store without I/O. connection is the value of the setting
	// HALLEY_DEAD_LETTERS_CONNECTION, which is not empty.
	Open func(store, connection string) (trigger.DeadLetters, error)
}

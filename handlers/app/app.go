// Package app is shared by handler packages and the application. It has the
// [Env] that a handler is opened with, and types of settings: some keep secrets
// out of logs, others parse durations, counts and toggles in the same way for
// all settings of Halley.
package app

import (
	"go.uber.org/zap"

	"halley/trigger/cosmos"
)

// Env is passed to a handler when the application opens it.
type Env struct {
	// Logger is named after the handler. If it is nil, nothing is logged.
	Logger *zap.Logger

	// Container returns a client for a container of the monitored account. The
	// container must exist when the handler first uses it; Container itself does
	// no I/O. The function is not nil.
	Container func(database, container string) *cosmos.Container

	// Database is the monitored container's. A handler uses it for its own
	// containers if its settings name no other database.
	Database string

	// Prefix begins the names of the handler's settings, such as
	// HALLEY_LEADERBOARD_. Error messages need it when they name a setting; the
	// settings themselves are already read.
	Prefix string
}

// Log returns Logger, or a logger without output if Logger is nil.
func (e Env) Log() *zap.Logger {
	if e.Logger == nil {
		return zap.NewNop()
	}
	return e.Logger
}

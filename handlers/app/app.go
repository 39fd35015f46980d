// Package app holds what a handler package and the application share: the
// [Env] that a handler is opened with, and the types of settings: those that
// keep secrets out of logs, and those that read what every setting of Halley may
// be written as.
package app

import (
	"go.uber.org/zap"

	"halley/trigger/cosmos"
)

// Env is what the application gives a handler when it opens it.
type Env struct {
	// Logger is named after the handler. Nil logs nothing.
	Logger *zap.Logger

	// Container names a container of the monitored account; it does no I/O and
	// is not nil. The containers a handler asks for must exist.
	Container func(database, container string) *cosmos.Container

	// Database is the monitored container's, the default of a handler's own
	// containers.
	Database string

	// Prefix begins the names of the handler's settings, such as
	// HALLEY_LEADERBOARD_. It is there for error messages: settings arrive
	// already read.
	Prefix string
}

// Log is the logger to use, never nil.
func (e Env) Log() *zap.Logger {
	if e.Logger == nil {
		return zap.NewNop()
	}
	return e.Logger
}

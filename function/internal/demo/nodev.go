//go:build nodev

package demo

import (
	"context"

	"halley/function/app"
)

// Start: a build without the command dev needs no services.
var Start func(context.Context) (*app.DevServices, error)

//go:build nodev

package main

import (
	"context"

	"halley/function/app"
)

// startDev: a build without the command dev needs no services.
var startDev func(context.Context) (*app.DevServices, error)

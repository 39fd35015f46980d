//go:build nodev

package demo

import (
	"context"

	"github.com/spf13/cobra"

	"halley/function/app"
)

// Start: a build without the command dev needs no services.
var Start func(context.Context) (*app.DevServices, error)

// Commands returns none: they are for a developer's machine.
func Commands() []*cobra.Command { return nil }

//go:build nodev

package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"halley/function/app/internal/dev"
	"halley/function/app/internal/settings"
)

// devCommands: this build has none.
func devCommands(*dev.Program) []*cobra.Command { return nil }

// devFlag: this build has no flag for an embedded account.
func devFlag(*cobra.Command) *bool { return new(bool) }

func withDevSettings(context.Context, *dev.Program, func(*settings.Settings) error) error {
	return errors.New("this binary was built with the tag nodev")
}

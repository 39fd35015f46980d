//go:build !nodev

package command

import (
	"context"

	"github.com/spf13/cobra"

	"halley/function/app/internal/dev"
	"halley/function/app/internal/settings"
)

// devCommands are the commands of a developer's machine. The build tag nodev leaves
// them out of the binary, with the embedded account.
func devCommands(p *dev.Program) []*cobra.Command {
	return []*cobra.Command{dev.NewCommand(p), dev.NewEmulatorCommand(), packageCommand(p.Name)}
}

// devFlag adds the flag with which the command check looks at dev.
func devFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("dev", false, "check the app as the command dev runs it: with its presets, on an embedded account")
}

// withDevSettings calls use with the settings of the app as dev opens it.
func withDevSettings(ctx context.Context, p *dev.Program, use func(*settings.Settings) error) error {
	return dev.WithSettings(ctx, p, use)
}

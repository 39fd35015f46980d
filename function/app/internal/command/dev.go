//go:build !nodev

package command

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"halley/function/app/internal/dev"
	"halley/function/app/internal/settings"
)

// devCommands are the commands of a developer's machine. The build tag nodev leaves
// them out of the binary, with the embedded account.
func (p *Program) devCommands() []*cobra.Command {
	return []*cobra.Command{dev.NewCommand(&p.Program), dev.NewEmulatorCommand(), packageCommand(p.Name)}
}

// devFlag adds the flag with which the command check looks at dev.
func devFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("dev", false, "check the app as the command dev runs it: with its presets, on an embedded account")
}

// checkDev runs the checks on an app as dev opens it.
func (p *Program) checkDev(ctx context.Context, out io.Writer) error {
	return dev.WithSettings(ctx, &p.Program, func(s *settings.Settings) error { return checkLoaded(ctx, s, nil, out) })
}

//go:build !nodev

package demo

import (
	"github.com/spf13/cobra"

	"halley/function/app"
)

// Commands returns the commands that the demo has in addition to those of every app.
func Commands() []*cobra.Command {
	return []*cobra.Command{app.NewCommand(), app.VerifyServiceCommand()}
}

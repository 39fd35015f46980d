//go:build !nodev

package app

import (
	"github.com/spf13/cobra"

	"halley/function/app/internal/command"
)

// NewCommand returns the command new, which writes an app or a handler. The program
// halley/function/app/new has it, and the demo app. Apps need not: Options.Commands adds it.
func NewCommand() *cobra.Command { return command.NewCommand() }

// VerifyServiceCommand returns the command verify-service, which tries on the user's account
// what Halley relies on. The demo app has it. Apps need not: Options.Commands adds it.
func VerifyServiceCommand() *cobra.Command { return command.VerifyServiceCommand() }

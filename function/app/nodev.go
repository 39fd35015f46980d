//go:build nodev

package app

import "github.com/spf13/cobra"

// devCommands: this build has none.
func (o Options) devCommands() []*cobra.Command { return nil }

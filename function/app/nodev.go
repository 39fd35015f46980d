//go:build nodev

package app

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// devCommands: this build has none.
func (o Options) devCommands() []*cobra.Command { return nil }

// devFlag: this build has no flag for an embedded account.
func devFlag(*cobra.Command) *bool { return new(bool) }

func (o Options) checkDev(context.Context, io.Writer) error {
	return errors.New("this binary was built with the tag nodev")
}

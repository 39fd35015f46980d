//go:build nodev

package command

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// devCommands: this build has none.
func (p *Program) devCommands() []*cobra.Command { return nil }

// devFlag: this build has no flag for an embedded account.
func devFlag(*cobra.Command) *bool { return new(bool) }

func (p *Program) checkDev(context.Context, io.Writer) error {
	return errors.New("this binary was built with the tag nodev")
}

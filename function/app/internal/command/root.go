// Package command has the commands of an app: the root, and a file for each command of
// operators and developers.
package command

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"halley/function/app/internal/dev"
)

// Program is an app with the commands of its own. Its defaults are filled in.
type Program struct {
	dev.Program
	Commands []*cobra.Command
}

// Root returns the command that runs the app with args.
func (p *Program) Root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:           p.Name,
		Short:         "Calls handlers with the changes of Azure Cosmos DB containers",
		Long:          p.help(),
		Version:       p.Versions(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	hosted := &p.Program.Program
	root.AddCommand(devCommands(&p.Program)...)
	root.AddCommand(
		runCommand(hosted), checkCommand(&p.Program), statusCommand(p.Source), whyCommand(p.Source), deadLettersCommand(hosted), leasesCommand(p.Source),
		importCommand(p.Source.Handlers), p.versionCommand(),
	)
	root.AddCommand(p.Commands...)
	return root
}

// help lists the functions of the app.
func (p *Program) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s calls handlers with the changes of Azure Cosmos DB containers.\n\nFunctions:\n", p.Name)
	for _, e := range p.Source.Handlers {
		fmt.Fprintf(&b, "  %-11s %s\n", e.Name, e.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (p *Program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the app, of Halley and of Go",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), p.Name, p.Versions(), runtime.Version())
			return err
		},
	}
}

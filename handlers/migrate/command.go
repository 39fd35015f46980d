package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// Command returns the command migrate, for an app whose migration has no transform.
func Command(inspect handlers.Inspect) *cobra.Command { return Transform(nil).Command(inspect) }

// Command returns the command migrate of an app, with the subcommands verify and report:
//
//	options.Commands = []*cobra.Command{migrate.Transform(byCategory).Command(options.Inspect)}
func (t Transform) Command(inspect handlers.Inspect) *cobra.Command {
	look := lookup{transform: t, inspect: inspect}
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Compare the target of a migration with its source",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := c.PersistentFlags()
	f.StringVar(&look.function, "function", "migrate", "name of the function that migrates")
	f.BoolVar(&look.json, "json", false, "print JSON")
	f.DurationVar(&look.options.Settle, "settle", 10*time.Second, "how long a difference must last to count, while clients write")
	f.IntVar(&look.options.Parallel, "parallel", 4, "ranges that are read at a time")
	c.AddCommand(look.verifyCommand(), look.reportCommand())
	return c
}

// lookup holds the flags of the commands.
type lookup struct {
	transform Transform
	inspect   handlers.Inspect
	function  string
	json      bool
	options   VerifyOptions
}

// subject is a migration with the source of the function that runs it.
type subject struct {
	migration *Migration
	source    trigger.FeedSource
	leases    *cosmos.Container
}

func (l *lookup) open(cmd *cobra.Command) (subject, error) {
	if l.options.Parallel < 1 {
		return subject{}, fmt.Errorf("--parallel %d: must be above 0", l.options.Parallel)
	}
	if l.options.Settle == 0 {
		l.options.Settle = -1 // a difference counts at once
	}
	found, err := l.inspect(cmd.Context(), l.function)
	if err != nil {
		return subject{}, err
	}
	settings, ok := found.Settings.(*Settings)
	if !ok {
		return subject{}, fmt.Errorf("--function %s: not a migration", l.function)
	}
	m, err := l.transform.migration(found.Env, *settings)
	if err != nil {
		return subject{}, fmt.Errorf("setting %s%w", found.Env.Prefix, err)
	}
	return subject{m, found.Function.FeedSource, found.Leases}, nil
}

func (l *lookup) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Compare source and target completely",
		Long: `Verify reads both containers range by range, applies the transform to each document
of the source and compares the result with its copy. It also looks for copies without a
document. It spends at most the request units of the migration's setting, and writes
nothing. The exit code is 1 if the containers differ.

Clients may write meanwhile: a difference counts if it lasts as long as --settle.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opened, err := l.open(cmd)
			if err != nil {
				return err
			}
			v, err := opened.migration.Verify(cmd.Context(), opened.source.Container, &l.options)
			if err != nil {
				return err
			}
			if l.json {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			} else {
				line := func(name, format string, args ...any) {
					fmt.Fprintf(cmd.OutOrStdout(), "%-7s %s\n", name, fmt.Sprintf(format, args...))
				}
				line("source", "%d documents, %d of them left out", v.Source, v.LeftOut)
				line("target", "%d documents, and %d tombstones", v.Target, v.Tombstones)
				writeEqual(line, v)
			}
			if err == nil && !v.Equal() {
				err = errors.New("source and target differ")
			}
			return err
		},
	}
}

func (l *lookup) reportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "report",
		Short: "Say whether the clients can be switched to the target",
		Long: `Report compares source and target as verify does, measures how far the migration is
behind, and says how to switch. The exit code is 1 if the target is not ready.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opened, err := l.open(cmd)
			if err != nil {
				return err
			}
			r, err := opened.migration.Report(cmd.Context(), opened.source, opened.leases, &l.options)
			if err != nil {
				return err
			}
			if l.json {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			} else {
				r.Write(cmd.OutOrStdout(), time.Now())
			}
			if err == nil && !r.Ready {
				err = errors.New("the target is not ready")
			}
			return err
		},
	}
}

package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"halley/function/app/internal/dev"
	"halley/function/app/internal/functions"
	"halley/function/app/internal/settings"
	"halley/trigger/units"
)

func checkCommand(p *dev.Program) *cobra.Command {
	var sample string
	var dev *bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check settings, accounts, permissions and packaging",
		Long: `Check prints the effective settings with their source, then tries what the
enabled functions need: the accounts, the containers, the partition key of the
lease container, reading the feed, creating, reading, finding, replacing and
deleting a lease and a dead letter by means of probe documents. It also tries
what the handlers offer, such as whether their Redis answers. A queue keeps the
message about that dead letter. If there is a host.json, check examines the
Functions app around it. Each line that fails says what to change, and the exit
code is then 1.

With --sample it prints only which documents of a file pass the filter of each
function, and tries nothing. The file has one document on each line, as JSON.

Secrets are not printed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sample != "" {
				return checkSample(p.Source, sample, cmd.OutOrStdout())
			}
			if *dev {
				return withDevSettings(cmd.Context(), p, func(s *settings.Settings) error {
					return checkLoaded(cmd.Context(), s, nil, cmd.OutOrStdout())
				})
			}
			return check(cmd.Context(), p.Source, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&sample, "sample", "", "show which documents of this file pass the filters")
	dev = devFlag(c)
	return c
}

// check prints a report to out. Its error says only how many checks failed.
func check(ctx context.Context, source settings.Source, out io.Writer) error {
	s, err := settings.Load(source)
	return checkLoaded(ctx, s, err, out)
}

// checkLoaded reports on settings, or on the error of loading them.
func checkLoaded(ctx context.Context, s *settings.Settings, err error, out io.Writer) error {
	r := &report{out: out}
	if err == nil {
		r.settings(s.Values)
	}
	r.line("settings", err)
	var mode settings.Mode
	if s != nil {
		mode, r.prices = s.App.Mode, units.Prices(s.App.Prices)
	}
	for _, f := range functions.CheckApp(mode) {
		r.line(f.Checked, f.Err)
	}
	if s != nil {
		for _, f := range s.Functions {
			r.function(ctx, f)
		}
	}
	return r.err()
}

// checkSample prints which documents of a file pass the filter of each function.
func checkSample(source settings.Source, path string, out io.Writer) error {
	s, err := settings.Load(source)
	if err != nil {
		return err
	}
	documents, err := readSample(path)
	if err != nil {
		return fmt.Errorf("--sample: %w", err)
	}
	r := &report{out: out}
	for _, f := range s.Functions {
		r.sample(f, documents)
	}
	return r.err()
}

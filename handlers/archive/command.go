package archive

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"halley/handlers"
)

// Command returns the command archive of an app, with the subcommand compact:
//
//	options.Commands = []*cobra.Command{archive.Command(options.Inspect)}
func Command(inspect handlers.Inspect) *cobra.Command {
	c := &cobra.Command{
		Use:   "archive",
		Short: "Make few large files of an archive",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(compactCommand(inspect))
	return c
}

func compactCommand(inspect handlers.Inspect) *cobra.Command {
	var function string
	var margin time.Duration
	c := &cobra.Command{
		Use:   "compact",
		Short: "Replace the files of closed partitions by few large ones",
		Long: `Compact replaces the files of each partition of time that ended before the oldest
change that is not checkpointed, less --margin, by files of up to 256 MB of documents, with
each change once. It may be interrupted and repeated, and hosts may run. A file is deleted
when another one has its changes; a query that has listed it before fails, and is repeated.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if margin < 0 {
				return fmt.Errorf("--margin %v: must not be below 0", margin)
			}
			found, err := inspect(cmd.Context(), function)
			if err != nil {
				return err
			}
			s, ok := found.Settings.(*Settings)
			if !ok {
				return fmt.Errorf("--function %s: not an archive", function)
			}
			a, err := s.open()
			if err != nil {
				return fmt.Errorf("setting %s%w", found.Env.Prefix, err)
			}
			before, err := ClosedBefore(cmd.Context(), found.Leases, found.Function.FeedSource, margin)
			if err != nil {
				return err
			}
			done, err := a.Compact(cmd.Context(), before)
			_, printErr := fmt.Fprintf(cmd.OutOrStdout(), "%d files of %d partitions before %s are replaced by %d\n", done.Replaced, done.Partitions, before.UTC().Format(time.RFC3339), done.Blobs)
			if err != nil {
				return err
			}
			return printErr
		},
	}
	c.Flags().StringVar(&function, "function", "archive", "name of the function that archives")
	c.Flags().DurationVar(&margin, "margin", time.Hour, "how long a partition must be closed")
	return c
}

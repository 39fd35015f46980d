package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"halley/function/app/internal/account"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
)

func whyCommand(source settings.Source) *cobra.Command {
	return &cobra.Command{
		Use:   "why [FUNCTION]",
		Short: "Say why ranges make no progress, and what to do, in one screen",
		Long: `Why reads what status reads, and says which ranges make no progress, the cause,
since when, the evidence and the next step. Ranges with the same cause share it, and
the most harmful cause is first: changes that no host reads, then functions and their
sinks, then what ends by itself, then pauses and limits.

The exit code is 1 if a range makes no progress, unless it waits for a limit that its
function sets.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := settings.Load(source)
			if err == nil && len(args) == 1 {
				err = s.Only(args[0])
			}
			if err != nil {
				return err
			}
			return explain(cmd.Context(), s, cmd.OutOrStdout())
		},
	}
}

// shownCauses bounds the causes that fit on a screen.
const shownCauses = 4

// explain prints the causes of one look.
func explain(ctx context.Context, s *settings.Settings, out io.Writer) error {
	report, _ := operate.Look(ctx, s, account.CommandClients()) // its causes say the error, too
	if ctx.Err() != nil {
		return ctx.Err()
	}
	causes, problems := report.Why()
	ranges := 0
	for _, f := range report.Functions {
		ranges += len(f.Leases)
	}
	head := text.Count(len(causes), "cause") + ", the most harmful first"
	if len(causes) == 0 {
		head = "every range makes progress"
	}
	fmt.Fprintf(out, "%s: %s (%s of %s, changes behind: %s)\n", report.Time.Format(time.RFC3339), head,
		text.Count(ranges, "range"), text.Count(len(report.Functions), "function"), report.Total())
	for i, c := range causes {
		if i == shownCauses {
			fmt.Fprintf(out, "\nand %s: the command status shows all\n", text.Count(len(causes)-i, "further cause"))
			break
		}
		fmt.Fprintf(out, "\n%d. %s\n", i+1, text.Line(c.Title))
		for _, line := range [][2]string{{"Cause", c.Cause}, {"Since", c.Since}, {"Evidence", c.Evidence}, {"Next", c.Next}} {
			fmt.Fprintf(out, "   %-9s %s\n", line[0], text.Line(line[1]))
		}
	}
	if problems > 0 {
		return fmt.Errorf("not every range makes progress: see %s", text.Count(len(causes), "cause"))
	}
	return nil
}

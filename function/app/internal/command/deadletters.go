package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/text"
)

func deadLettersCommand(p *hosting.Program) *cobra.Command {
	pick := letterFlags{program: p}
	c := &cobra.Command{
		Use:   "deadletters",
		Short: "List, show, export, replay and discard the changes that functions gave up",
		Long: `Deadletters works on the stores of the enabled functions, while hosts run or
not. Settings are those of the hosts; the command check prints them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := c.PersistentFlags()
	f.StringVar(&pick.function, "function", "", "dead letters of this function only")
	f.StringVar(&pick.Key, "key", "", `dead letters of this partition key only: a JSON array such as '["ada"]', or the text of a single string`)
	f.StringVar(&pick.Range, "range", "", "dead letters of this range only, by its lease token")
	f.Var(&pick.Since, "since", "dead letters that were given up since then only: an RFC 3339 time, or a duration such as 2h before now")
	f.Var(&pick.Until, "until", "dead letters that were given up before then only, written as for --since")
	f.StringVar(&pick.Text, "error", "", "dead letters whose error contains this text only")
	f.BoolVar(&pick.PostponedOnly, "postponed", false, "only changes that their handler has postponed, which their function delivers when they are due")
	f.BoolVar(&pick.json, "json", false, "print JSON")
	c.AddCommand(listCommand(&pick), showCommand(&pick), exportCommand(&pick), replayCommand(&pick), discardCommand(&pick))
	return c
}

func listCommand(pick *letterFlags) *cobra.Command {
	after := ""
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters and postponed changes, oldest first",
		Long: `List prints a line for each dead letter of a function, oldest first, and then
for each change that its handler has postponed, with the time at which it is due. With
--json it prints each of them as a whole, one JSON object per line. The exit
code is 1 if a store cannot be read or holds a damaged dead letter; the intact
ones are still listed.

A container of Cosmos DB selects by itself. A directory and blobs read all dead letters
that the other filters leave, to find those of --error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pick.Limit < 0 {
				return fmt.Errorf("--limit %d: must not be negative", pick.Limit)
			}
			if after != "" && !pick.NewestFirst {
				return errors.New("--after continues a list with --newest: add it")
			}
			stores, err := pick.openStores(cmd.Context())
			if err != nil {
				return err
			}
			if pick.NewestFirst {
				return printNewest(cmd, pick, stores, after)
			}
			return pick.print(cmd.OutOrStdout(), pick.Find(cmd.Context(), stores))
		},
	}
	c.Flags().BoolVar(&pick.NewestFirst, "newest", false, "list the newest ones of all functions first, a page at a time")
	c.Flags().IntVar(&pick.Limit, "limit", 0, "list this many dead letters, and as many postponed changes, of each function at most, or with --newest of all; 0 is no limit, and 100 with --newest")
	c.Flags().StringVar(&after, "after", "", "with --newest: continue behind the page that printed this token")
	return c
}

// printNewest prints a page of the list with the newest records first.
func printNewest(cmd *cobra.Command, pick *letterFlags, stores []operate.Store, after string) error {
	pager := operate.LetterPager{Stores: stores, Select: pick.Selection, Limit: cmp.Or(pick.Limit, operate.LettersOfPage)}
	page, err := pager.Page(cmd.Context(), after)
	if err != nil {
		return fmt.Errorf("--after: %w", err)
	}
	if err := pick.print(cmd.OutOrStdout(), whole(page.Records)); err != nil {
		return err
	}
	if page.Next != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "older ones: --after %s\n", page.Next)
	}
	return errors.Join(page.Failures...)
}

func showCommand(pick *letterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter with its document, error and stack",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			stores, err := pick.openStores(cmd.Context())
			if err != nil {
				return err
			}
			found, err := pick.Named(cmd.Context(), stores, ids)
			if err != nil {
				return err
			}
			if pick.json {
				return json.NewEncoder(text.SafeWriter(cmd.OutOrStdout())).Encode(operate.Printable(found[0].DeadLetter))
			}
			return printDeadLetter(cmd.OutOrStdout(), found[0])
		},
	}
}

package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/text"
)

func replayCommand(pick *letterFlags) *cobra.Command {
	var yes bool
	var bounds operate.ReplayBounds
	c := &cobra.Command{
		Use:   "replay [ID…]",
		Short: "Give dead letters to their handlers again",
		Long: `Replay opens the handlers with their settings and calls them with the selected
dead letters, those of one key one by one and in their order. If the handler
succeeds, the dead letter is removed. If it fails, the dead letter stays, the
later ones of its key wait, and the other keys continue. If an id is missing,
nothing is replayed. Postponed changes are left to their function, unless an id names
one or --postponed is given: then they are delivered now.

It asks for confirmation; without a terminal it needs --yes. With --dry-run it
lists the dead letters that it would replay, and opens no handler. The exit code
is 1 if a dead letter failed or had to wait, or a store failed; a replay can be
repeated at any time. A handler may get changes that are older than changes it
has already handled, unless the function blocks keys. --range, --since, --until and
--error leave out dead letters of its keys that do not match.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := bounds.Check(); err != nil {
				return err
			}
			pick.IDs, pick.DeadOnly = ids, true
			return pick.replay(cmd.Context(), bounds, asker(cmd, yes), cmd.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&bounds.DryRun, "dry-run", false, "list the dead letters instead of replaying them")
	c.Flags().IntVar(&bounds.Limit, "limit", 0, "replay this many at most, those of the keys with the oldest ones; 0 is no limit")
	c.Flags().IntVar(&bounds.Parallel, "parallel", 8, "handler calls at a time; dead letters of one key are replayed one by one")
	return c
}

func discardCommand(pick *letterFlags) *cobra.Command {
	var yes, all bool
	c := &cobra.Command{
		Use:   "discard [ID…]",
		Short: "Delete dead letters; their changes are lost",
		Long: `Discard deletes the dead letters with the ids, those of a --key, or with --all those that
--function, --range, --since, --until and --error select. If an id is missing, nothing is deleted.
Postponed changes are kept, unless an id names one or --postponed is given.

To erase what is stored of a person, discard the keys of the person's documents twice, the
second time with --postponed, for each app that reads the container.

It asks for confirmation; without a terminal it needs --yes.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if selects := all || pick.Key != ""; selects == (len(ids) > 0) {
				return errors.New("name the dead letters by their ids, or select them with --key, or with --all, and with --function, --range, --since, --until or --error")
			}
			return pick.discard(cmd.Context(), ids, asker(cmd, yes), cmd.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all dead letters that the filters select")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// confirmation asks a question and returns an error if the answer is not yes.
type confirmation func(question string) error

// asker asks on the terminal; a script has none and must say --yes.
func asker(cmd *cobra.Command, yes bool) confirmation {
	in := cmd.InOrStdin()
	file, ok := in.(*os.File)
	terminal := ok && isatty.IsTerminal(file.Fd())
	return func(question string) error {
		switch {
		case yes:
			return nil
		case !terminal:
			return errors.New("nothing was done: there is no terminal to ask on, so give --yes")
		}
		return ask(in, cmd.ErrOrStderr(), question)
	}
}

func ask(in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n') // the end of the input is no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done, as it was not confirmed")
}

// replay replays the selected dead letters of every function with its real handler.
func (p *letterFlags) replay(ctx context.Context, bounds operate.ReplayBounds, confirm confirmation, out io.Writer) error {
	stores, err := p.openStores(ctx)
	if err != nil {
		return err
	}
	if len(p.IDs) > 0 {
		if _, err := p.Named(ctx, stores, p.IDs); err != nil {
			return err
		}
	}
	if bounds.DryRun {
		found := bounds.Limited(p.Find(ctx, stores))
		if p.json {
			return operate.PrintLines(out, found)
		}
		return printTable(out, found)
	}
	n, err := operate.CountSelected(bounds.Limited(p.Find(ctx, stores)))
	if err != nil {
		return err
	}
	if n > 0 {
		if err := confirm(fmt.Sprintf("Give %d dead letters to their handlers again?", n)); err != nil {
			return err
		}
	}
	return p.replayConfirmed(ctx, bounds, out)
}

// replayConfirmed opens the handlers and calls them.
func (p *letterFlags) replayConfirmed(ctx context.Context, bounds operate.ReplayBounds, out io.Writer) error {
	s, err := p.loadKeeping()
	if err != nil {
		return err
	}
	a, err := hosting.Open(ctx, s, hosting.Options{Grace: time.Duration(s.App.StopGrace), Telemetry: p.program.Telemetry}, hosting.JSONLogger(p.program.Stderr, s.App.LogLevel))
	if err != nil {
		return err
	}
	defer a.Close()
	var failed error
	results := []operate.Replayed{}
	left := bounds
	for _, f := range s.Functions {
		if bounds.Limit > 0 && left.Limit == 0 {
			break
		}
		fn := a.Opened[f.Name]
		r, err := p.Replay(ctx, operate.Store{Function: f.Name, Source: fn.DeadLetterSource(), DeadLetters: fn.DeadLetters}, fn, left)
		results, failed = append(results, r), errors.Join(failed, err)
		left.Limit = max(left.Limit-r.Handled-r.Failed, 0)
	}
	return errors.Join(printReplayed(out, results, p.json), failed)
}

// printReplayed returns an error if dead letters are left.
func printReplayed(out io.Writer, results []operate.Replayed, asJSON bool) error {
	left := 0
	for _, r := range results {
		left += r.Failed + r.Waiting
		if asJSON {
			continue
		}
		for _, failure := range r.Failures {
			fmt.Fprintf(out, "%s: dead letter %s failed again: %s\n", r.Function, text.Line(failure.ID), text.Line(failure.Error))
		}
		fmt.Fprintf(out, "%s: %d handled, %d failed again, %d waiting behind these\n", r.Function, r.Handled, r.Failed, r.Waiting)
	}
	if asJSON {
		if err := json.NewEncoder(text.SafeWriter(out)).Encode(results); err != nil {
			return err
		}
	}
	if left > 0 {
		return fmt.Errorf("%d dead letters are left", left)
	}
	return nil
}

// discard deletes the dead letters with the ids, or all that are selected.
func (p *letterFlags) discard(ctx context.Context, ids []string, confirm confirmation, out io.Writer) error {
	stores, err := p.openStores(ctx)
	if err != nil {
		return err
	}
	p.DeadOnly = len(ids) == 0
	found, n := p.Find(ctx, stores), 0
	if len(ids) == 0 {
		n, err = operate.CountSelected(found)
	} else {
		var letters []operate.StoredLetter
		letters, err = p.Named(ctx, stores, ids)
		found, n = whole(letters), len(letters)
	}
	if err != nil {
		return err
	}
	if n > 0 {
		if err := confirm(fmt.Sprintf("Delete %d dead letters? Their changes are lost.", n)); err != nil {
			return err
		}
	}
	deleted, failed := operate.DeleteDeadLetters(ctx, found)
	if p.json {
		err = json.NewEncoder(out).Encode(map[string]int{"discarded": deleted})
	} else {
		_, err = fmt.Fprintf(out, "%d dead letters deleted\n", deleted)
	}
	return errors.Join(err, failed)
}

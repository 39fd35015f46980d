package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/redact"
)

func replayCommand(pick *selection) *cobra.Command {
	var yes bool
	var bounds replayBounds
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
			if err := bounds.check(); err != nil {
				return err
			}
			pick.ids, pick.dead = ids, true
			return pick.replay(cmd.Context(), bounds, asker(cmd, yes), cmd.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&bounds.dryRun, "dry-run", false, "list the dead letters instead of replaying them")
	c.Flags().IntVar(&bounds.limit, "limit", 0, "replay this many at most, those of the keys with the oldest ones; 0 is no limit")
	c.Flags().IntVar(&bounds.parallel, "parallel", 8, "handler calls at a time; dead letters of one key are replayed one by one")
	return c
}

// replayBounds say how much of the selection is replayed, and how.
type replayBounds struct {
	dryRun          bool
	limit, parallel int
}

func (b replayBounds) check() error {
	if b.limit < 0 {
		return fmt.Errorf("--limit %d: must not be negative", b.limit)
	}
	if b.parallel < 1 {
		return fmt.Errorf("--parallel %d: must be above 0", b.parallel)
	}
	return nil
}

// limited yields the first dead letters, as many as the limit allows, and all errors.
func (b replayBounds) limited(found iter.Seq2[storedLetter, error]) iter.Seq2[storedLetter, error] {
	return func(yield func(storedLetter, error) bool) {
		n := 0
		for l, err := range found {
			if err == nil {
				if n++; b.limit > 0 && n > b.limit {
					continue
				}
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

func discardCommand(pick *selection) *cobra.Command {
	var yes, all bool
	c := &cobra.Command{
		Use:   "discard [ID…]",
		Short: "Delete dead letters; their changes are lost",
		Long: `Discard deletes the dead letters with the ids, or with --all those that
--function, --key, --range, --since, --until and --error select. If an id is missing, nothing is deleted.
Postponed changes are kept, unless an id names one or --postponed is given.

It asks for confirmation; without a terminal it needs --yes.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if all == (len(ids) > 0) {
				return errors.New("name the dead letters by their ids, or select them with --all, and with --function, --key, --range, --since, --until or --error")
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

// replayed is the outcome of a replay for one function.
type replayed struct {
	Function string `json:"function"`
	trigger.Replayed
	Failures []failedLetter `json:"failures"`
}

// failedLetter is a dead letter on which the handler failed again.
type failedLetter struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// replay replays the selected dead letters of every function with its real handler.
func (p *selection) replay(ctx context.Context, bounds replayBounds, confirm confirmation, out io.Writer) error {
	stores, err := p.openStores(ctx)
	if err != nil {
		return err
	}
	if len(p.ids) > 0 {
		if _, err := p.named(ctx, stores, p.ids); err != nil {
			return err
		}
	}
	if bounds.dryRun {
		found := bounds.limited(p.find(ctx, stores))
		if p.json {
			return printLines(out, found)
		}
		return printTable(out, found)
	}
	n, err := countSelected(bounds.limited(p.find(ctx, stores)))
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
func (p *selection) replayConfirmed(ctx context.Context, bounds replayBounds, out io.Writer) error {
	s, err := p.loadKeeping()
	if err != nil {
		return err
	}
	a, err := hosting.Open(ctx, s, hosting.Options{Grace: time.Duration(s.App.StopGrace), Telemetry: p.of.Telemetry}, hosting.JSONLogger(p.of.Stderr, s.App.LogLevel))
	if err != nil {
		return err
	}
	defer a.Close()
	var failed error
	results := []replayed{}
	left := bounds
	for _, f := range s.Functions {
		if bounds.limit > 0 && left.limit == 0 {
			break
		}
		fn := a.Opened[f.Name]
		r, err := p.replayOne(ctx, functionStore{f.Name, fn.DeadLetterSource(), fn.DeadLetters}, fn, left)
		results, failed = append(results, r), errors.Join(failed, err)
		left.limit = max(left.limit-r.Handled-r.Failed, 0)
	}
	return errors.Join(printReplayed(out, results, p.json), failed)
}

// countSelected returns how many dead letters are selected. If there are any, errors about
// unreadable ones are left to the caller that iterates over them.
func countSelected(found iter.Seq2[storedLetter, error]) (n int, err error) {
	for _, unread := range found {
		if unread != nil {
			err = errors.Join(err, unread)
			continue
		}
		n++
	}
	if n > 0 {
		return n, nil
	}
	return n, err
}

// replayOne replays the dead letters of one function. Each call has the deadline
// of the function's other calls.
func (p *selection) replayOne(ctx context.Context, store functionStore, f trigger.Function, bounds replayBounds) (replayed, error) {
	r := replayed{Function: store.function, Failures: []failedLetter{}}
	handler := func(ctx context.Context, b trigger.Batch) error {
		ctx, cancel := context.WithTimeout(ctx, f.HandlerTimeout)
		defer cancel()
		return f.Handler(ctx, b)
	}
	failed := func(d trigger.DeadLetter, err error) {
		r.Failures = append(r.Failures, failedLetter{d.ID, redact.Text(err.Error())})
	}
	for _, kind := range p.kinds() {
		opts := &trigger.ReplayOptions{Select: p.query(kind), Wanted: p.wants, Limit: bounds.limit, Parallel: bounds.parallel, Failed: failed}
		done, err := trigger.Replay(ctx, store, store.source, handler, opts)
		r.Handled, r.Failed, r.Waiting = r.Handled+done.Handled, r.Failed+done.Failed, r.Waiting+done.Waiting
		if err != nil {
			return r, err
		}
		if left := bounds.limit - done.Handled - done.Failed; bounds.limit > 0 && left <= 0 {
			break
		} else if bounds.limit > 0 {
			bounds.limit = left
		}
	}
	return r, nil
}

// printReplayed returns an error if dead letters are left.
func printReplayed(out io.Writer, results []replayed, asJSON bool) error {
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
func (p *selection) discard(ctx context.Context, ids []string, confirm confirmation, out io.Writer) error {
	stores, err := p.openStores(ctx)
	if err != nil {
		return err
	}
	p.dead = len(ids) == 0
	found, n := p.find(ctx, stores), 0
	if len(ids) == 0 {
		n, err = countSelected(found)
	} else {
		var letters []storedLetter
		letters, err = p.named(ctx, stores, ids)
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
	deleted, failed := deleteDeadLetters(ctx, found)
	if p.json {
		err = json.NewEncoder(out).Encode(map[string]int{"discarded": deleted})
	} else {
		_, err = fmt.Fprintf(out, "%d dead letters deleted\n", deleted)
	}
	return errors.Join(err, failed)
}

// whole yields dead letters that were all read.
func whole(letters []storedLetter) iter.Seq2[storedLetter, error] {
	return func(yield func(storedLetter, error) bool) {
		for _, l := range letters {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// deleteDeadLetters deletes all dead letters that can be read.
func deleteDeadLetters(ctx context.Context, found iter.Seq2[storedLetter, error]) (deleted int, failed error) {
	for l, err := range found {
		if err == nil {
			err = l.in.Delete(ctx, l.DeadLetter)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		deleted++
	}
	return deleted, failed
}

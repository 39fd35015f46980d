package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

const (
	maxHosts = 64
	maxRate  = 100_000
)

// devOptions are the flags of halley dev.
type devOptions struct {
	For        time.Duration // 0: until a signal
	Rate       int           // writes per second
	Data       string        // directory of the account; "": memory
	SplitAfter time.Duration // 0: no split
	Hosts      int
	Poison     int // one in so many documents; 0: none
	JSON       bool
}

func devCommand() *cobra.Command {
	var o devOptions
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run the sample application on an embedded account",
		Long: `Dev runs everything in this process: an embedded account whose container has
four ranges, a writer that posts game results, the handlers with an embedded
Redis and a push receiver, and one or more hosts that share the leases.

It ends after --for, or with Ctrl-C: the writer stops, the handlers catch up,
the hosts release their leases. The summary tells what was written, delivered,
redelivered and lost. A document is lost if its newest version was neither
accepted by some function nor stored as its dead letter. If anything was lost,
the exit code is 1.

With --poison N every handler fails on one in N documents. Such a document is
isolated and dead-lettered, while the others continue. At the end the poison is
cured and the dead letters are replayed, which leaves the store empty.

Dev opens the application as halley run does, with shorter intervals and the
embedded services as defaults. Settings in the environment override these; a
connection to another account is refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return devMain(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.DurationVar(&o.For, "for", 0, "end after this long (default: at Ctrl-C)")
	f.IntVar(&o.Rate, "rate", 100, "game results written per second")
	f.StringVar(&o.Data, "data", "", "directory that keeps the account over restarts (default: in memory)")
	f.DurationVar(&o.SplitAfter, "split-after", 0, "split a range after this long, and merge its halves after twice as long")
	f.IntVar(&o.Hosts, "hosts", 1, "hosts that share the leases")
	f.IntVar(&o.Poison, "poison", 0, "make one in so many documents poison for the handlers (default: none)")
	f.BoolVar(&o.JSON, "json", false, "print the summary as JSON on stdout, and progress on stderr")
	return c
}

func (o devOptions) check() error {
	switch {
	case o.For < 0:
		return fmt.Errorf("--for %v: must not be negative", o.For)
	case o.Rate < 1 || o.Rate > maxRate:
		return fmt.Errorf("--rate %d: write 1 to %d results per second", o.Rate, maxRate)
	case o.SplitAfter < 0:
		return fmt.Errorf("--split-after %v: must not be negative", o.SplitAfter)
	case o.For > 0 && o.SplitAfter >= o.For:
		return fmt.Errorf("--split-after %v: must be less than --for %v", o.SplitAfter, o.For)
	case o.Hosts < 1 || o.Hosts > maxHosts:
		return fmt.Errorf("--hosts %d: run 1 to %d hosts", o.Hosts, maxHosts)
	case o.Poison < 0:
		return fmt.Errorf("--poison %d: must not be negative", o.Poison)
	}
	return nil
}

// errLost makes the exit code 1; the summary has told the rest.
var errLost = fmt.Errorf("changes were lost, or not handled within %v of the last write", catchUpTime)

// devMain runs dev with its output: nothing but the summary goes to stdout
// when that is JSON.
func devMain(ctx context.Context, o devOptions, stdout, stderr io.Writer) error {
	out := stdout
	if o.JSON {
		out = stderr
	}
	show := newProgress(out, isTerminal(out))
	s, err := dev(ctx, o, show)
	if err != nil {
		return err
	}
	if o.JSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(s)
	} else {
		err = s.print(stdout)
	}
	if err == nil && s.Lost > 0 {
		err = errLost
	}
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// dev runs the sample application until o.For has passed or ctx ends, and sums up.
func dev(ctx context.Context, o devOptions, show *progress) (result devSummary, err error) {
	world, err := openSample(o.Data)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	settings, err := world.settings(o.Poison > 0)
	if err != nil {
		return result, err
	}
	if err := world.populate(ctx, settings); err != nil {
		return result, err
	}
	s, err := newSession(ctx, o, world, settings, show, jsonLogger(show, settings.App.LogLevel))
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	began := time.Now()
	if err := s.run(ctx); err != nil {
		return result, err
	}
	return s.summary(time.Since(began)), nil
}

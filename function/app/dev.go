//go:build !nodev

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

const (
	maxHosts = 64
	maxRate  = 100_000
)

// devOptions are the flags of the command dev.
type devOptions struct {
	For        time.Duration // 0: until a signal
	Rate       int           // writes per second
	Data       string        // directory of the account; "": memory
	SplitAfter time.Duration // 0: no split
	Hosts      int
	Poison     int // one in so many documents; 0: none
	JSON       bool
}

// devCommands are the commands of a developer's machine. The build tag nodev leaves
// them out of the binary, with the embedded account.
func (o Options) devCommands() []*cobra.Command {
	return []*cobra.Command{o.devCommand(), emulatorCommand(), newCommand(), packageCommand()}
}

func (o Options) devCommand() *cobra.Command {
	var flags devOptions
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run the app on an embedded account",
		Long: `Dev runs everything in this process: an embedded account with the containers of
the app, the servers and the load that the app has for this command, the
handlers, and one or more hosts that share the leases.

It ends after --for, or with Ctrl-C: the load stops, the handlers catch up,
the hosts release their leases. The summary tells what was written, delivered,
redelivered and lost. A document is lost if its newest version was neither
accepted by some function nor stored as its dead letter. If anything was lost,
the exit code is 1.

With --poison N every handler fails on one in N documents. Such a document is
isolated and dead-lettered, while the others continue. At the end the poison is
cured and the dead letters are replayed, which leaves the store empty.

Dev opens the app as the command run does, with shorter intervals and the
embedded services as defaults. Settings in the environment override these; a
connection to another account is refused. A file dev/NAME.jsonl in the current
directory has documents for the monitored container NAME, one on each line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return o.devMain(cmd.Context(), flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.DurationVar(&flags.For, "for", 0, "end after this long (default: at Ctrl-C)")
	f.IntVar(&flags.Rate, "rate", 100, "documents that the load of the app writes per second")
	f.StringVar(&flags.Data, "data", "", "directory that keeps the account over restarts (default: in memory)")
	f.DurationVar(&flags.SplitAfter, "split-after", 0, "split a range after this long, and merge its halves after twice as long")
	f.IntVar(&flags.Hosts, "hosts", 1, "hosts that share the leases")
	f.IntVar(&flags.Poison, "poison", 0, "make one in so many documents poison for the handlers (default: none)")
	f.BoolVar(&flags.JSON, "json", false, "print the summary as JSON on stdout, and progress on stderr")
	return c
}

func (o devOptions) check() error {
	switch {
	case o.For < 0:
		return fmt.Errorf("--for %v: must not be negative", o.For)
	case o.Rate < 1 || o.Rate > maxRate:
		return fmt.Errorf("--rate %d: write 1 to %d documents per second", o.Rate, maxRate)
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
func (o Options) devMain(ctx context.Context, flags devOptions, stdout, stderr io.Writer) error {
	out := stdout
	if flags.JSON {
		out = stderr
	}
	show := newProgress(out, isTerminal(out))
	s, err := o.dev(ctx, flags, show)
	if err != nil {
		return err
	}
	if flags.JSON {
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

// dev runs the app until flags.For has passed or ctx ends, and sums up.
func (o Options) dev(ctx context.Context, flags devOptions, show *progress) (result devSummary, err error) {
	world, err := openWorld(ctx, o, flags.Data)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	settings, err := world.settings(flags.Poison > 0)
	if err != nil {
		return result, err
	}
	run := world.newRun(settings, flags.Rate)
	if err := world.populate(ctx, settings, run); err != nil {
		return result, err
	}
	s, err := newSession(ctx, flags, world, settings, run, show, jsonLogger(show, settings.App.LogLevel))
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

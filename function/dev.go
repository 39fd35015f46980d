package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"halley/trigger"
	"halley/trigger/cosmos"
)

const (
	catchUpTime = 30 * time.Second // for the handlers, after the last write
	maxHosts    = 64
	maxRate     = 100_000
)

// devOptions are the flags of halley dev.
type devOptions struct {
	For        time.Duration // 0: until a signal
	Rate       int           // writes per second
	Data       string        // directory of the account; "": memory
	SplitAfter time.Duration // 0: no split
	Hosts      int
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
redelivered and lost, which is every document whose newest version some
function did not accept. If anything was lost the exit code is 1.`,
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
	}
	return nil
}

// errLost makes the exit code 1; the summary has told the rest.
var errLost = errors.New("changes were lost")

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
	log := jsonLogger(show, "error")
	world, err := openSample(ctx, o.Data, log)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	books := world.keepBooks()
	at := newPositions()
	hosts := make([]*trigger.Host, o.Hosts)
	for i := range hosts {
		owner := "dev-" + strconv.Itoa(i+1)
		if hosts[i], err = world.host(owner, at.of(owner), log); err != nil {
			return result, err
		}
	}

	began := time.Now()
	working, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	writing, stopWriting := until(ctx, working, o.For)
	defer stopWriting()
	w := &writer{container: world.client.Container(sampleDatabase, sampleResults), ledger: books, rate: o.Rate, run: strconv.FormatInt(began.UnixNano(), 36)}
	var running, around sync.WaitGroup
	for _, h := range hosts {
		running.Go(func() {
			if err := h.Run(working); err != nil {
				stopWork(fmt.Errorf("host %s: %w", h.Owner(), err))
			}
		})
	}
	around.Go(func() { world.reshape(writing, o.SplitAfter, show) })
	around.Go(func() { show.follow(writing, books, hosts) })
	w.Run(writing)
	around.Wait()

	show.say("writing has ended; waiting for the handlers")
	catching, cancel := context.WithTimeout(working, catchUpTime)
	books.wait(catching)
	cancel()
	failure := context.Cause(working)
	stopWork(nil)
	running.Wait()
	if failure != nil {
		return result, failure
	}
	return summaryOf(o, time.Since(began), books, w, at, world), nil
}

// until ends when either context does, or after d unless that is 0.
func until(ctx, other context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	if d > 0 {
		timer := time.AfterFunc(d, cancel)
		return ctx, func() { timer.Stop(); stop(); cancel() }
	}
	return ctx, func() { stop(); cancel() }
}

// keepBooks puts every function under the eyes of one ledger.
func (s *sample) keepBooks() *ledger {
	var names []string
	for _, f := range s.functions {
		names = append(names, f.Name)
	}
	books := newLedger(names)
	for i := range s.functions {
		s.functions[i].Handler = books.watch(i, s.functions[i].Handler)
	}
	return books
}

// reshape splits the first range after d, and merges its halves after another d.
func (s *sample) reshape(ctx context.Context, d time.Duration, show *progress) {
	if d == 0 || !pause(ctx, d) {
		return
	}
	children, err := s.split(ctx)
	if err != nil {
		show.say(err.Error())
		return
	}
	show.say(fmt.Sprintf("a range was split into %s and %s", children[0], children[1]))
	if !pause(ctx, d) {
		return
	}
	child, err := s.account.Merge(sampleDatabase, sampleResults, children...)
	if err != nil {
		show.say(err.Error())
		return
	}
	show.say(fmt.Sprintf("ranges %s and %s were merged into %s", children[0], children[1], child))
}

func (s *sample) split(ctx context.Context) (children []string, err error) {
	var ranges []cosmos.Range
	if ranges, err = s.client.Container(sampleDatabase, sampleResults).Ranges(ctx); err != nil {
		return nil, err
	}
	return s.account.Split(sampleDatabase, sampleResults, ranges[0].ID)
}

// pause reports whether d passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

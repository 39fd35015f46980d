//go:build !nodev

package dev

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/operatorpage"
	"halley/function/app/internal/settings"
)

// NewCommand returns the command dev of an app.
func NewCommand(p *Program) *cobra.Command {
	var flags runFlags
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run the app on an embedded account",
		Long: `Dev runs the app as the command run does, against an embedded account with the
containers that the app monitors and expects. Other programs can write to the
account: dev prints its connection string. It ends after --for, or with Ctrl-C:
the handlers catch up, the hosts release their leases, and a verdict says
whether each change was handled. If not, the exit code is 1.

A file dev/NAME.jsonl has documents for the container NAME, one JSON object on
each line. Dev writes those that the account lacks, and each line that is added
or changed while it runs. With --seed FILE, or --seed NAME=FILE, it reads these
files instead.

With --watch dev builds the app again when a Go file of its module changes, and
replaces the running handlers. The account, its data and its port stay. Functions
in other languages are started again when one of their files changes.

With --poison N every handler fails on one in N documents. Such a document is
isolated and dead-lettered, while the others continue. At the end the poison is
cured and the dead letters are replayed, which leaves the store empty.

On a terminal, or with --page, dev serves a page and prints its address. The page
shows the life of each change, live, and has actions: deliver a change again,
also with another document; make a document poison; split and merge ranges; kill
and start hosts.

With --dead-letters FILE dev calls the handlers with the dead letters of a file
that the command deadletters export has written elsewhere, each once and without
a deadline: a failure in production runs in your debugger. If one fails again,
the exit code is 1.

Dev presets short intervals; check --dev shows them. Settings in the
environment override all presets. A connection to another account is refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return develop(cmd.Context(), p, flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.DurationVar(&flags.For, "for", 0, "end after this long (default: at Ctrl-C)")
	f.StringVar(&flags.Addr, "addr", "", "loopback address of the account (default: "+defaultAddr+", or a free port if that is taken)")
	f.StringVar(&flags.Data, "data", "", "directory that keeps the account over restarts (default: in memory)")
	f.StringArrayVar(&flags.Seeds, "seed", nil, "documents to write, as FILE or CONTAINER=FILE; may be repeated (default: the files dev/CONTAINER.jsonl)")
	f.BoolVar(&flags.Watch, "watch", false, "build and restart the handlers when a file of their source changes")
	f.IntVar(&flags.Rate, "rate", 100, "documents that the load of the app writes per second, if it has one")
	f.DurationVar(&flags.SplitAfter, "split-after", 0, "split a range after this long, and merge its halves after twice as long")
	f.IntVar(&flags.Hosts, "hosts", 1, "hosts that share the leases")
	f.IntVar(&flags.Poison, "poison", 0, "make one in so many documents poison for the handlers (default: none)")
	f.StringVar(&flags.Page, "page", "", "loopback address of the page, or off (default: "+operatorpage.DefaultAddr+" on a terminal, or a free port if that is taken)")
	f.Lookup("page").NoOptDefVal = pageOn
	f.StringVar(&flags.Letters, "dead-letters", "", "file of dead letters to call the handlers with, as deadletters export writes it")
	f.BoolVar(&flags.JSON, "json", false, "print the summary as JSON on stdout, and progress on stderr")
	return c
}

// errUnhandled makes the exit code 1; the verdict has told the rest.
var errUnhandled = errors.New("not every change was handled")

// develop runs dev with its output: nothing but the summary goes to stdout when that
// is JSON.
func develop(ctx context.Context, p *Program, flags runFlags, stdout, stderr io.Writer) error {
	out := stdout
	if flags.JSON {
		out = stderr
	}
	s, err := run(ctx, p, flags, newScreen(out))
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
	if err == nil && !s.handled() {
		err = errUnhandled
	}
	return err
}

// run runs the app until flags.For has passed or ctx ends, and sums up.
func run(ctx context.Context, p *Program, flags runFlags, show *screen) (result runSummary, err error) {
	world, err := openWorld(ctx, p, flags)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	if err := world.load(ctx, flags); err != nil {
		return result, err
	}
	letters, err := operate.ReadDeadLetters(flags.Letters, world.settings.App.Functions)
	if err != nil {
		return result, err
	}
	at, err := listenForPage(flags, show.live)
	if err != nil {
		return result, err
	}
	defer at.Shut()
	world.printHeader(show, flags, at)
	s := newSession(flags, world, show)
	s.letters.waiting = letters
	if flags.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flags.For)
		defer cancel()
	}
	if flags.Watch {
		return s.watch(ctx, at)
	}
	restore, err := show.takeStdout()
	if err != nil {
		return result, err
	}
	defer restore()
	s.handlerLog = handlerLogger(show, world.settings.App)
	if err := s.open(context.WithoutCancel(ctx), screenLogger(show, world.settings.App)); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	stopPage, err := servePage(ctx, s, at)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, stopPage()) }()
	return s.run(ctx)
}

// WithSettings calls use with the settings of the app as dev loads them, while the account
// is served.
func WithSettings(ctx context.Context, p *Program, use func(*settings.Settings) error) (err error) {
	world, err := openWorld(ctx, p, runFlags{Addr: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	if err := world.load(ctx, runFlags{Rate: 1, Hosts: 1, Seeds: []string{}}); err != nil {
		return err
	}
	return use(world.settings)
}

package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"halley/function/app/internal/dev"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operatorpage"
	"halley/function/app/internal/settings"
)

func runCommand(p *hosting.Program) *cobra.Command {
	var watched bool
	var pageAddr string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the enabled functions until a signal",
		Long: `Run takes a share of the leases of the enabled functions and calls their
handlers with changes as they arrive, until SIGTERM or Ctrl-C. Then it stops in
good order and exits with 0: running handlers may finish, their progress is
checkpointed, and the leases are released. A signal that comes more than a
second after the first ends the process at once; its leases then expire.

If a function cannot continue, for example because its container was deleted, it
is tried again while others can. Run ends with the exit code 1, and with what
the command check says, when none can.

Settings are environment variables; the command check prints them. The log goes to
stdout: text on a terminal and JSON elsewhere, unless HALLEY_LOG_FORMAT says so.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if watched {
				ctx = untilEOF(ctx, cmd.InOrStdin())
			}
			return runHosts(ctx, p, pageAddr, watched)
		},
	}
	c.Flags().StringVar(&pageAddr, "page", "", "serve the operators' page at this address, such as 127.0.0.1:8082; beyond loopback it needs HALLEY_PAGE_TOKEN")
	c.Flags().BoolVar(&watched, dev.WatchedFlag, false, "")
	_ = c.Flags().MarkHidden(dev.WatchedFlag) // it is defined above
	return c
}

// untilEOF returns a context that ends with ctx or with the input. Its goroutine ends
// with the input, or with the process.
func untilEOF(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx
}

// withAdvice adds the findings of the command check to the error of a failed run.
func withAdvice(name string, s *settings.Settings, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), adviceTime)
	defer cancel()
	var out strings.Builder
	r := &report{out: &out}
	for _, f := range s.Functions {
		r.function(ctx, f)
	}
	var advice []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "FAIL") {
			advice = append(advice, strings.TrimSpace(line))
		}
	}
	if advice == nil {
		return err
	}
	return fmt.Errorf("%w\n%s check says:\n%s", err, name, strings.Join(advice, "\n"))
}

// adviceTime bounds the check after a failed run.
const adviceTime = 10 * time.Second

// runHosts is the continuous host: it runs the enabled functions until ctx ends. watched is for
// dev --watch.
func runHosts(ctx context.Context, p *hosting.Program, pageAddr string, watched bool) error {
	s, err := settings.Load(p.Source)
	if err != nil {
		return err
	}
	at, err := operatorpage.Listen(pageAddr, s)
	if err != nil {
		return err
	}
	defer at.Shut()
	log := hosting.NewRunLogger(s.App)
	options := hosting.Options{Grace: time.Duration(s.App.StopGrace), Telemetry: p.Telemetry}
	shown := operatorpage.New(s)
	shown.Recorder.FailuresOnly = !watched
	if at != nil {
		shown.Observe(&options)
	}
	a, err := hosting.Open(ctx, s, options, log)
	if err != nil {
		return err
	}
	defer a.Close()
	for _, h := range a.Hosts {
		log.Info("host started", zap.String("owner", h.Owner()), zap.String("version", p.Version))
	}
	run := func(ctx context.Context) error { return a.RunTelling(ctx, hosting.ProgressEvery) }
	if at != nil {
		if !watched { // dev has printed it
			fmt.Fprintf(p.Stderr, "page: %s\n", at.Address())
		}
		hosts := run
		run = func(ctx context.Context) error { return shown.Serve(ctx, p.Name, a, at, hosts) }
	}
	if err := a.WithProbes(ctx, run); err != nil {
		return withAdvice(p.Name, s, err)
	}
	log.Info("stopped in good order")
	return nil
}

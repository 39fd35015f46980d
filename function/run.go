package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"halley/handlers"
)

func runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the enabled functions until a signal",
		Long: `Run takes a share of the leases of the enabled functions and calls their
handlers with changes as they arrive, until SIGTERM or Ctrl-C. Then it stops in
good order and exits with 0: running handlers may finish, their progress is
checkpointed, and the leases are released. A signal that comes more than a
second after the first ends the process at once; its leases then expire.

Settings are environment variables; halley check prints them. The log is JSON
on stdout.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) },
	}
}

// run is the continuous host: it runs the enabled functions until ctx ends.
func run(ctx context.Context) error {
	s, err := loadSettings(handlers.All())
	if err != nil {
		return err
	}
	log := newLogger(s.App.LogLevel)
	a, err := openApp(ctx, s, appOptions{grace: time.Duration(s.App.StopGrace)}, log)
	if err != nil {
		return err
	}
	defer a.Close()
	for _, h := range a.hosts {
		log.Info("host started", zap.String("owner", h.Owner()), zap.String("version", version()))
	}
	if err := a.Run(ctx); err != nil {
		return err
	}
	log.Info("stopped in good order")
	return nil
}

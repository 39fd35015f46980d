package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"example.com/ordermail/mailer"
)

// mailerCommand returns the command that runs the mailer, behind a proxy with TLS.
func mailerCommand() *cobra.Command {
	var addr, outbox string
	c := &cobra.Command{
		Use:   "mailer",
		Short: "Receive webhooks and write e-mails; MAILER_SECRET is one of the sender's secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := mailer.New(outbox, os.Getenv("MAILER_SECRET"))
			if err != nil {
				return err
			}
			return serve(cmd.Context(), &http.Server{Addr: addr, Handler: m, ReadHeaderTimeout: 10 * time.Second})
		},
	}
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:8090", "address to listen at")
	c.Flags().StringVar(&outbox, "outbox", "outbox", "directory of the e-mails")
	return c
}

// serve serves until ctx ends and running requests are answered.
func serve(ctx context.Context, server *http.Server) error {
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	err := server.Shutdown(context.WithoutCancel(ctx))
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

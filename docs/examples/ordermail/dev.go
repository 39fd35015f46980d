//go:build !nodev

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"halley/function/app"

	"example.com/ordermail/mailer"
)

// devSecret signs in a development run.
const devSecret = "whsec_b3JkZXJtYWlsIG9yZGVybWFpbCBvcmRlcm1haWwh"

// devMailer is a mailer in this process, with an outbox that is removed at the end.
type devMailer struct {
	*mailer.Mailer
	outbox string
	server *http.Server
	served chan error
}

// startDev starts the mailer for the command dev.
func startDev(context.Context) (*app.DevServices, error) {
	outbox, err := os.MkdirTemp("", "outbox")
	if err != nil {
		return nil, err
	}
	m, err := mailer.New(outbox, devSecret)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &devMailer{m, outbox, &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}, make(chan error, 1)}
	go func() { s.served <- s.server.Serve(listener) }()
	return &app.DevServices{
		Settings: map[string]string{
			"HALLEY_CONTAINER_NAME":                 "orders",
			"HALLEY_WEBHOOK_URL":                    "http://" + listener.Addr().String() + "/",
			"HALLEY_WEBHOOK_SECRETS":                devSecret,
			"HALLEY_WEBHOOK_EVENT":                  "order",
			"HALLEY_WEBHOOK_FILTER":                 statuses,
			"HALLEY_WEBHOOK_ALLOW_PRIVATE_ENDPOINT": "true",
		},
		Figures: s.figures,
		Close:   s.close,
	}, nil
}

// statuses is the filter of the handler: customers hear of no other changes.
const statuses = `{"status": ["placed", "sent"]}`

func (s *devMailer) figures() map[string]int64 {
	mails, err := s.Outbox()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return map[string]int64{"e-mails written": int64(len(mails))}
}

// close prints the e-mails and stops the mailer.
func (s *devMailer) close() error {
	mails, err := s.Outbox()
	slices.Sort(mails)
	for _, line := range mails {
		fmt.Fprintln(os.Stderr, line)
	}
	err = errors.Join(err, s.server.Shutdown(context.Background()))
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, os.RemoveAll(s.outbox))
}

//go:build natsserver

package main

import (
	"errors"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

// natsNeeds is empty, because this build has a NATS server.
const natsNeeds = ""

// natsServer starts a NATS server with JetStream, unless the setting names real ones.
func natsServer(s *stage) (url string, err error) {
	if url := os.Getenv(natsURL); url != "" {
		return url, nil
	}
	directory, err := os.MkdirTemp("", "halley-nats")
	if err != nil {
		return "", err
	}
	s.onClose(func() error { return os.RemoveAll(directory) })
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: directory, NoLog: true, NoSigs: true})
	if err != nil {
		return "", err
	}
	broker.Start()
	s.onClose(func() error {
		broker.Shutdown()
		broker.WaitForShutdown()
		return nil
	})
	if !broker.ReadyForConnections(startTime) {
		return "", errors.New("the NATS server did not start")
	}
	return broker.ClientURL(), nil
}

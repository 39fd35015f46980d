//go:build natsserver

package nats

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/stream/streamtest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// A consumer of the stream ends up with the documents of the container, whatever happens
// on the way.
func TestStreamConverges(t *testing.T) {
	for name, function := range streamtest.Functions() {
		t.Run(name, func(t *testing.T) {
			triggertest.Converges(t, streamtest.Scenario(t, function, func(t testing.TB, w *triggertest.World) triggertest.Sink {
				s := startServer(t, nil)
				setURL(t, s.ClientURL())
				changes := createStream(t, client(t, s), jetstream.StreamConfig{Storage: jetstream.MemoryStorage})
				entry := handlers.New("nats", "", Open)
				return triggertest.Sink{
					Start: func() (trigger.Handler, func() error) {
						return handlerstest.Start(t, entry, handlerstest.Env(w))
					},
					State: func() any { return replicaOf(t, changes) },
				}
			}))
		})
	}
}

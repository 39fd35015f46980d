//go:build natsserver

package nats

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"halley/handlers/stream/streamtest"
)

// BenchmarkHandler publishes to a server in the process, which stores messages in files.
func BenchmarkHandler(b *testing.B) {
	s := startServer(b, nil)
	createStream(b, client(b, s), jetstream.StreamConfig{MaxBytes: 256 << 20})
	setURL(b, s.ClientURL())
	streamtest.Bench(b, opened(b))
}

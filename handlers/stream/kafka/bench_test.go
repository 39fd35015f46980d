package kafka

import (
	"os"
	"testing"

	"halley/handlers/stream/streamtest"
)

// BenchmarkHandler publishes to the real broker, or to the embedded one if there is none.
func BenchmarkHandler(b *testing.B) {
	brokers := os.Getenv("HALLEY_TEST_KAFKA")
	if brokers == "" {
		brokers = embedded(b)
	}
	streamtest.Bench(b, opened(b, createTopic(b, brokers, nil).set))
}

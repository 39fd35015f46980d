package apps_test

import (
	"fmt"

	"halley/handlers"
	"halley/handlers/stream/kafka"
	"halley/handlers/stream/nats"
)

// An app lists one of them, and links its client alone.
func Example_brokers() {
	entries := []handlers.Entry{
		handlers.New("kafka", "publishes changes to Kafka", kafka.Open),
		handlers.New("nats", "publishes changes to NATS JetStream", nats.Open),
	}
	for _, e := range entries {
		fmt.Println(e.Name, e.Prefix())
	}
	// Output:
	// kafka HALLEY_KAFKA_
	// nats HALLEY_NATS_
}

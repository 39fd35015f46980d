// Package bundled lists the handlers that Halley comes with.
package bundled

import (
	"halley/handlers"
	"halley/handlers/archive"
	"halley/handlers/migrate"
	"halley/handlers/postgres/view"
	"halley/handlers/push"
	"halley/handlers/push/fcm"
	"halley/handlers/push/mqtt"
	"halley/handlers/redis/cache"
	"halley/handlers/redis/leaderboard"
	"halley/handlers/remote"
	"halley/handlers/search/bleve"
	"halley/handlers/search/opensearch"
	"halley/handlers/stream/kafka"
	"halley/handlers/stream/nats"
	"halley/handlers/webhook"
)

// Entries returns all handlers.
func Entries() []handlers.Entry {
	return []handlers.Entry{
		handlers.New("leaderboard", "keeps the best score per player and game in Redis", leaderboard.Open),
		handlers.New("push", "sends a Web Push notification to a player who is overtaken", push.Open),
		handlers.New("fcm", "notifies a player who is overtaken by Firebase Cloud Messaging", fcm.Open),
		handlers.New("mqtt", "publishes to a player's topic when the player is overtaken", mqtt.Open),
		handlers.New("cache", "keeps a cache in Redis in step with the container", cache.Open),
		handlers.New("view", "keeps a table and totals in PostgreSQL in step with the container", view.Open),
		handlers.New("search", "keeps a full-text index in a directory", bleve.Open),
		handlers.New("opensearch", "keeps a full-text index in an OpenSearch cluster", opensearch.Open),
		handlers.New("archive", "keeps every change in Parquet files", archive.Open),
		handlers.New("migrate", "copies to a container with another partition key", migrate.Open),
		handlers.New("webhook", "posts each change to an URL, signed", webhook.Open),
		handlers.New("nats", "publishes each change to NATS JetStream", nats.Open),
		handlers.New("kafka", "publishes each change to Kafka", kafka.Open),
		handlers.New("remote", "calls a function behind HTTP", remote.Open),
	}
}

// Entry returns the handler of a name. It panics if there is none.
func Entry(name string) handlers.Entry {
	for _, e := range Entries() {
		if e.Name == name {
			return e
		}
	}
	panic("no handler is called " + name)
}

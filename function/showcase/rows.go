package main

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

// rows lists all handlers: the showcase shows them, and TestWalk walks them through each
// kind of change.
func rows() []row {
	notResults := []string{walkShape, walkNumberKey, walkBooleanKey, walkNullKey, walkMissingKey}
	return []row{
		{entry: handlers.New("leaderboard", "keeps the best score per player and game in Redis", leaderboard.Open), start: startLeaderboard, refuses: notResults},
		{entry: handlers.New("push", "sends a Web Push notification to a player who is overtaken", push.Open), start: startPush, refuses: notResults},
		{entry: handlers.New("fcm", "notifies a player who is overtaken by Firebase Cloud Messaging", fcm.Open), start: startFCM, refuses: notResults},
		{entry: handlers.New("mqtt", "publishes to a player's topic when the player is overtaken", mqtt.Open), start: startMQTT, refuses: notResults},
		{entry: handlers.New("cache", "keeps a cache in Redis in step with the container", cache.Open), start: startCache},
		{entry: handlers.New("view", "keeps a table and totals in PostgreSQL in step with the container", view.Open), start: startView, needs: "HALLEY_VIEW_POSTGRES_URL"},
		{entry: handlers.New("search", "keeps a full-text index in a directory", bleve.Open), start: startSearch},
		{entry: handlers.New("opensearch", "keeps a full-text index in an OpenSearch cluster", opensearch.Open), start: startOpenSearch},
		{entry: handlers.New("archive", "keeps every change in Parquet files", archive.Open), start: startArchive},
		{entry: handlers.New("migrate", "copies to a container with another partition key", migrate.Open), start: startMigrate},
		{entry: handlers.New("webhook", "posts each change to an URL, signed", webhook.Open), start: startWebhook},
		{entry: handlers.New("nats", "publishes each change to NATS JetStream", nats.Open), start: startNATS, refuses: []string{walkLarge}},
		{entry: handlers.New("kafka", "publishes each change to Kafka", kafka.Open), start: startKafka, refuses: []string{walkLarge}},
		{entry: handlers.New("remote", "calls a function behind HTTP", remote.Open), start: startRemote},
	}
}

// The changes of the walk that a handler may refuse, by the ids of their documents.
const (
	walkGame       = "chess" // of all its documents
	walkShape      = "another shape"
	walkLarge      = "1.9 MB"
	walkNumberKey  = "a number as key"
	walkBooleanKey = "a boolean as key"
	walkNullKey    = "null as key"
	walkMissingKey = "no key"
)

// Halley is a serverless trigger runtime: it reads the change feed of Azure Cosmos DB
// containers and calls handlers with the changes. This is its demo app, and the model
// of an app of your own: see package [halley/function/app].
package main

import (
	"halley/function/app"
	"halley/function/app/azurestorage"
	"halley/function/internal/demo"
	"halley/handlers"
	"halley/handlers/push"
	"halley/handlers/redis/leaderboard"
)

func main() { demoApp().Main() }

func demoApp() app.Options {
	return app.Options{
		Name: "halley",
		Handlers: []handlers.Entry{
			handlers.New("leaderboard", "keeps the best score per player and game in a Redis sorted set", leaderboard.Open),
			handlers.New("push", "sends a Web Push notification to a player who is overtaken", push.Open),
		},
		DeadLetterStores: azurestorage.DeadLetterStores(),
		Dev:              demo.Start,
		Commands:         demo.Commands(),
	}
}

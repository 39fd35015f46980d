// Game keeps the leaderboards of games, and notifies players who are overtaken.
package main

import (
	"github.com/spf13/cobra"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/push"
	"halley/handlers/redis/leaderboard"
)

func main() { gameApp().Main() }

func gameApp() app.Options {
	return app.Options{
		Handlers: []handlers.Entry{
			handlers.New("leaderboard", "keeps the best score per player and game", leaderboard.Open),
			handlers.New("push", "sends a Web Push notification to a player who is overtaken", push.Open),
		},
		Containers: []app.Container{
			{Name: "results", PartitionKey: []string{"/player"}},
			{Name: "subscriptions", PartitionKey: []string{"/player"}},
		},
		Commands: []*cobra.Command{topCommand()},
		Dev:      startDev,
	}
}

package main

import (
	"halley/handlers"
	"halley/handlers/leaderboard"
	"halley/handlers/push"
	"halley/handlers/push/fcm"
	"halley/handlers/push/mqtt"
	"halley/handlers/webhook"
)

// rows lists the handlers of the showcase.
func rows() []row {
	return []row{
		{entry: handlers.New("leaderboard", "keeps the best score per player and game in Redis", leaderboard.Open), start: startLeaderboard},
		{entry: handlers.New("push", "sends a Web Push notification to a player who is overtaken", push.Open), start: startPush},
		{entry: handlers.New("fcm", "notifies a player who is overtaken by Firebase Cloud Messaging", fcm.Open), start: startFCM},
		{entry: handlers.New("mqtt", "publishes to a player's topic when the player is overtaken", mqtt.Open), start: startMQTT},
		{entry: handlers.New("webhook", "posts each change to an URL, signed", webhook.Open), start: startWebhook},
	}
}

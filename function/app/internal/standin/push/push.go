// Package push stands in for the demo's handler of that name in tests of package app, whose
// module requires no client of a sink: it notifies of nothing. A test of package function
// compares the settings of both.
package push

import (
	"context"

	"halley/handlers"
	"halley/handlers/game"
	"halley/trigger"
)

// Settings of the handler.
type Settings struct {
	RedisURL  handlers.URL `split_words:"true" desc:"Redis with the boards and the due notifications, redis:// or rediss:// (TLS); required"`
	KeyPrefix string       `split_words:"true" default:"push:" desc:"begins every Redis key"`
	Result    game.Paths   `default:"game=/game, player=/player, score=/score" desc:"properties of a result, such as game=/title, player=/user/name, score=/points; those that are left out stay as they are"`

	VAPIDPublicKey  string          `split_words:"true" desc:"public VAPID key that browsers subscribed with, base64url; required"`
	VAPIDPrivateKey handlers.Secret `split_words:"true" desc:"private VAPID key of the pair, base64url; required"`
	VAPIDSubject    string          `split_words:"true" desc:"contact for push services: an e-mail address or an https URL; required"`

	SubscriptionsContainerName string `split_words:"true" default:"subscriptions" desc:"container of the subscriptions, partitioned by /player"`
	SubscriptionsDatabaseName  string `split_words:"true" desc:"its database; if empty, the monitored container's"`

	Top         handlers.Count    `default:"10" desc:"number of a game's best players that are notified when they are overtaken, 1 to 1000"`
	MaxAge      handlers.Interval `split_words:"true" default:"1h" desc:"no notification is sent about an older result"`
	TTL         handlers.Interval `default:"24h" desc:"how long a push service keeps a notification for a device that is offline"`
	SendTimeout handlers.Interval `split_words:"true" default:"10s" desc:"time for one request to a push service; a device that takes longer is given up"`

	EndpointHosts         []string        `split_words:"true" default:"fcm.googleapis.com,.push.services.mozilla.com,.push.apple.com,.notify.windows.com" desc:"hosts of push services to send to, separated by commas (a leading dot: all hosts below; *: any public host)"`
	AllowPrivateEndpoints handlers.Toggle `split_words:"true" desc:"for development: endpoints on private and loopback addresses with any port, http:// on loopback"`
}

// Open returns the handler.
func Open(context.Context, handlers.Env, Settings) (trigger.Handler, func() error, error) {
	return func(context.Context, trigger.Batch) error { return nil }, nil, nil
}

// Package push notifies players by Web Push (RFC 8030) when another player
// overtakes them.
//
// Every game has a board of best scores. When a result raises a player's best
// score, it overtakes other players if they were in the top of the board, not
// below the player, and their best score is less than the new one. Each
// overtaken player gets a notification on every subscribed device.
//
// # Guarantee
//
// Notifications are sent at least once. One Redis script updates the board and
// the due notifications together, and a notification is removed only when a push
// service has accepted it. So if a result is redelivered, late or out of order,
// it does not overtake a player twice. If the process crashes or a push service
// fails, no notification is lost while the batch is redelivered (see below): the
// next call finds the notifications that are still due and skips the devices
// that already got them. A device is notified twice only if the process dies, or
// Redis fails, between the push service's answer and its record in Redis, or if
// two hosts handle the same batch during a handover. Then the Topic header makes
// a push service replace the first notification by the second, if it has not yet
// delivered it (RFC 8030 section 5.4).
//
// A due notification is dropped if the overtaken player is level or leads again
// before it is sent, if it is older than MAX_AGE, or if the player has no
// subscription that can work. The guarantee is as durable as Redis is.
//
// # Failures of a push service
//
// If a push service refuses a notification or cannot be reached, the call fails.
// The batch is redelivered after a backoff; until then it holds up the range of
// the overtaker. If the push service sent Retry-After, the next call waits for
// that time, so that the wait costs no further attempt, and notifies the
// player's other devices first. If the time is after the deadline of the call
// (HALLEY_HANDLER_TIMEOUT), the call fails at once.
//
// When the attempts of the function are spent (HALLEY_PUSH_MAX_ATTEMPTS,
// HALLEY_PUSH_RETRY_MAX_AGE; with the defaults after about a minute without
// Retry-After), the result is dead-lettered and the range continues. If many
// results in a row are, the circuit breaker pauses the range before each further
// one. Their notifications stay due for MAX_AGE: they are sent when the overtaker
// has the next result in this game, or when the dead letter is replayed. After
// MAX_AGE nothing is sent, and a replay only removes the dead letter. If
// HALLEY_PUSH_MAX_ATTEMPTS is unlimited, the range waits until the push service
// accepts or MAX_AGE has passed.
//
// # Slow devices
//
// Players can register endpoints of their own choice, so ENDPOINT_HOSTS lists the
// hosts that are called; by default these are the push services of the browsers.
// The devices of a player are notified at the same time. If a device does not
// answer within SEND_TIMEOUT, the notification is given up for this device alone:
// that is logged and counted, and it does not fail the call. For the next five
// minutes, the device's endpoint gets no request, so that a device that never
// answers delays a range by SEND_TIMEOUT in five minutes at most. The requests
// for one player take at most three times SEND_TIMEOUT in a call; the devices
// that have not answered by then are given up as well.
//
// All these times are shortened to fit into the deadline of the call. If a tenth
// of it is left, no further request is sent and the call fails. When the batch is
// redelivered, the call continues with the devices that were not tried.
//
// # Deletes
//
// A delete and an expiry of a result change nothing, in both modes and soft deletes
// included: a best score stays, and no notification is sent or taken back.
//
// # Start
//
// When the function starts from the beginning of a container, it fills the boards
// without notifications, because the results are older than MAX_AGE. If the
// handler never saw a result, it is not on the boards.
package push

import (
	"context"
	"fmt"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/outbound"
	"halley/trigger"
)

// Settings of the handler, read with the prefix HALLEY_PUSH_.
type Settings struct {
	RedisURL  handlers.URL `split_words:"true" desc:"Redis with the boards and the due notifications, redis:// or rediss:// (TLS); required"`
	KeyPrefix string       `split_words:"true" default:"push:" desc:"begins every Redis key"`
	Result    game.Paths   `default:"game=/game, player=/player, score=/score" desc:"properties of a result, such as game=/title, player=/user/name, score=/points; those that are left out stay as they are"`

	VAPIDPublicKey  PublicKey       `split_words:"true" desc:"public VAPID key that browsers subscribed with, base64url; required"`
	VAPIDPrivateKey handlers.Secret `split_words:"true" desc:"private VAPID key of the pair, base64url; required"`
	VAPIDSubject    Contact         `split_words:"true" desc:"contact for push services: an e-mail address or an https URL; required"`

	SubscriptionsContainerName string `split_words:"true" default:"subscriptions" desc:"container of the subscriptions, partitioned by /player"`
	SubscriptionsDatabaseName  string `split_words:"true" desc:"its database; if empty, the monitored container's"`

	Top         handlers.Count    `default:"10" desc:"number of a game's best players that are notified when they are overtaken, 1 to 1000"`
	MaxAge      handlers.Interval `split_words:"true" default:"1h" desc:"no notification is sent about an older result"`
	TTL         handlers.Interval `default:"24h" desc:"how long a push service keeps a notification for a device that is offline"`
	SendTimeout handlers.Interval `split_words:"true" default:"10s" desc:"time for one request to a push service; a device that takes longer is given up"`

	EndpointHosts         []string        `split_words:"true" default:"fcm.googleapis.com,.push.services.mozilla.com,.push.apple.com,.notify.windows.com" desc:"hosts of push services to send to, separated by commas (a leading dot: all hosts below; *: any public host)"`
	AllowPrivateEndpoints handlers.Toggle `split_words:"true" desc:"for development: endpoints on private and loopback addresses with any port, http:// on loopback"`
}

// validate checks the settings that have no other check. Its error begins with
// the name of the setting.
func (s Settings) validate() error {
	if s.TTL < 0 {
		return fmt.Errorf("TTL is %v; it must not be negative", s.TTL)
	}
	if err := s.rules().Validate(); err != nil {
		return fmt.Errorf("ENDPOINT_HOSTS has %w", err)
	}
	return nil
}

// knownServices are the push services of the browsers, for an empty
// ENDPOINT_HOSTS. They are the same as the default of the setting:
//
//   - Chrome and others: Firebase Cloud Messaging, one host
//     (https://firebase.google.com/docs/cloud-messaging);
//   - Firefox: hosts below push.services.mozilla.com
//     (https://mozilla-push-service.readthedocs.io);
//   - Safari: "allow URLs from *.push.apple.com"
//     (https://developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers);
//   - Edge: Windows notification service, hosts below notify.windows.com
//     (https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/request-create-save-notification-channel).
//
// https://github.com/pushpad/known-push-services collects what browsers use.
var knownServices = []string{"fcm.googleapis.com", ".push.services.mozilla.com", ".push.apple.com", ".notify.windows.com"}

// rules say which endpoints are called.
func (s Settings) rules() outbound.Rules {
	hosts := s.EndpointHosts
	if len(hosts) == 0 {
		hosts = knownServices
	}
	return outbound.Rules{Hosts: hosts, Private: bool(s.AllowPrivateEndpoints)}
}

// Open returns the handler. It does not connect: Redis and the container are
// first used when the first batch is delivered.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	if err := s.validate(); err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	sender, err := newSender(s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	sender.Subscriptions, err = OpenSubscriptions(env, s.SubscriptionsDatabaseName, s.SubscriptionsContainerName, WebPush)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	return Policy{RedisURL: s.RedisURL, KeyPrefix: s.KeyPrefix, Result: s.Result, Top: s.Top, MaxAge: s.MaxAge, SendTimeout: s.SendTimeout, Meter: env.Meter("webpush")}.Open(env, sender)
}

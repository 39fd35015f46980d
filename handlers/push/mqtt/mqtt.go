// Package mqtt notifies players over MQTT 5 when another player overtakes them: each
// notification is published to a topic of the player, at which games and devices listen.
//
// Package push decides which players are notified of what, and has the guarantees, also for
// deletes and expiries of results, which notify no player; this package is the channel. It needs no subscriptions container, because devices subscribe
// at the broker.
//
// # Idempotency
//
// A notification is published with QoS 1 and counts as sent when the broker has
// acknowledged it. Its property "tag" is derived from the change: the same game,
// overtaken player and overtaker have the same tag, so that a subscriber shows a
// repeated notification once. With RETAIN the topic keeps the last notification, which
// replaces the one before, for subscribers that come later, until TTL has passed.
//
// # Failures
//
// If the broker cannot be reached, refuses the connection or does not acknowledge in
// SEND_TIMEOUT, the call fails, and the batch is redelivered. If it refuses the topic or
// the payload of one notification, this is skipped, and logged.
package mqtt

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/push"
	"halley/trigger"
)

// Settings of the handler, read with the prefix HALLEY_MQTT_.
type Settings struct {
	RedisURL  handlers.URL `split_words:"true" desc:"Redis with the boards and the due notifications, redis:// or rediss:// (TLS); required"`
	KeyPrefix string       `split_words:"true" default:"mqtt:" desc:"begins every Redis key; handlers that share a Redis differ in it"`
	Result    game.Paths   `default:"game=/game, player=/player, score=/score" desc:"properties of a result, such as game=/title, player=/user/name, score=/points; those that are left out stay as they are"`

	URL      handlers.URL    `desc:"broker that speaks MQTT 5: mqtt://[user:password@]host[:1883], or mqtts:// with port 8883 (TLS); required"`
	CAFile   string          `split_words:"true" desc:"certificates that TLS trusts, PEM; by default those of the system"`
	CertFile string          `split_words:"true" desc:"client certificate for TLS, PEM"`
	KeyFile  string          `split_words:"true" desc:"its private key, PEM"`
	ClientID string          `split_words:"true" default:"halley" desc:"begins the client id; a random part follows, because each host has its own"`
	Topic    string          `default:"players/{player}/overtaken/{game}" desc:"topic of a notification; {player}, {game} and {by} are filled in, with %2F for a slash in a name"`
	Retain   handlers.Toggle `default:"true" desc:"the broker keeps the last notification of each topic for later subscribers"`

	Top         handlers.Count    `default:"10" desc:"number of a game's best players that are notified when they are overtaken, 1 to 1000"`
	MaxAge      handlers.Interval `split_words:"true" default:"1h" desc:"no notification is sent about an older result"`
	TTL         handlers.Interval `default:"24h" desc:"how long the broker keeps a notification, for offline subscribers and as the retained one"`
	SendTimeout handlers.Interval `split_words:"true" default:"10s" desc:"time for a connection and an acknowledgement"`
}

// parse checks the URL of a broker and fills in its port.
func parse(u handlers.URL) (*url.URL, error) {
	if u == "" {
		return nil, errors.New("is empty; set it to a URL such as mqtt://127.0.0.1, or mqtts:// for TLS")
	}
	parsed, err := url.Parse(u.Reveal())
	port := ""
	if err == nil {
		port = map[string]string{"mqtt": ":1883", "mqtts": ":8883"}[parsed.Scheme]
	}
	if port == "" || parsed.Hostname() == "" || strings.Trim(parsed.Path, "/") != "" {
		return nil, fmt.Errorf("is %v, not the URL of a broker; write mqtt://[user:password@]host[:port], or mqtts:// for TLS, and percent-encode the password", u)
	}
	if parsed.Port() == "" {
		parsed.Host += port
	}
	return parsed, nil
}

// Open returns the handler. It does not connect.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	c, err := newChannel(s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	c.broker.meter = env.Meter("mqtt")
	env.OfferProbe(handlers.Probe{What: c.broker.server, Try: func(ctx context.Context) error {
		if _, err := c.broker.client(ctx); err != nil {
			return fmt.Errorf("%w: start it, or correct %sURL", err, env.Prefix)
		}
		return nil
	}})
	policy := push.Policy{RedisURL: s.RedisURL, KeyPrefix: s.KeyPrefix, Result: s.Result, Top: s.Top, MaxAge: s.MaxAge, SendTimeout: s.SendTimeout, Meter: c.broker.meter}
	return policy.Open(env, c)
}

// maxTTL is the longest message expiry interval of MQTT 5, in whole days.
const maxTTL = 49710 * 24 * time.Hour

func newChannel(s Settings) (*channel, error) {
	address, err := parse(s.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("URL %w", err)
	case s.Topic == "" || strings.ContainsAny(s.Topic, "+#\x00"):
		return nil, fmt.Errorf("TOPIC is %q; write a topic without + and #", s.Topic)
	case !strings.Contains(s.Topic, "{player}"):
		return nil, fmt.Errorf("TOPIC is %q; it must have {player}, so that each player has topics of their own", s.Topic)
	case time.Duration(s.TTL) < time.Second || time.Duration(s.TTL) > maxTTL:
		return nil, fmt.Errorf("TTL is %v; it must be 1s to %v", s.TTL, maxTTL)
	}
	config, err := handlers.TLSFiles{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}.Config(address.Scheme == "mqtts")
	if err != nil {
		return nil, err
	}
	return &channel{
		broker: newBroker(address, config, s.ClientID, time.Duration(s.SendTimeout)),
		topic:  s.Topic, retain: bool(s.Retain), ttl: time.Duration(s.TTL),
	}, nil
}

// channel is the [push.Channel] of MQTT.
type channel struct {
	broker *broker
	topic  string
	retain bool
	ttl    time.Duration
}

// Devices implements [push.Channel]: a player has one, the topic.
func (c *channel) Devices(_ context.Context, player string) ([]push.Subscription, error) {
	return []push.Subscription{{ID: "topic", Player: player, Token: player}}, nil
}

// Remove implements [push.Channel].
func (c *channel) Remove(context.Context, push.Subscription) error { return nil }

// Close implements [push.Channel].
func (c *channel) Close() error {
	c.broker.close()
	return nil
}

// Send implements [push.Channel].
func (c *channel) Send(ctx context.Context, m push.Message, _ push.Subscription) error {
	return c.broker.publish(ctx, message{topic: c.topicOf(m), payload: m.Encode(), tag: m.Tag, retain: c.retain, ttl: c.ttl})
}

// topicOf fills in the topic of a message. In a name, what has a meaning in topics is
// escaped.
func (c *channel) topicOf(m push.Message) string {
	level := strings.NewReplacer("%", "%25", "/", "%2F", "+", "%2B", "#", "%23")
	return strings.NewReplacer("{player}", level.Replace(m.Player), "{game}", level.Replace(m.Game), "{by}", level.Replace(m.By)).Replace(c.topic)
}

package push

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/outbound"
	"halley/handlers/redis/redisurl"
	"halley/trigger"
)

// Errors of [Channel].Send about one device, which do not fail a call.
var (
	ErrEnded    = errors.New("subscription has ended")      // the device is removed
	ErrUnusable = errors.New("subscription can never work") // the device is skipped
)

// Channel delivers notifications to the devices of players, in one way: by Web Push, or
// as package fcm or mqtt does. Its methods are called by any number of goroutines.
type Channel interface {
	// Devices returns the devices of a player. They differ in their ids.
	Devices(ctx context.Context, player string) ([]Subscription, error)

	// Send delivers a message to one device. If the error is an [outbound.StatusError]
	// with RetryAfter, the device gets no message until then. If it is a timeout, the
	// device is given up for this message.
	Send(ctx context.Context, m Message, device Subscription) error

	// Remove forgets a device after Send has returned ErrEnded.
	Remove(ctx context.Context, device Subscription) error

	// Close ends the connections. It is called once, after all other calls.
	Close() error
}

// Message is the notification of a player who was overtaken. As JSON it is the text that
// a service worker shows.
type Message struct {
	Type   string  `json:"type"` // "overtaken"
	Game   string  `json:"game"`
	Player string  `json:"player"` // the overtaken player, who gets the message
	Best   float64 `json:"best"`   // their best score
	By     string  `json:"by"`     // the player with the new score
	Score  float64 `json:"score"`  // the new score
	At     int64   `json:"at"`     // time of the result, in seconds since 1970
	Tag    string  `json:"tag"`    // collapse key: the same if the message is repeated; 32 characters of base64url
}

// message returns the message about o.
func message(o overtaking) Message {
	return Message{
		Type: "overtaken", Game: o.Game, Player: o.Player, Best: o.Best, By: o.By, Score: o.Score, At: o.At,
		Tag: digest(o.Game, o.Player, o.By),
	}
}

// Fill replaces {game}, {player}, {by}, {best} and {score} in a text.
func (m Message) Fill(text string) string {
	return strings.NewReplacer("{game}", m.Game, "{player}", m.Player, "{by}", m.By,
		"{best}", FormatScore(m.Best), "{score}", FormatScore(m.Score)).Replace(text)
}

// FormatScore returns a score without an exponent, as players know it.
func FormatScore(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Policy has the settings that the handlers of all channels share: they decide which
// players are notified.
type Policy struct {
	RedisURL    handlers.URL
	KeyPrefix   string
	Result      game.Paths
	Top         handlers.Count
	MaxAge      handlers.Interval
	SendTimeout handlers.Interval
	Meter       *handlers.Meter // of the channel; the one of Redis is made by Open
}

// Open returns the handler that notifies through a channel, and closes the channel. The
// error names the setting.
func (p Policy) Open(env handlers.Env, c Channel) (trigger.Handler, func() error, error) {
	n, err := p.notifier(env, c)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("setting %s%w", env.Prefix, err), c.Close())
	}
	return n.Handle, n.Close, nil
}

func (p Policy) notifier(env handlers.Env, c Channel) (*Notifier, error) {
	switch {
	case p.Top < 1 || p.Top > 1000:
		return nil, fmt.Errorf("TOP is %d; it must be 1 to 1000", p.Top)
	case p.MaxAge < handlers.Interval(time.Second):
		return nil, fmt.Errorf("MAX_AGE is %v; it must be at least 1s", p.MaxAge)
	case p.SendTimeout <= 0:
		return nil, fmt.Errorf("SEND_TIMEOUT is %v; it must be positive", p.SendTimeout)
	}
	client, err := redisurl.Client(p.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL %w", err)
	}
	env.OfferProbe(redisurl.Probe(env.Prefix, client))
	redisurl.Measure(client, env.Meter("redis"))
	return &Notifier{
		boards:      &boards{redis: client, prefix: p.KeyPrefix, top: int(p.Top), keep: time.Duration(p.MaxAge)},
		paths:       p.Result,
		channel:     c,
		maxAge:      time.Duration(p.MaxAge),
		sendTimeout: time.Duration(p.SendTimeout),
		pauses:      outbound.Pauses{Longest: time.Duration(p.MaxAge)},
		log:         env.Log(),
		meter:       p.Meter,
	}, nil
}

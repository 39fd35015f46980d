// Package fcm notifies players by Firebase Cloud Messaging (FCM HTTP v1) when another
// player overtakes them: on Android, iOS and in browsers, through one service.
//
// Package push decides which players are notified of what, and has the guarantees, also for
// deletes and expiries of results, which notify no player; this package is the channel. A device is a document with a registration token in the
// subscriptions container: see [push.NewTokenSubscription]. Subscriptions of Web Push in
// the same container are left to the handler push.
//
// # Idempotency
//
// The collapse key is derived from the change: the same game, overtaken player and
// overtaker have the same key. If a notification is sent a second time, a device shows
// the last one with that key, and FCM drops one that it has not yet delivered.
//
// # Failures
//
//   - 404 with the error UNREGISTERED: the device is removed from the container. Another
//     404, such as that of a project that does not exist, removes nothing.
//   - 400 INVALID_ARGUMENT and 403 SENDER_ID_MISMATCH: the device is skipped, which is
//     logged, and the others are notified.
//   - 401: the access token is fetched again, once for each request.
//   - 429 and 5xx, other statuses, and no answer fail the call, and the batch is redelivered. After
//     Retry-After, or a minute after 429 without it, the device is tried again.
//
// The service account's key signs a JSON Web Token, for which Google's token endpoint
// gives an access token of an hour (RFC 7523). Both endpoints are fixed, except in
// development. The key and the tokens are never printed.
package fcm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/outbound"
	"halley/handlers/push"
	"halley/trigger"
)

// Settings of the handler, read with the prefix HALLEY_FCM_.
type Settings struct {
	RedisURL  handlers.URL `split_words:"true" desc:"Redis with the boards and the due notifications, redis:// or rediss:// (TLS); required"`
	KeyPrefix string       `split_words:"true" default:"fcm:" desc:"begins every Redis key; handlers that share a Redis differ in it"`
	Result    game.Paths   `default:"game=/game, player=/player, score=/score" desc:"properties of a result, such as game=/title, player=/user/name, score=/points; those that are left out stay as they are"`

	ServiceAccount handlers.Secret `split_words:"true" desc:"key file of a service account of the Firebase project, its JSON text; required"`

	SubscriptionsContainerName string `split_words:"true" default:"subscriptions" desc:"container of the subscriptions, partitioned by /player"`
	SubscriptionsDatabaseName  string `split_words:"true" desc:"its database; if empty, the monitored container's"`

	Top         handlers.Count    `default:"10" desc:"number of a game's best players that are notified when they are overtaken, 1 to 1000"`
	MaxAge      handlers.Interval `split_words:"true" default:"1h" desc:"no notification is sent about an older result"`
	TTL         handlers.Interval `default:"24h" desc:"how long FCM keeps a notification for a device that is offline, 0 to 28 days"`
	SendTimeout handlers.Interval `split_words:"true" default:"10s" desc:"time for one request; a device that takes longer is given up"`

	Title string `default:"You were overtaken" desc:"title of the notification; {game}, {player}, {by}, {best} and {score} are filled in. Empty with an empty BODY: the app gets data alone"`
	Body  string `default:"{by} has {score} in {game}" desc:"its text, likewise"`

	Endpoint              string          `default:"https://fcm.googleapis.com" desc:"for development: origin of a stub of FCM"`
	AllowPrivateEndpoints handlers.Toggle `split_words:"true" desc:"for development: endpoints on private and loopback addresses with any port, http:// on loopback"`
}

// maxTTL is the longest that FCM keeps a message
// (https://firebase.google.com/docs/cloud-messaging/customize-messages/setting-message-lifespan).
const maxTTL = 28 * 24 * time.Hour

// Open returns the handler. It does not connect.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	c, err := newChannel(env, s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	c.meter = env.Meter("fcm")
	env.OfferProbe(handlers.Probe{What: "access token of the service account " + c.tokens.account.ClientEmail, Try: func(ctx context.Context) error {
		if _, err := c.tokens.token(ctx); err != nil {
			return fmt.Errorf("%w: correct %sSERVICE_ACCOUNT", err, env.Prefix)
		}
		return nil
	}})
	policy := push.Policy{RedisURL: s.RedisURL, KeyPrefix: s.KeyPrefix, Result: s.Result, Top: s.Top, MaxAge: s.MaxAge, SendTimeout: s.SendTimeout, Meter: c.meter}
	return policy.Open(env, c)
}

// channel is the [push.Channel] of FCM.
type channel struct {
	*push.Subscriptions
	client      *http.Client
	server      string // in words, for errors
	url         string
	tokens      *tokenSource
	ttl         time.Duration
	title, body string
	meter       *handlers.Meter
}

func newChannel(env handlers.Env, s Settings) (*channel, error) {
	if ttl := time.Duration(s.TTL); ttl < 0 || ttl > maxTTL {
		return nil, fmt.Errorf("TTL is %v; it must be 0 to %v", s.TTL, maxTTL)
	}
	account, err := parseAccount(s.ServiceAccount)
	if err != nil {
		return nil, fmt.Errorf("SERVICE_ACCOUNT %w", err)
	}
	rules := outbound.Rules{Hosts: []string{"fcm.googleapis.com", "oauth2.googleapis.com"}, Private: bool(s.AllowPrivateEndpoints)}
	target, err := rules.Check(s.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("ENDPOINT is %w; remove it", err)
	}
	if _, err := rules.Check(account.TokenURI); err != nil {
		return nil, fmt.Errorf("SERVICE_ACCOUNT has a token_uri that is %w", err)
	}
	subscriptions, err := push.OpenSubscriptions(env, s.SubscriptionsDatabaseName, s.SubscriptionsContainerName, push.Token)
	if err != nil {
		return nil, err
	}
	client := rules.Client(time.Duration(s.SendTimeout))
	return &channel{
		Subscriptions: subscriptions,
		client:        client,
		server:        "FCM at " + target.Host,
		url:           strings.TrimRight(s.Endpoint, "/") + "/v1/projects/" + url.PathEscape(account.ProjectID) + "/messages:send",
		tokens:        newTokenSource(client, account),
		ttl:           time.Duration(s.TTL),
		title:         s.Title,
		body:          s.Body,
	}, nil
}

// Close implements [push.Channel].
func (c *channel) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

// Send implements [push.Channel].
func (c *channel) Send(ctx context.Context, m push.Message, device push.Subscription) error {
	text, err := json.Marshal(request{c.message(m, device.Token, time.Now())})
	if err != nil {
		return fmt.Errorf("%w: %w", push.ErrUnusable, err)
	}
	token, err := c.tokens.token(ctx)
	if err != nil {
		return err
	}
	err = c.post(ctx, text, token)
	var refusal *outbound.StatusError
	if errors.As(err, &refusal) && refusal.Status == http.StatusUnauthorized {
		c.tokens.drop(token) // it may have been revoked
		if token, err = c.tokens.token(ctx); err != nil {
			return err
		}
		c.meter.Retried()
		err = c.post(ctx, text, token)
	}
	return err
}

func (c *channel) post(ctx context.Context, text []byte, token string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(r)
	if err != nil {
		return fmt.Errorf("%s: %v", c.server, err) // not a timeout of the device: it fails the call
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // so that the connection can be used again
		return nil
	}
	return c.judge(response)
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// quotaPause is the wait after 429 without Retry-After
// (https://firebase.google.com/docs/cloud-messaging/error-codes).
const quotaPause = time.Minute

// judge reads the error of an answer, see
// https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode.
func (c *channel) judge(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // the part that has arrived is enough
	code, explanation := readError(text)
	switch {
	case response.StatusCode == http.StatusNotFound && code == "UNREGISTERED":
		return push.ErrEnded
	case response.StatusCode == http.StatusBadRequest, code == "SENDER_ID_MISMATCH":
		return fmt.Errorf("%w: %s answered %d %s: %q", push.ErrUnusable, c.server, response.StatusCode, code, explanation)
	}
	refusal := &outbound.StatusError{
		Server: c.server, Status: response.StatusCode, Text: strings.TrimSpace(code + " " + explanation),
		RetryAfter: outbound.RetryAfter(response.Header),
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		if refusal.RetryAfter == 0 {
			refusal.RetryAfter = quotaPause
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		refusal.Advice = "give the service account the role Firebase Cloud Messaging API Admin, and enable that API"
	case http.StatusNotFound:
		refusal.Advice = "check the project of the service account"
	}
	return refusal
}

// readError returns the error code and the beginning of the message of an answer. The
// code is that of FCM, else the general one.
func readError(text []byte) (code, message string) {
	var answer struct {
		Error struct {
			Status  string
			Message string
			Details []struct {
				Type      string `json:"@type"`
				ErrorCode string
			}
		}
	}
	if json.Unmarshal(text, &answer) != nil {
		return "", strings.ToValidUTF8(string(text[:min(len(text), maxMessage)]), "�")
	}
	code = answer.Error.Status
	for _, d := range answer.Error.Details {
		if d.Type == "type.googleapis.com/google.firebase.fcm.v1.FcmError" {
			code = d.ErrorCode
		}
	}
	message = answer.Error.Message
	return code, strings.ToValidUTF8(message[:min(len(message), maxMessage)], "�")
}

const maxMessage = 256

// request is the body of projects.messages.send, see
// https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages.
type request struct {
	Message message `json:"message"`
}

type message struct {
	Token        string            `json:"token"`
	Data         map[string]string `json:"data"`
	Notification *notification     `json:"notification,omitempty"`
	Android      android           `json:"android"`
	APNS         apns              `json:"apns"`
	Webpush      webpush           `json:"webpush"`
}

type notification struct {
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
}

type android struct {
	CollapseKey string `json:"collapse_key"`
	TTL         string `json:"ttl"`
}

type apns struct {
	Headers map[string]string `json:"headers"`
}

type webpush struct {
	Headers map[string]string `json:"headers"`
}

// message returns the message to one device. Its data are the fields of [push.Message].
func (c *channel) message(m push.Message, token string, now time.Time) message {
	seconds := strconv.FormatInt(int64(c.ttl/time.Second), 10)
	sent := message{
		Token: token,
		Data: map[string]string{
			"type": m.Type, "game": m.Game, "player": m.Player, "best": push.FormatScore(m.Best), "by": m.By, "score": push.FormatScore(m.Score),
			"at": strconv.FormatInt(m.At, 10), "tag": m.Tag,
		},
		Android: android{CollapseKey: m.Tag, TTL: seconds + "s"},
		APNS: apns{Headers: map[string]string{
			"apns-collapse-id": m.Tag, "apns-expiration": strconv.FormatInt(now.Add(c.ttl).Unix(), 10),
		}},
		Webpush: webpush{Headers: map[string]string{"TTL": seconds, "Topic": m.Tag}},
	}
	if c.title != "" || c.body != "" {
		sent.Notification = &notification{m.Fill(c.title), m.Fill(c.body)}
	}
	return sent
}

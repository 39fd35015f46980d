// Package push tells players who are overtaken, by Web Push (RFC 8030).
//
// Every game has a board of best scores. A result that raises a player's best
// score overtakes those who stood in the top of the board, not below the
// player, and whose best is less than the new score. Each of them gets a
// notification on every device they subscribed with.
//
// # Guarantee
//
// Notifications are sent at least once. The board and what is due to the
// overtaken change together in one Redis script, and what is due is struck off
// only after a push service accepted it. So a result that is delivered again,
// late or out of order overtakes nobody twice, and a crash loses no
// notification: the batch comes again, finds what is still due, and skips the
// devices that were already served. So it is with a push service that fails, as
// long as the batch comes again; see below. A device is notified
// twice only where the process dies, or Redis fails, between the push
// service's answer and the note of it, or where two hosts handle the same
// batch during a handover; the Topic header makes a push service replace the
// first by the second while it has not been delivered (RFC 8030 section 5.4).
//
// Three things end without a notification: an overtaking that was reversed
// before it could be told, one that is older than MAX_AGE, and one whose
// player has no subscription that can work. The guarantee is as durable as
// Redis is.
//
// # A push service that fails
//
// A push service that refuses a notification, or cannot be reached, fails the
// call. The batch comes again after a backoff and holds up the range of the
// overtaker meanwhile. Where the push service said when to come again
// (Retry-After), the next call waits for that, if it is before the deadline of
// the call (HALLEY_HANDLER_TIMEOUT), so that the wait costs no further attempt;
// the player's other devices are told first. A longer wait fails the call at
// once.
//
// When the attempts of the function are spent (HALLEY_PUSH_MAX_ATTEMPTS,
// HALLEY_PUSH_RETRY_MAX_AGE; with the defaults after about a minute without
// Retry-After), the result is dead-lettered and the range goes on. Where many
// are in a row, the circuit breaker pauses the range ahead of each further one.
// What is due stays due for MAX_AGE: the next result of the overtaker in this
// game, or a replay of the dead letter, sends it. After MAX_AGE nothing is sent,
// and a replay only removes the letter. HALLEY_PUSH_MAX_ATTEMPTS=unlimited holds
// up the range until the push service accepts or MAX_AGE has passed.
//
// Where players could register endpoints of their own making, name the push
// services in ENDPOINT_HOSTS.
//
// A start from the beginning of a container fills the boards quietly, since
// results older than MAX_AGE notify nobody. Results that the handler never saw
// are not on its boards.
package push

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"halley/handlers/app"
	"halley/handlers/game"
	"halley/trigger"
	"halley/trigger/awslambda"
)

// Settings of the handler, read with the prefix HALLEY_PUSH_.
type Settings struct {
	RedisURL  app.RedisURL `split_words:"true" desc:"Redis that holds the boards and what is due, redis:// or rediss:// (TLS); required"`
	KeyPrefix string       `split_words:"true" default:"push:" desc:"begins every Redis key"`

	VAPIDPublicKey  string     `split_words:"true" desc:"public VAPID key that browsers subscribed with, base64url; required"`
	VAPIDPrivateKey app.Secret `split_words:"true" desc:"private VAPID key of the pair, base64url; required"`
	VAPIDSubject    string     `split_words:"true" desc:"whom a push service may contact: an e-mail address or an https URL; required"`

	SubscriptionsContainerName string `split_words:"true" default:"subscriptions" desc:"container of the subscriptions, partitioned by /player"`
	SubscriptionsDatabaseName  string `split_words:"true" desc:"its database; the monitored container's where empty"`

	Top         app.Count    `default:"10" desc:"how many of a game's best players are told when they are overtaken, 1 to 1000"`
	MaxAge      app.Interval `split_words:"true" default:"1h" desc:"an overtaking older than this is not told any more"`
	TTL         app.Interval `default:"24h" desc:"how long a push service keeps a notification for a device that is offline"`
	SendTimeout app.Interval `split_words:"true" default:"10s" desc:"time for one request to a push service"`

	EndpointHosts         []string   `split_words:"true" desc:"push services to send to, separated by commas, such as fcm.googleapis.com,.push.apple.com (a leading dot: all hosts below); any public host where empty"`
	AllowPrivateEndpoints app.Toggle `split_words:"true" desc:"for development: endpoints on private and loopback addresses, http:// on loopback"`
}

// validate checks what has no check elsewhere; its error begins with the name
// of the setting.
func (s Settings) validate() error {
	switch {
	case s.SubscriptionsContainerName == "":
		return errors.New("SUBSCRIPTIONS_CONTAINER_NAME is empty; name the container of the subscriptions")
	case s.Top < 1 || s.Top > 1000:
		return fmt.Errorf("TOP is %d; it must be 1 to 1000", s.Top)
	case s.MaxAge < app.Interval(time.Second):
		return fmt.Errorf("MAX_AGE is %v; it must be at least 1s", s.MaxAge)
	case s.TTL < 0:
		return fmt.Errorf("TTL is %v; it must not be negative", s.TTL)
	case s.SendTimeout <= 0:
		return fmt.Errorf("SEND_TIMEOUT is %v; it must be positive", s.SendTimeout)
	}
	for _, host := range s.EndpointHosts {
		if host == "" || host != strings.ToLower(host) || strings.ContainsAny(host, "/: *") {
			return fmt.Errorf("ENDPOINT_HOSTS has %q; write host names in lower case, without scheme, port and spaces", host)
		}
	}
	return nil
}

// Open makes the handler. It does not connect: Redis and the container are
// first used by the first batch.
func Open(_ context.Context, env app.Env, s Settings) (trigger.Handler, func() error, error) {
	n, err := open(env, s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	handle, err := awslambda.Handler(n.Handle, nil)
	if err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	return handle, n.Close, nil
}

func open(env app.Env, s Settings) (*Notifier, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	sender, err := newSender(s)
	if err != nil {
		return nil, err
	}
	client, err := s.RedisURL.Client()
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL %w", err)
	}
	database := s.SubscriptionsDatabaseName
	if database == "" {
		database = env.Database
	}
	return &Notifier{
		boards:        &boards{redis: client, prefix: s.KeyPrefix, top: int(s.Top), keep: time.Duration(s.MaxAge)},
		subscriptions: subscriptions{env.Container(database, s.SubscriptionsContainerName)},
		sender:        sender,
		maxAge:        time.Duration(s.MaxAge),
		log:           env.Log(),
	}, nil
}

// Notifier is the handler. It is safe for concurrent use.
type Notifier struct {
	boards        *boards
	subscriptions subscriptions
	sender        *sender
	maxAge        time.Duration
	log           *zap.Logger
}

// Close closes the connections to Redis and to push services.
func (n *Notifier) Close() error {
	n.sender.client.CloseIdleConnections()
	return n.boards.redis.Close()
}

// Handle is a function for aws-lambda-go: its event is an array of results. It
// records the results and sends what is due to those whom their players
// overtook, now or in an earlier call that failed.
func (n *Notifier) Handle(ctx context.Context, results []game.Result) error {
	var due []overtaking
	for name, played := range byGame(results) {
		more, err := n.boards.record(ctx, name, played, n.tooOld)
		if err != nil {
			return err
		}
		due = append(due, more...)
	}
	return n.notifyAll(ctx, due)
}

func byGame(results []game.Result) map[string][]game.Result {
	played := make(map[string][]game.Result)
	for _, r := range results {
		played[r.Game] = append(played[r.Game], r)
	}
	return played
}

// tooOld judges a time in seconds since 1970, where 0 stands for now.
func (n *Notifier) tooOld(at int64) bool {
	return at != 0 && time.Since(time.Unix(at, 0)) > n.maxAge
}

// parallel players are notified at a time.
const parallel = 8

// notifyAll tells every overtaken player, each in a row. One that fails does
// not keep the others from theirs.
func (n *Notifier) notifyAll(ctx context.Context, due []overtaking) error {
	byPlayer := make(map[string][]overtaking)
	for _, o := range due {
		byPlayer[o.Player] = append(byPlayer[o.Player], o)
	}
	failures := make(chan error, len(byPlayer))
	var players errgroup.Group
	players.SetLimit(parallel)
	for player, theirs := range byPlayer {
		players.Go(func() error {
			if err := n.notify(ctx, player, theirs); err != nil {
				failures <- fmt.Errorf("notify player %q: %w", player, err)
			}
			return nil
		})
	}
	_ = players.Wait()
	close(failures)
	return summarize(failures, len(byPlayer))
}

// summarize tells the first failure and how many there were.
func summarize(failures <-chan error, players int) error {
	first, failed := <-failures, len(failures)+1
	if first == nil || failed == 1 {
		return first
	}
	return fmt.Errorf("%d of %d players could not be notified: %w", failed, players, first)
}

func (n *Notifier) notify(ctx context.Context, player string, due []overtaking) error {
	devices, err := n.subscriptions.of(ctx, player)
	if err != nil {
		return err
	}
	var failed error
	for _, o := range due {
		if err := n.tell(ctx, o, devices); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if err := n.boards.strike(ctx, o); err != nil {
			return err
		}
	}
	return failed
}

// tell sends o to the devices that do not have it yet. A device that fails, or
// is at rest, does not keep the others from theirs.
func (n *Notifier) tell(ctx context.Context, o overtaking, devices []Subscription) error {
	if len(devices) == 0 || n.tooOld(o.At) {
		return nil
	}
	told, err := n.boards.told(ctx, o)
	if err != nil {
		return err
	}
	var failed error
	for _, device := range n.sender.pauses.order(devices) {
		if told[device.ID] {
			continue
		}
		if err := n.send(ctx, o, device); err != nil {
			failed = errors.Join(failed, fmt.Errorf("subscription %q: %w", device.ID, err))
		}
	}
	return failed
}

// send notifies one device, after the rest that it asked for. A subscription that
// has ended is removed, and one that can never work is passed over: a document
// must not stop the feed.
func (n *Notifier) send(ctx context.Context, o overtaking, device Subscription) error {
	if err := n.sender.pauses.wait(ctx, device.Endpoint); err != nil || n.tooOld(o.At) {
		return err
	}
	err := n.sender.send(ctx, o, device)
	switch {
	case err == nil:
		return n.boards.markTold(ctx, o, device.ID)
	case errors.Is(err, errEnded):
		n.log.Info("subscription ended, removing it", zap.String("player", device.Player), zap.String("subscription", device.ID))
		return n.subscriptions.remove(ctx, device)
	case errors.Is(err, errUnusable):
		n.log.Warn("subscription cannot be used", zap.String("player", device.Player), zap.String("subscription", device.ID), zap.Error(err))
		return nil
	}
	return err
}

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
// When the function starts from the beginning of a container, it fills the boards
// without notifications, because the results are older than MAX_AGE. If the
// handler never saw a result, it is not on the boards.
package push

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/outbound"
	"halley/handlers/redisurl"
	"halley/trigger"
	"halley/trigger/awslambda"
)

// Settings of the handler, read with the prefix HALLEY_PUSH_.
type Settings struct {
	RedisURL  redisurl.URL `split_words:"true" desc:"Redis with the boards and the due notifications, redis:// or rediss:// (TLS); required"`
	KeyPrefix string       `split_words:"true" default:"push:" desc:"begins every Redis key"`

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
	switch {
	case s.SubscriptionsContainerName == "":
		return errors.New("SUBSCRIPTIONS_CONTAINER_NAME is empty; name the container of the subscriptions")
	case s.Top < 1 || s.Top > 1000:
		return fmt.Errorf("TOP is %d; it must be 1 to 1000", s.Top)
	case s.MaxAge < handlers.Interval(time.Second):
		return fmt.Errorf("MAX_AGE is %v; it must be at least 1s", s.MaxAge)
	case s.TTL < 0:
		return fmt.Errorf("TTL is %v; it must not be negative", s.TTL)
	case s.SendTimeout <= 0:
		return fmt.Errorf("SEND_TIMEOUT is %v; it must be positive", s.SendTimeout)
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

func open(env handlers.Env, s Settings) (*Notifier, error) {
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
	env.OfferProbe(redisurl.Probe(env.Prefix, client))
	database := s.SubscriptionsDatabaseName
	if database == "" {
		database = env.Database
	}
	container := env.Container(database, s.SubscriptionsContainerName)
	env.OfferProbe(handlers.Probe{What: "container of the subscriptions " + database + "/" + s.SubscriptionsContainerName, Try: func(ctx context.Context) error {
		if _, err := container.Properties(ctx); err != nil {
			return fmt.Errorf("%w: create it, or correct %sSUBSCRIPTIONS_CONTAINER_NAME", err, env.Prefix)
		}
		return nil
	}})
	return &Notifier{
		boards:        &boards{redis: client, prefix: s.KeyPrefix, top: int(s.Top), keep: time.Duration(s.MaxAge)},
		subscriptions: subscriptions{container},
		sender:        sender,
		maxAge:        time.Duration(s.MaxAge),
		sendTimeout:   time.Duration(s.SendTimeout),
		log:           env.Log(),
	}, nil
}

// Notifier is the handler. It is safe for concurrent use.
type Notifier struct {
	boards        *boards
	subscriptions subscriptions
	sender        *sender
	maxAge        time.Duration
	sendTimeout   time.Duration
	log           *zap.Logger
	givenUp       atomic.Int64 // notifications of devices that did not answer in time
}

// Close closes the connections to Redis and to push services.
func (n *Notifier) Close() error {
	n.sender.client.CloseIdleConnections()
	return n.boards.redis.Close()
}

// Handle is a function for aws-lambda-go: its event is an array of results. It
// records the results and sends the due notifications about their players, also
// those of earlier calls that failed.
func (n *Notifier) Handle(ctx context.Context, results []game.Result) error {
	ctx, budget, cancel := n.budget(ctx)
	defer cancel()
	var due []overtaking
	for name, played := range byGame(results) {
		more, err := n.boards.record(ctx, name, played, n.tooOld)
		if err != nil {
			return err
		}
		due = append(due, more...)
	}
	return n.notifyAll(ctx, due, budget)
}

// GivenUp returns how often a device was not notified because it did not answer
// in time.
func (n *Notifier) GivenUp() int64 { return n.givenUp.Load() }

// callBudget bounds the requests of one call.
type callBudget struct {
	send   time.Duration // for one request
	player time.Duration // for all requests of one player
}

// budget divides the time of a call. The context that it returns ends before the
// call's deadline, so that the call returns in time.
func (n *Notifier) budget(ctx context.Context) (context.Context, callBudget, context.CancelFunc) {
	b := callBudget{send: n.sendTimeout, player: 3 * n.sendTimeout}
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, b, func() {}
	}
	left := time.Until(deadline)
	b.send, b.player = min(b.send, left/4), min(b.player, left/2)
	ctx, cancel := context.WithTimeout(ctx, left-left/10)
	return ctx, b, cancel
}

func byGame(results []game.Result) map[string][]game.Result {
	played := make(map[string][]game.Result)
	for _, r := range results {
		played[r.Game] = append(played[r.Game], r)
	}
	return played
}

// tooOld reports whether a time in seconds since 1970 is more than MAX_AGE ago; 0
// stands for now.
func (n *Notifier) tooOld(at int64) bool {
	return at != 0 && time.Since(time.Unix(at, 0)) > n.maxAge
}

// parallel is the number of players that are notified at a time.
const parallel = 8

// notifyAll sends the notifications of each player one after the other. If one
// player's fail, the other players still get theirs.
func (n *Notifier) notifyAll(ctx context.Context, due []overtaking, budget callBudget) error {
	byPlayer := make(map[string][]overtaking)
	for _, o := range due {
		byPlayer[o.Player] = append(byPlayer[o.Player], o)
	}
	failures := make(chan error, len(byPlayer))
	var players errgroup.Group
	players.SetLimit(parallel)
	for player, theirs := range byPlayer {
		players.Go(func() error {
			if err := n.notify(ctx, player, theirs, budget); err != nil {
				failures <- fmt.Errorf("notify player %q: %w", player, err)
			}
			return nil
		})
	}
	_ = players.Wait()
	close(failures)
	return summarize(failures, len(byPlayer))
}

// summarize returns an error with the first failure and the number of failures.
func summarize(failures <-chan error, players int) error {
	first, failed := <-failures, len(failures)+1
	if first == nil || failed == 1 {
		return first
	}
	return fmt.Errorf("%d of %d players could not be notified: %w", failed, players, first)
}

func (n *Notifier) notify(ctx context.Context, player string, due []overtaking, budget callBudget) error {
	devices, err := n.subscriptions.devicesOf(ctx, player)
	if err != nil {
		return err
	}
	var failed error
	for _, o := range due {
		spent, err := n.notifyDevices(ctx, o, devices, budget)
		budget.player -= spent
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if err := n.boards.removeDue(ctx, o); err != nil {
			return err
		}
	}
	return failed
}

// notifyDevices sends o to the devices that do not have it yet, to all of them
// (at most maxDevices) at the same time. If a device fails or is paused, the other
// devices still get it. spent is the duration of the longest request.
func (n *Notifier) notifyDevices(ctx context.Context, o overtaking, devices []Subscription, budget callBudget) (spent time.Duration, err error) {
	if len(devices) == 0 || n.tooOld(o.At) {
		return 0, nil
	}
	notified, err := n.boards.notified(ctx, o)
	if err != nil {
		return 0, err
	}
	outcomes := make([]sendOutcome, len(devices))
	var sends sync.WaitGroup
	for i, device := range devices {
		if !notified[device.ID] {
			sends.Go(func() { outcomes[i] = n.send(ctx, o, device, min(budget.send, budget.player)) })
		}
	}
	sends.Wait()
	var failed error
	givenUp := 0
	for i, outcome := range outcomes {
		spent = max(spent, outcome.took)
		if outcome.givenUp {
			givenUp++
		}
		if outcome.err != nil {
			failed = errors.Join(failed, fmt.Errorf("subscription %q: %w", devices[i].ID, outcome.err))
		}
	}
	if givenUp > 0 {
		total := n.givenUp.Add(int64(givenUp))
		n.log.Warn("devices given up, no answer in time", zap.String("player", o.Player), zap.Int("devices", givenUp), zap.Int64("total", total))
	}
	return spent, failed
}

// sendOutcome is the outcome of notifying one device.
type sendOutcome struct {
	took    time.Duration // duration of the request
	givenUp bool          // the device did not answer in time
	err     error
}

// send notifies one device when its pause has ended. It removes the subscription
// if it has ended, and skips it if it can never work: a bad document must not
// stop the feed. It gives the device up if it does not answer within the timeout,
// or did not answer another request a short time ago.
func (n *Notifier) send(ctx context.Context, o overtaking, device Subscription, timeout time.Duration) (outcome sendOutcome) {
	if err := n.sender.pauses.wait(ctx, device.Endpoint); err != nil || n.tooOld(o.At) {
		return sendOutcome{err: err}
	}
	if timeout <= 0 || n.sender.cooldowns.contain(device.Endpoint) {
		return sendOutcome{givenUp: true}
	}
	began := time.Now()
	request, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := n.sender.send(request, o, device)
	outcome.took = time.Since(began)
	switch {
	case err == nil:
		outcome.err = n.boards.markNotified(ctx, o, device.ID)
	case errors.Is(err, errEnded):
		n.log.Info("subscription ended, removing it", zap.String("player", device.Player), zap.String("subscription", device.ID))
		outcome.err = n.subscriptions.remove(ctx, device)
	case errors.Is(err, errUnusable):
		n.log.Warn("subscription cannot be used", zap.String("player", device.Player), zap.String("subscription", device.ID), zap.Error(err))
	case isTimeout(err) && ctx.Err() == nil:
		n.sender.cooldowns.add(device.Endpoint)
		outcome.givenUp = true
		outcome.err = n.boards.markNotified(ctx, o, device.ID) // so that a redelivery does not try it again
	default:
		outcome.err = err
	}
	return outcome
}

func isTimeout(err error) bool {
	var timed net.Error
	return errors.As(err, &timed) && timed.Timeout()
}

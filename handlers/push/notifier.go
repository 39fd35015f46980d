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
	"halley/trigger"
)

// Notifier is the handler. It is safe for concurrent use.
type Notifier struct {
	boards      *boards
	paths       game.Paths
	channel     Channel
	maxAge      time.Duration
	sendTimeout time.Duration
	log         *zap.Logger
	meter       *handlers.Meter
	pauses      outbound.Pauses // by the address of the device
	cooldowns   cooldowns
	givenUp     atomic.Int64 // notifications of devices that did not answer in time
}

// Close closes the channel and the connections to Redis.
func (n *Notifier) Close() error { return errors.Join(n.channel.Close(), n.boards.redis.Close()) }

// Handle is the [trigger.Handler]. It records the results of a batch and sends the due
// notifications about their players, also those of earlier calls that failed.
func (n *Notifier) Handle(ctx context.Context, b trigger.Batch) error {
	results, _, err := n.paths.Results(b)
	if err != nil {
		return err
	}
	ctx, budget, cancel := n.budget(ctx)
	defer cancel()
	var due []overtaking
	for name, played := range byGame(results) {
		overtakings, err := n.boards.record(ctx, name, played, n.tooOld)
		if err != nil {
			return err
		}
		due = append(due, overtakings...)
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
	remaining := time.Until(deadline)
	b.send, b.player = min(b.send, remaining/4), min(b.player, remaining/2)
	ctx, cancel := context.WithTimeout(ctx, remaining-remaining/10)
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
func (n *Notifier) tooOld(seconds int64) bool {
	return seconds != 0 && time.Since(time.Unix(seconds, 0)) > n.maxAge
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
	devices, err := n.channel.Devices(ctx, player)
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
	if err := n.pauses.Wait(ctx, device.address()); err != nil || n.tooOld(o.At) {
		return sendOutcome{err: err}
	}
	if timeout <= 0 || n.cooldowns.contain(device.address()) {
		return sendOutcome{givenUp: true}
	}
	began := time.Now()
	request, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := n.channel.Send(request, message(o), device)
	outcome.took = time.Since(began)
	n.meter.Ended(began, err)
	switch {
	case err == nil:
		n.meter.Wrote(1)
		outcome.err = n.boards.markNotified(ctx, o, device.ID)
	case errors.Is(err, ErrEnded):
		n.log.Info("subscription ended, removing it", zap.String("player", device.Player), zap.String("subscription", device.ID))
		outcome.err = n.channel.Remove(ctx, device)
	case errors.Is(err, ErrUnusable):
		n.log.Warn("subscription cannot be used", zap.String("player", device.Player), zap.String("subscription", device.ID), zap.Error(err))
	case isTimeout(err) && ctx.Err() == nil:
		n.cooldowns.add(device.address())
		outcome.givenUp = true
		outcome.err = n.boards.markNotified(ctx, o, device.ID) // so that a redelivery does not try it again
	default:
		var refusal *outbound.StatusError
		if errors.As(err, &refusal) {
			n.pauses.Add(device.address(), refusal)
		}
		outcome.err = err
	}
	return outcome
}

func isTimeout(err error) bool {
	var timed net.Error
	return errors.As(err, &timed) && timed.Timeout()
}

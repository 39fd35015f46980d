//go:build !nodev

package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	webpush "github.com/SherClockHolmes/webpush-go"
	"github.com/alicebob/miniredis/v2"

	"halley/function/app"
	"halley/handlers/game/writer"
	"halley/handlers/push"
	"halley/handlers/push/pushservice"
	"halley/trigger/cosmos"
)

// Names of the demo, as in local.settings.example.json.
const (
	database      = "halley"
	results       = "results"
	leases        = "leases"
	subscriptions = "subscriptions"
	ranges        = 4
)

// services run in this process.
type services struct {
	redis    *miniredis.Miniredis
	receiver *pushservice.Service
	closers  []func() error // in order of opening

	notified  atomic.Int64
	receiving sync.WaitGroup
}

// Start starts the services, for the field Dev of [app.Options].
func Start(context.Context) (*app.DevServices, error) {
	s := &services{}
	for _, step := range []func() error{s.openRedis, s.openReceiver} {
		if err := step(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	settings, err := s.settings()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &app.DevServices{
		Settings: settings,
		Prepare:  s.prepare,
		Load:     write,
		Figures:  func() map[string]int64 { return map[string]int64{"notifications received": s.notified.Load()} },
		Close:    s.Close,
	}, nil
}

// Close stops everything, in the reverse order of opening.
func (s *services) Close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	s.receiving.Wait()
	return errors.Join(errs...)
}

func (s *services) openRedis() (err error) {
	if s.redis, err = miniredis.Run(); err != nil {
		return fmt.Errorf("start the embedded Redis: %w", err)
	}
	s.closers = append(s.closers, func() error { s.redis.Close(); return nil })
	return nil
}

// openReceiver starts the push receiver, which counts received notifications.
func (s *services) openReceiver() (err error) {
	if s.receiver, err = pushservice.Start("127.0.0.1:0"); err != nil {
		return err
	}
	stop := make(chan struct{})
	s.receiving.Go(func() {
		for {
			select {
			case <-s.receiver.Notifications():
				s.notified.Add(1)
			case <-stop:
				return
			}
		}
	})
	s.closers = append(s.closers, func() error { close(stop); return s.receiver.Close() })
	return nil
}

func (s *services) settings() (map[string]string, error) {
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		return nil, fmt.Errorf("make VAPID keys: %w", err)
	}
	redis := "redis://" + s.redis.Addr()
	return map[string]string{
		"HALLEY_DATABASE_NAME":        database,
		"HALLEY_CONTAINER_NAME":       results,
		"HALLEY_LEASE_CONTAINER_NAME": leases,
		"HALLEY_LOG_LEVEL":            "error",

		"HALLEY_LEADERBOARD_REDIS_URL":             redis,
		"HALLEY_PUSH_REDIS_URL":                    redis,
		"HALLEY_PUSH_VAPID_PUBLIC_KEY":             public,
		"HALLEY_PUSH_VAPID_PRIVATE_KEY":            private,
		"HALLEY_PUSH_VAPID_SUBJECT":                "mailto:dev@example.com",
		"HALLEY_PUSH_SUBSCRIPTIONS_CONTAINER_NAME": subscriptions,
		"HALLEY_PUSH_ALLOW_PRIVATE_ENDPOINTS":      strconv.FormatBool(true),
	}, nil
}

// prepare creates the containers that the settings name, and the subscriptions.
func (s *services) prepare(ctx context.Context, run *app.DevRun) error {
	for _, f := range run.Functions {
		if err := run.Create(ctx, app.Container{Database: f.Database, Name: f.Container, PartitionKey: []string{"/player"}, Ranges: ranges}); err != nil {
			return err
		}
		settings, ok := f.Settings.(*push.Settings)
		if !ok {
			continue
		}
		in := app.Container{Database: cmp.Or(settings.SubscriptionsDatabaseName, f.Database), Name: settings.SubscriptionsContainerName, PartitionKey: []string{"/player"}}
		if err := run.Create(ctx, in); err != nil {
			return err
		}
		if err := s.subscribe(ctx, run.Client.Container(in.Database, in.Name), string(settings.VAPIDPublicKey)); err != nil {
			return err
		}
	}
	return nil
}

// subscribe gives every player one device. Its document replaces that of an
// earlier run, whose receiver no longer exists.
func (s *services) subscribe(ctx context.Context, subscriptions *cosmos.Container, vapidKey string) error {
	for i := range writer.Players {
		device, err := s.receiver.Subscribe(vapidKey)
		if err != nil {
			return err
		}
		d := push.NewSubscription(writer.PlayerName(i), device.Endpoint, push.Keys{P256dh: device.P256dh, Auth: device.Auth})
		d.ID = "device-of-" + d.Player
		if _, err := subscriptions.Upsert(ctx, cosmos.NewPartitionKey(d.Player), d); err != nil {
			return fmt.Errorf("subscribe %s: %w", d.Player, err)
		}
	}
	return nil
}

// write posts game results to the monitored containers until ctx ends.
func write(ctx context.Context, run *app.DevRun) {
	w := &writer.Writer{
		Containers: run.Monitored(),
		Rate:       run.Rate,
		Prefix:     strconv.FormatInt(time.Now().UnixNano(), 36),
		Wrote:      run.Wrote,
		Failed:     run.WriteFailed,
	}
	w.Run(ctx)
}

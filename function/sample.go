package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	webpush "github.com/SherClockHolmes/webpush-go"
	"github.com/alicebob/miniredis/v2"
	"go.uber.org/zap"

	"halley/handlers"
	"halley/handlers/app"
	"halley/handlers/leaderboard"
	"halley/handlers/push"
	"halley/handlers/push/pushservice"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter"
	"halley/trigger/emulator"
)

// Names of the sample application, as in local.settings.example.json.
const (
	sampleDatabase      = "halley"
	sampleResults       = "results"
	sampleLeases        = "leases"
	sampleSubscriptions = "subscriptions"
	sampleRanges        = 4
)

// sample is the sample application in one process: an embedded account with
// its containers, an embedded Redis, a push receiver, and the handlers.
type sample struct {
	account   *emulator.Account
	client    *cosmos.Client
	redis     *miniredis.Miniredis
	receiver  *pushservice.Service
	vapid     struct{ public, private string }
	functions []trigger.Function
	closers   []func() error // in order of opening

	notified  atomic.Int64
	receiving sync.WaitGroup
}

// openSample starts everything but the hosts. data is the account's directory,
// "" for memory. Close the sample after use.
func openSample(ctx context.Context, data string, log *zap.Logger) (s *sample, err error) {
	s = &sample{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, step := range []func() error{
		func() error { return s.openAccount(ctx, data) },
		s.openRedis,
		s.openReceiver,
		func() error { return s.subscribe(ctx) },
	} {
		if err := step(); err != nil {
			return s, err
		}
	}
	enabled, err := sampleFunctions()
	if err != nil {
		return s, err
	}
	for _, entry := range enabled {
		if err := s.openHandler(ctx, entry, log); err != nil {
			return s, err
		}
	}
	return s, nil
}

// sampleFunctions are the functions that HALLEY_FUNCTIONS names, or all. Other
// settings of the app do not matter here.
func sampleFunctions() ([]handlers.Entry, error) {
	all := handlers.All()
	var settings appSettings
	if err := errors.Join(refuseUnknown(all), process(prefix, &settings)); err != nil {
		return nil, err
	}
	return enable(all, settings.Functions)
}

// Close ends everything, in the reverse order of opening.
func (s *sample) Close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	s.receiving.Wait()
	return errors.Join(errs...)
}

func (s *sample) openAccount(ctx context.Context, data string) (err error) {
	if s.account, err = emulator.New(&emulator.Options{Data: data}); err != nil {
		return err
	}
	s.closers = append(s.closers, s.account.Close)
	if s.client, err = embeddedClient(s.account); err != nil {
		return err
	}
	for _, c := range []struct {
		name, key string
		ranges    int
	}{{sampleResults, "/player", sampleRanges}, {sampleLeases, "/id", 1}, {sampleSubscriptions, "/player", 1}} {
		definition := cosmos.ContainerDefinition{ID: c.name, Throughput: c.ranges * ruPerRange}
		definition.PartitionKey.Paths = []string{c.key}
		if err := createContainer(ctx, s.client, sampleDatabase, definition); err != nil {
			return err
		}
	}
	return nil
}

func (s *sample) openRedis() (err error) {
	if s.redis, err = miniredis.Run(); err != nil {
		return fmt.Errorf("start the embedded Redis: %w", err)
	}
	s.closers = append(s.closers, func() error { s.redis.Close(); return nil })
	return nil
}

// openReceiver starts the push receiver, which counts what devices receive.
func (s *sample) openReceiver() (err error) {
	if s.vapid.private, s.vapid.public, err = webpush.GenerateVAPIDKeys(); err != nil {
		return fmt.Errorf("make VAPID keys: %w", err)
	}
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

// subscribe gives every player one device. Its document replaces that of an
// earlier run, whose receiver is gone.
func (s *sample) subscribe(ctx context.Context) error {
	container := s.client.Container(sampleDatabase, sampleSubscriptions)
	for i := range players {
		device, err := s.receiver.Subscribe(s.vapid.public)
		if err != nil {
			return err
		}
		d := push.NewSubscription(playerName(i), device.Endpoint, push.Keys{P256dh: device.P256dh, Auth: device.Auth})
		d.ID = "device-of-" + d.Player
		if _, err := container.Upsert(ctx, cosmos.NewPartitionKey(d.Player), d); err != nil {
			return fmt.Errorf("subscribe %s: %w", d.Player, err)
		}
	}
	return nil
}

// openHandler opens a handler on the embedded services; one that this file does
// not know gets its settings from the environment alone. Its delivery policy, too,
// shows within seconds what takes minutes with the defaults.
func (s *sample) openHandler(ctx context.Context, entry handlers.Entry, log *zap.Logger) error {
	settings, err := entry.Load()
	if err != nil {
		return err
	}
	redis := app.RedisURL("redis://" + s.redis.Addr())
	switch own := settings.(type) {
	case *leaderboard.Settings:
		own.RedisURL = redis
	case *push.Settings:
		own.RedisURL = redis
		own.VAPIDPublicKey, own.VAPIDPrivateKey = s.vapid.public, app.Secret(s.vapid.private)
		own.VAPIDSubject = "mailto:dev@example.com"
		own.SubscriptionsDatabaseName, own.SubscriptionsContainerName = sampleDatabase, sampleSubscriptions
		own.AllowPrivateEndpoints = true
	}
	handle, closer, err := entry.Open(ctx, handlers.Env{Logger: log, Container: s.client.Container, Database: sampleDatabase}, settings)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, closer)
	letters, err := deadletter.NewContainer(s.client.Container(sampleDatabase, sampleLeases), nil)
	if err != nil {
		return err
	}
	s.functions = append(s.functions, trigger.Function{
		Name:         entry.Name,
		Container:    s.client.Container(sampleDatabase, sampleResults),
		Handler:      handle,
		StartFrom:    trigger.FromBeginning(),
		RetryMin:     time.Millisecond,
		RetryMax:     20 * time.Millisecond,
		MaxAttempts:  3,
		DeadLetters:  letters,
		BreakerLimit: -1,
	})
	return nil
}

// host makes a host with intervals that show within seconds what takes minutes
// with the defaults.
func (s *sample) host(owner string, observe func(trigger.Event), log *zap.Logger) (*trigger.Host, error) {
	return trigger.New(s.client.Container(sampleDatabase, sampleLeases), s.functions, &trigger.Options{
		Owner:                   owner,
		FeedPollDelay:           200 * time.Millisecond,
		LeaseAcquireInterval:    time.Second,
		LeaseRenewInterval:      2 * time.Second,
		LeaseExpirationInterval: 10 * time.Second,
		Logger:                  log,
		Observers:               []func(trigger.Event){observe},
	})
}

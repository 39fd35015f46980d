package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	webpush "github.com/SherClockHolmes/webpush-go"
	"github.com/alicebob/miniredis/v2"

	"halley/handlers"
	"halley/handlers/push"
	"halley/handlers/push/pushservice"
	"halley/trigger/cosmos"
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

// sample holds the services that the sample application uses, in this process:
// an embedded account, an embedded Redis and a push receiver.
type sample struct {
	account  *emulator.Account
	client   *cosmos.Client
	redis    *miniredis.Miniredis
	receiver *pushservice.Service
	closers  []func() error // in order of opening

	notified  atomic.Int64
	receiving sync.WaitGroup
}

// openSample starts the services. data is the account's directory, "" for
// memory. Close the sample after use.
func openSample(data string) (s *sample, err error) {
	s = &sample{}
	for _, step := range []func() error{func() error { return s.openAccount(data) }, s.openRedis, s.openReceiver} {
		if err := step(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close stops everything, in the reverse order of opening.
func (s *sample) Close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	s.receiving.Wait()
	return errors.Join(errs...)
}

func (s *sample) openAccount(data string) (err error) {
	if s.account, err = emulator.New(&emulator.Options{Data: data}); err != nil {
		return err
	}
	s.closers = append(s.closers, s.account.Close)
	s.client, err = embeddedClient(s.account)
	return err
}

func (s *sample) openRedis() (err error) {
	if s.redis, err = miniredis.Run(); err != nil {
		return fmt.Errorf("start the embedded Redis: %w", err)
	}
	s.closers = append(s.closers, func() error { s.redis.Close(); return nil })
	return nil
}

// openReceiver starts the push receiver, which counts received notifications.
func (s *sample) openReceiver() (err error) {
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

// defaults are the defaults of settings in a development run: the embedded
// services, and intervals that show within seconds what takes minutes in
// production. The environment overrides each.
func (s *sample) defaults(poison bool) (map[string]string, error) {
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		return nil, fmt.Errorf("make VAPID keys: %w", err)
	}
	redis := "redis://" + s.redis.Addr()
	level := "error"
	if poison {
		level = "fatal" // else every failure on a poison document would be a line
	}
	return map[string]string{
		"HALLEY_OWNER":                     "dev",
		"HALLEY_LOG_LEVEL":                 level,
		"HALLEY_CONNECTION":                localEmulator,
		"HALLEY_DATABASE_NAME":             sampleDatabase,
		"HALLEY_CONTAINER_NAME":            sampleResults,
		"HALLEY_LEASE_CONTAINER_NAME":      sampleLeases,
		"HALLEY_START_FROM":                "beginning",
		"HALLEY_FEED_POLL_DELAY":           "200ms",
		"HALLEY_LEASE_ACQUIRE_INTERVAL":    "1s",
		"HALLEY_LEASE_RENEW_INTERVAL":      "2s",
		"HALLEY_LEASE_EXPIRATION_INTERVAL": "10s",
		"HALLEY_RETRY_MIN":                 "1ms",
		"HALLEY_RETRY_MAX":                 "20ms",
		"HALLEY_BREAKER_LIMIT":             "unlimited",

		"HALLEY_LEADERBOARD_REDIS_URL":             redis,
		"HALLEY_PUSH_REDIS_URL":                    redis,
		"HALLEY_PUSH_VAPID_PUBLIC_KEY":             public,
		"HALLEY_PUSH_VAPID_PRIVATE_KEY":            private,
		"HALLEY_PUSH_VAPID_SUBJECT":                "mailto:dev@example.com",
		"HALLEY_PUSH_SUBSCRIPTIONS_CONTAINER_NAME": sampleSubscriptions,
		"HALLEY_PUSH_ALLOW_PRIVATE_ENDPOINTS":      strconv.FormatBool(true),
	}, nil
}

// settings reads the settings of a development run. A connection to another
// account than the embedded one is refused: its requests would not go there.
func (s *sample) settings(poison bool) (*settings, error) {
	defaults, err := s.defaults(poison)
	if err != nil {
		return nil, err
	}
	loaded, err := loadSettingsOver(defaults, handlers.All())
	if err != nil {
		return nil, err
	}
	for _, f := range loaded.Functions {
		for name, connection := range map[string]connectionName{"CONNECTION": f.Connection, "LEASE_CONNECTION": f.LeaseConnection} {
			c, err := resolveConnection(connection)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.setting(name), err)
			}
			if c.Endpoint != emulatorEndpoint {
				return nil, fmt.Errorf("%s=%s is another account: halley dev runs on its embedded account only, so remove the setting or use halley run",
					f.setting(name), connection)
			}
		}
	}
	return loaded, nil
}

// populate creates the containers that the settings name, and the subscriptions.
func (s *sample) populate(ctx context.Context, of *settings) error {
	for _, f := range of.Functions {
		if err := s.create(ctx, f.DatabaseName, f.ContainerName, "/player", sampleRanges); err != nil {
			return err
		}
		if err := s.create(ctx, f.LeaseDatabaseName, f.LeaseContainerName, "/id", 1); err != nil {
			return err
		}
		if in, ok := f.deadLetterContainer(); ok {
			if err := s.create(ctx, in.database, in.container, "/id", 1); err != nil {
				return err
			}
		}
		if own, ok := f.Own.(*push.Settings); ok {
			database := cmp.Or(own.SubscriptionsDatabaseName, f.DatabaseName)
			if err := s.create(ctx, database, own.SubscriptionsContainerName, "/player", 1); err != nil {
				return err
			}
			if err := s.subscribe(ctx, s.client.Container(database, own.SubscriptionsContainerName), string(own.VAPIDPublicKey)); err != nil {
				return err
			}
		}
	}
	return nil
}

// create creates a container if it is missing.
func (s *sample) create(ctx context.Context, database, name, key string, ranges int) error {
	definition := cosmos.ContainerDefinition{ID: name, Throughput: ranges * ruPerRange}
	definition.PartitionKey.Paths = []string{key}
	return createContainer(ctx, s.client, database, definition)
}

// subscribe gives every player one device. Its document replaces that of an
// earlier run, whose receiver no longer exists.
func (s *sample) subscribe(ctx context.Context, subscriptions *cosmos.Container, vapidKey string) error {
	for i := range players {
		device, err := s.receiver.Subscribe(vapidKey)
		if err != nil {
			return err
		}
		d := push.NewSubscription(playerName(i), device.Endpoint, push.Keys{P256dh: device.P256dh, Auth: device.Auth})
		d.ID = "device-of-" + d.Player
		if _, err := subscriptions.Upsert(ctx, cosmos.NewPartitionKey(d.Player), d); err != nil {
			return fmt.Errorf("subscribe %s: %w", d.Player, err)
		}
	}
	return nil
}

// monitored returns the distinct monitored containers.
func (s *sample) monitored(of *settings) (containers []*cosmos.Container) {
	seen := map[[2]string]bool{}
	for _, f := range of.Functions {
		key := [2]string{f.DatabaseName, f.ContainerName}
		if !seen[key] {
			seen[key] = true
			containers = append(containers, s.client.Container(f.DatabaseName, f.ContainerName))
		}
	}
	return containers
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	webpush "github.com/SherClockHolmes/webpush-go"
	mqttbroker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	goredis "github.com/redis/go-redis/v9"

	"halley/function/app"
	"halley/handlers/game/writer"
	"halley/handlers/push"
	"halley/handlers/push/fcm"
	"halley/handlers/push/fcm/fcmservice"
	"halley/handlers/push/pushservice"
	"halley/trigger/cosmos"
)

// startPush starts a push service with a device for each player.
func startPush(s *stage) (*part, error) {
	url, err := s.redisURL()
	if err != nil {
		return nil, err
	}
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		return nil, err
	}
	service, err := pushservice.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var received atomic.Int64
	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		for {
			select {
			case <-service.Notifications():
				received.Add(1)
			case <-stop:
				return
			}
		}
	})
	s.onClose(func() error {
		close(stop)
		reading.Wait()
		return service.Close()
	})
	client := s.redisClient()
	return &part{
		settings: map[string]string{
			"HALLEY_PUSH_REDIS_URL": url, "HALLEY_PUSH_VAPID_PUBLIC_KEY": public, "HALLEY_PUSH_VAPID_PRIVATE_KEY": private,
			"HALLEY_PUSH_VAPID_SUBJECT": "mailto:dev@example.com", "HALLEY_PUSH_ALLOW_PRIVATE_ENDPOINTS": "true",
		},
		prepare: func(ctx context.Context, run *app.DevRun) error {
			return subscribeAll(ctx, run, "push", func(player string) (push.Subscription, error) {
				device, err := service.Subscribe(public)
				return push.NewSubscription(player, device.Endpoint, push.Keys{P256dh: device.P256dh, Auth: device.Auth}), err
			})
		},
		read:   readBoard(client, "push:{"+walkGame+"}:best"),
		scores: true,
		compare: func(ctx context.Context, written []document) (string, error) {
			return compareBoards(ctx, client, "push:", written, received.Load(), "push service")
		},
	}, nil
}

// startFCM starts a stub of FCM with a device for each player.
func startFCM(s *stage) (*part, error) {
	url, err := s.redisURL()
	if err != nil {
		return nil, err
	}
	service, err := fcmservice.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.onClose(service.Close)
	account, err := service.ServiceAccount()
	if err != nil {
		return nil, err
	}
	client := s.redisClient()
	return &part{
		settings: map[string]string{
			"HALLEY_FCM_REDIS_URL": url, "HALLEY_FCM_SERVICE_ACCOUNT": account, "HALLEY_FCM_ENDPOINT": service.Endpoint(),
			"HALLEY_FCM_ALLOW_PRIVATE_ENDPOINTS": "true",
		},
		prepare: func(ctx context.Context, run *app.DevRun) error {
			return subscribeAll(ctx, run, "fcm", func(player string) (push.Subscription, error) {
				return push.NewTokenSubscription(player, service.Register()), nil
			})
		},
		read:   readBoard(client, "fcm:{"+walkGame+"}:best"),
		scores: true,
		compare: func(ctx context.Context, written []document) (string, error) {
			return compareBoards(ctx, client, "fcm:", written, int64(len(service.Received())), "stub of FCM")
		},
	}, nil
}

// startMQTT starts a broker, which keeps the last notification of each topic.
func startMQTT(s *stage) (*part, error) {
	url, err := s.redisURL()
	if err != nil {
		return nil, err
	}
	broker := mqttbroker.New(&mqttbroker.Options{Logger: slog.New(slog.DiscardHandler)})
	listener := listeners.NewTCP(listeners.Config{ID: "tcp", Address: "127.0.0.1:0"})
	if err := errors.Join(broker.AddHook(new(auth.AllowHook), nil), broker.AddListener(listener)); err != nil {
		return nil, err
	}
	if err := broker.Serve(); err != nil {
		return nil, err
	}
	s.onClose(broker.Close)
	client := s.redisClient()
	return &part{
		settings: map[string]string{"HALLEY_MQTT_REDIS_URL": url, "HALLEY_MQTT_URL": "mqtt://" + listener.Address()},
		read:     readBoard(client, "mqtt:{"+walkGame+"}:best"),
		scores:   true,
		compare: func(ctx context.Context, written []document) (string, error) {
			return compareBoards(ctx, client, "mqtt:", written, int64(len(broker.Topics.Messages("players/#"))), "retained topics of the broker")
		},
	}, nil
}

// subscribeAll gives every player a device, in the container that a handler names.
func subscribeAll(ctx context.Context, run *app.DevRun, handler string, subscribe func(player string) (push.Subscription, error)) error {
	for _, f := range run.Functions {
		if f.Name != handler {
			continue
		}
		in := app.Container{PartitionKey: []string{"/player"}}
		switch settings := f.Settings.(type) {
		case *push.Settings:
			in.Database, in.Name = cmp.Or(settings.SubscriptionsDatabaseName, f.Database), settings.SubscriptionsContainerName
		case *fcm.Settings:
			in.Database, in.Name = cmp.Or(settings.SubscriptionsDatabaseName, f.Database), settings.SubscriptionsContainerName
		}
		if err := run.Create(ctx, in); err != nil {
			return err
		}
		for i := range writer.Players {
			d, err := subscribe(writer.PlayerName(i))
			if err != nil {
				return err
			}
			if _, err := run.Client.Container(in.Database, in.Name).Upsert(ctx, cosmos.NewPartitionKey(d.Player), d); err != nil {
				return fmt.Errorf("subscribe %s: %w", d.Player, err)
			}
		}
	}
	return nil
}

// readBoard reads the best score of each player from a sorted set.
func readBoard(client *goredis.Client, key string) func(ctx context.Context) (versions, error) {
	return func(ctx context.Context) (versions, error) {
		standings, err := client.ZRangeWithScores(ctx, key, 0, -1).Result()
		best := versions{}
		for _, z := range standings {
			best[fmt.Sprint(z.Member)] = int(z.Score)
		}
		return best, err
	}
}

// compareBoards compares the boards of a channel, and looks for notifications that are
// still due.
func compareBoards(ctx context.Context, client *goredis.Client, prefix string, written []document, received int64, receiver string) (string, error) {
	best := bestScores(written)
	for name, players := range best {
		standings, err := client.ZRangeWithScores(ctx, prefix+"{"+name+"}:best", 0, -1).Result()
		if err != nil {
			return "", err
		}
		if len(standings) != len(players) {
			return "", fmt.Errorf("the board of %s has %d players, the container %d", name, len(standings), len(players))
		}
		for _, z := range standings {
			if player := fmt.Sprint(z.Member); players[player] != z.Score {
				return "", fmt.Errorf("the board of %s has %v for %s, the container %v", name, z.Score, player, players[player])
			}
		}
	}
	due, err := client.Keys(ctx, prefix+"*:due:*").Result()
	switch {
	case err != nil:
		return "", err
	case len(due) > 0:
		return "", fmt.Errorf("notifications are still due: %s", strings.Join(due, ", "))
	case received == 0:
		return "", fmt.Errorf("the %s received no notification", receiver)
	}
	return fmt.Sprintf("%d boards have the best of %d results, %d notifications at the %s, none is due", len(best), len(written), received, receiver), nil
}

//go:build !nodev

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/SherClockHolmes/webpush-go"
	"github.com/alicebob/miniredis/v2"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/push"
	"halley/handlers/push/pushservice"
	"halley/handlers/redis/leaderboard"
	"halley/handlers/redis/redisurl"
	"halley/trigger/cosmos"
)

// players have a device each in a development run.
var players = []string{"ada", "bob", "cid", "dee"}

// devServices are a Redis and a push service in this process.
type devServices struct {
	redis    *miniredis.Miniredis
	push     *pushservice.Service
	vapidKey string

	stop     chan struct{}
	reading  sync.WaitGroup
	received atomic.Int64
}

// startDev starts what the command dev needs next to the account.
func startDev(context.Context) (*app.DevServices, error) {
	s := &devServices{stop: make(chan struct{})}
	var err error
	if s.redis, err = miniredis.Run(); err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	if s.push, err = pushservice.Start("127.0.0.1:0"); err != nil {
		s.redis.Close()
		return nil, err
	}
	s.reading.Go(s.receive)
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.vapidKey = public
	return &app.DevServices{
		Settings: map[string]string{
			"HALLEY_CONTAINER_NAME":               "results",
			"HALLEY_LEADERBOARD_REDIS_URL":        "redis://" + s.redis.Addr(),
			"HALLEY_PUSH_REDIS_URL":               "redis://" + s.redis.Addr(),
			"HALLEY_PUSH_VAPID_PUBLIC_KEY":        public,
			"HALLEY_PUSH_VAPID_PRIVATE_KEY":       private,
			"HALLEY_PUSH_VAPID_SUBJECT":           "mailto:dev@example.com",
			"HALLEY_PUSH_ALLOW_PRIVATE_ENDPOINTS": "true",
		},
		Prepare: s.subscribe,
		Figures: func() map[string]int64 { return map[string]int64{"notifications received": s.received.Load()} },
		Close:   s.close,
	}, nil
}

// receive counts the notifications of all devices.
func (s *devServices) receive() {
	for {
		select {
		case <-s.push.Notifications():
			s.received.Add(1)
		case <-s.stop:
			return
		}
	}
}

// subscribe gives each player a device, as a browser does.
func (s *devServices) subscribe(ctx context.Context, run *app.DevRun) error {
	database := run.Functions[0].Database
	if err := run.Create(ctx, app.Container{Database: database, Name: "subscriptions", PartitionKey: []string{"/player"}}); err != nil {
		return err
	}
	for _, player := range players {
		device, err := s.push.Subscribe(s.vapidKey)
		if err != nil {
			return err
		}
		d := push.NewSubscription(player, device.Endpoint, push.Keys{P256dh: device.P256dh, Auth: device.Auth})
		if _, err := run.Client.Container(database, "subscriptions").Upsert(ctx, cosmos.NewPartitionKey(player), d); err != nil {
			return err
		}
	}
	return nil
}

// close prints the board of chess, and stops the services.
func (s *devServices) close() error {
	err := s.printBoard()
	close(s.stop)
	s.reading.Wait()
	err = errors.Join(err, s.push.Close())
	s.redis.Close()
	return err
}

func (s *devServices) printBoard() error {
	client, err := redisurl.Client(handlers.URL("redis://" + s.redis.Addr()))
	if err != nil {
		return err
	}
	return errors.Join(printTop(context.Background(), os.Stderr, leaderboard.New(client, "leaderboard:"), "chess"), client.Close())
}

package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/SherClockHolmes/webpush-go"
	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/outbound"
	"halley/handlers/push/pushservice"
	"halley/handlers/redis/redisurl"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// world is the environment of the handler: an embedded account with the
// subscriptions, Redis, and a push service with devices.
type world struct {
	t             testing.TB
	account       *emulator.Account
	subscriptions *cosmos.Container
	redis         *miniredis.Miniredis // nil if it is a real one
	client        *redis.Client        // of the handler's Redis, to read its state
	service       *pushservice.Service
	settings      Settings
	logs          *observer.ObservedLogs
	handler       trigger.Handler
	devices       map[string]pushservice.Device // by player and number: "ada 1"
}

// eachRedis runs a test on an embedded Redis and on the real one at
// HALLEY_TEST_REDIS_URL.
func eachRedis(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("embedded", func(t *testing.T) { test(t, newWorld(t, nil)) })
	t.Run("real", func(t *testing.T) {
		url := os.Getenv("HALLEY_TEST_REDIS_URL")
		if url == "" {
			t.Skip("HALLEY_TEST_REDIS_URL is not set: no real Redis to test with")
		}
		test(t, newWorld(t, func(s *Settings) { s.RedisURL = handlers.URL(url) }))
	})
}

func newWorld(t testing.TB, change func(*Settings)) *world {
	t.Helper()
	w := &world{t: t, devices: make(map[string]pushservice.Device)}
	w.startAccount()
	w.startService()
	w.settings = settings(t)
	w.settings.KeyPrefix = fmt.Sprintf("halley-test:%d:%s:", os.Getpid(), t.Name())
	if change != nil {
		change(&w.settings)
	}
	if w.settings.RedisURL == "" {
		w.redis = miniredis.RunT(t)
		w.settings.RedisURL = handlers.URL("redis://" + w.redis.Addr() + "?max_retries=-1")
	}
	w.client = w.connect()
	w.open()
	return w
}

// settings are valid except for the Redis URL.
func settings(t testing.TB) Settings {
	t.Helper()
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	return Settings{
		KeyPrefix:                  "push:",
		Result:                     game.DefaultPaths(),
		VAPIDPublicKey:             PublicKey(public),
		VAPIDPrivateKey:            handlers.Secret(private),
		VAPIDSubject:               "mailto:ops@example.com",
		SubscriptionsContainerName: "subscriptions",
		Top:                        3,
		MaxAge:                     handlers.Interval(time.Hour),
		TTL:                        handlers.Interval(2 * time.Hour),
		SendTimeout:                handlers.Interval(5 * time.Second),
		AllowPrivateEndpoints:      true,
	}
}

func (w *world) startAccount() {
	var err error
	if w.account, err = emulator.New(nil); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.check(w.account.Close()) })
	key, err := cosmos.KeyCredential(emulator.Key)
	w.check(err)
	client, err := cosmos.NewClient(w.account.Endpoint(), key, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: w.account},
	})
	w.check(err)
	w.check(client.CreateDatabase(w.t.Context(), "games"))
	w.createContainer(client, "subscriptions", "/player")
	w.subscriptions = client.Container("games", "subscriptions")
}

func (w *world) createContainer(client *cosmos.Client, name, key string) {
	w.check(client.CreateContainer(w.t.Context(), "games", cosmos.ContainerDefinition{
		ID: name, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{key}},
	}))
}

func (w *world) startService() {
	var err error
	if w.service, err = pushservice.Start("127.0.0.1:0"); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.check(w.service.Close()) })
}

// connect returns a client that reads the state in Redis. It clears the test's
// keys when the test ends.
func (w *world) connect() *redis.Client {
	client, err := redisurl.Client(w.settings.RedisURL)
	w.check(err)
	w.t.Cleanup(func() {
		if w.redis == nil {
			for _, key := range w.keys() {
				w.check(client.Del(context.Background(), key).Err())
			}
		}
		w.check(client.Close())
	})
	return client
}

// keys lists the test's keys in Redis without the prefix.
func (w *world) keys() []string {
	keys, err := w.client.Keys(context.Background(), w.settings.KeyPrefix+"*").Result()
	w.check(err)
	slices.Sort(keys)
	return keys
}

// due returns the due notifications in Redis.
func (w *world) due() []string {
	return slices.DeleteFunc(w.keys(), func(key string) bool { return strings.HasSuffix(key, ":best") })
}

// open opens the handler, as at the start of a process.
func (w *world) open() {
	core, logs := observer.New(zap.DebugLevel)
	w.logs = logs
	handle, closer, err := Open(w.t.Context(), w.env(zap.New(core)), w.settings)
	w.check(err)
	w.handler = handle
	w.t.Cleanup(func() { w.check(closer()) })
}

func (w *world) env(logger *zap.Logger) handlers.Env {
	return handlers.Env{
		Logger:    logger,
		Container: w.subscriptions.Client().Container,
		Database:  "games",
		Prefix:    "HALLEY_PUSH_",
	}
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// subscribe gives players a device each; a player may occur several times.
func (w *world) subscribe(players ...string) {
	w.t.Helper()
	for _, player := range players {
		device, err := w.service.Subscribe(string(w.settings.VAPIDPublicKey))
		w.check(err)
		number := 1
		for ; w.devices[fmt.Sprintf("%s %d", player, number)].Endpoint != ""; number++ {
			continue
		}
		w.devices[fmt.Sprintf("%s %d", player, number)] = device
		w.store(NewSubscription(player, device.Endpoint, Keys{P256dh: device.P256dh, Auth: device.Auth}))
	}
}

func (w *world) store(s Subscription) {
	w.t.Helper()
	_, err := w.subscriptions.Upsert(w.t.Context(), cosmos.NewPartitionKey(s.Player), s)
	w.check(err)
}

// stored counts a player's subscriptions.
func (w *world) stored(player string) int {
	w.t.Helper()
	devices, err := (&Subscriptions{w.subscriptions, WebPush}).Devices(w.t.Context(), player)
	w.check(err)
	return len(devices)
}

// answer queues the push service's answers for a device, "ada 1".
func (w *world) answer(device string, answers ...pushservice.Answer) {
	w.t.Helper()
	w.check(w.service.Answer(w.devices[device].Endpoint, answers...))
}

// owner names the device of an endpoint.
func (w *world) owner(endpoint string) string {
	for name, device := range w.devices {
		if device.Endpoint == endpoint {
			return name
		}
	}
	return endpoint
}

// play delivers results, "ada 100" each, in one batch of game chess and
// returns what devices received: "ada 1: bob 120 > 100", sorted.
func (w *world) play(results ...string) ([]string, error) {
	w.t.Helper()
	return w.deliver(w.t.Context(), batch(w.t, time.Now(), results...))
}

// played is play without an error.
func (w *world) played(results ...string) []string {
	w.t.Helper()
	received, err := w.play(results...)
	w.check(err)
	return received
}

func (w *world) deliver(ctx context.Context, b trigger.Batch) ([]string, error) {
	notifications, err := w.receive(ctx, b)
	var received []string
	for _, n := range notifications {
		received = append(received, w.describe(n))
	}
	slices.Sort(received)
	return received, err
}

// receive handles a batch and reads the notifications that devices receive.
func (w *world) receive(ctx context.Context, b trigger.Batch) (received []pushservice.Notification, err error) {
	handled := make(chan error, 1)
	go func() { handled <- w.handler(ctx, b) }()
	for {
		select {
		case n := <-w.service.Notifications():
			received = append(received, n)
		case err := <-handled:
			return received, err
		}
	}
}

func (w *world) describe(n pushservice.Notification) string {
	var m Message
	if err := json.Unmarshal(n.Message, &m); err != nil {
		w.t.Errorf("message %s: %v", n.Message, err)
	}
	return fmt.Sprintf("%s: %s %v > %v", w.owner(n.Endpoint), m.By, m.Score, m.Best)
}

// batch holds results that were written at a time.
func batch(t testing.TB, at time.Time, results ...string) trigger.Batch {
	t.Helper()
	b := trigger.Batch{Function: "push", Attempt: 1}
	for i, r := range results {
		player, score, ok := strings.Cut(r, " ")
		if !ok {
			t.Fatalf("result %q", r)
		}
		b.Changes = append(b.Changes, trigger.Change{Document: json.RawMessage(fmt.Sprintf(
			`{"id":"%d","game":"chess","player":%q,"score":%s,"_ts":%d}`, i, player, score, at.Unix()))})
	}
	return b
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("devices received %q, want %q", got, want)
	}
}

// refused returns the push service's refusal in err.
func refused(t *testing.T, err error) *outbound.StatusError {
	t.Helper()
	var refusal *outbound.StatusError
	if !errors.As(err, &refusal) {
		t.Fatalf("error %v holds no StatusError", err)
	}
	return refusal
}

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"halley/function/app/internal/standin/leaderboard"
	"halley/handlers/game"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// Names of the containers of tests, as in local.settings.example.json.
const (
	testDatabase = "halley"
	testResults  = "results"
	testLeases   = "leases"
)

// testAccount is an account served on loopback, with the demo's containers.
type testAccount struct {
	*emulator.Account
	client *cosmos.Client
	redis  *leaderboard.Server
}

func serveAccount(t *testing.T, options emulator.ServeOptions) *testAccount {
	t.Helper()
	account, err := emulator.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := embeddedClient(account)
	if err != nil {
		t.Fatal(err)
	}
	a := &testAccount{Account: account, client: client, redis: leaderboard.RunT(t)}
	a.create(t, testResults, "/player", 2)
	a.create(t, testLeases, "/id", 1)
	ctx, stop := context.WithCancel(context.Background())
	ready, served := make(chan string, 1), make(chan error, 1)
	options.Addr = "127.0.0.1:0"
	options.Ready = func(endpoint string) { ready <- endpoint }
	go func() { served <- account.Serve(ctx, options) }()
	select {
	case <-ready:
	case err := <-served:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := account.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *testAccount) create(t *testing.T, name, key string, ranges int) {
	t.Helper()
	definition := cosmos.ContainerDefinition{ID: name, Throughput: ranges * ruPerRange}
	definition.PartitionKey.Paths = []string{key}
	if err := createContainer(t.Context(), a.client, testDatabase, definition); err != nil {
		t.Fatal(err)
	}
}

// write posts n results of the players from..from+n-1.
func (a *testAccount) write(t *testing.T, from, n int) {
	t.Helper()
	container := a.client.Container(testDatabase, testResults)
	for i := range n {
		r := game.Result{ID: fmt.Sprint("r", from+i), Game: "chess", Player: fmt.Sprint("p", from+i), Score: float64(i)}
		if _, err := container.Upsert(t.Context(), cosmos.NewPartitionKey(r.Player), r); err != nil {
			t.Fatal(err)
		}
	}
}

// writeRaw stores a document as it is.
func (a *testAccount) writeRaw(t *testing.T, player, document string) {
	t.Helper()
	container := a.client.Container(testDatabase, testResults)
	if _, err := container.Upsert(t.Context(), cosmos.NewPartitionKey(player), json.RawMessage(document)); err != nil {
		t.Fatal(err)
	}
}

// onBoard is how many players the leaderboard knows.
func (a *testAccount) onBoard(t *testing.T) int {
	t.Helper()
	return a.redis.Players("leaderboard:chess")
}

// env are settings that run the leaderboard on the account.
func (a *testAccount) env(more ...string) map[string]string {
	env := map[string]string{
		"CosmosDB":                     a.ConnectionString(),
		"HALLEY_FUNCTIONS":             "leaderboard",
		"HALLEY_DATABASE_NAME":         testDatabase,
		"HALLEY_CONTAINER_NAME":        testResults,
		"HALLEY_START_FROM":            "beginning",
		"HALLEY_FEED_POLL_DELAY":       "50ms",
		"HALLEY_LEADERBOARD_REDIS_URL": "redis://" + a.redis.Addr(),
	}
	for i := 0; i+1 < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return env
}

// someKey is the key of an account that does not exist.
const someKey = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="

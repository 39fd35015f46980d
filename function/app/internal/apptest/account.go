package apptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/function/app/internal/standin/leaderboard"
	"halley/handlers/game"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// Names of the containers of tests, as in local.settings.example.json.
const (
	Database = "halley"
	Results  = "results"
	Leases   = "leases"
)

// SomeKey is the key of an account that does not exist.
const SomeKey = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="

// Account is an account served on loopback, with the demo's containers.
type Account struct {
	*emulator.Account
	Client *cosmos.Client
	Redis  *leaderboard.Server
}

// ServeAccount serves an account until the test ends.
func ServeAccount(t *testing.T, options emulator.ServeOptions) *Account {
	t.Helper()
	account, err := emulator.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &Account{Account: account, Client: NewClient(t, account), Redis: leaderboard.RunT(t)}
	a.Create(t, Results, "/player", 2)
	a.Create(t, Leases, "/id", 1)
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

// NewClient makes a client of an account in this process.
func NewClient(t testing.TB, account *emulator.Account) *cosmos.Client {
	t.Helper()
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient(account.Endpoint(), key, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Create creates a container of the database of tests.
func (a *Account) Create(t *testing.T, name, key string, ranges int) {
	t.Helper()
	definition := cosmos.ContainerDefinition{ID: name, Throughput: ranges * 10000} // RU/s of a range
	definition.PartitionKey.Paths = []string{key}
	CreateContainer(t, a.Client, Database, definition)
}

// CreateContainer creates a container, and its database unless it exists.
func CreateContainer(t *testing.T, client *cosmos.Client, database string, definition cosmos.ContainerDefinition) {
	t.Helper()
	if err := client.CreateDatabase(t.Context(), database); err != nil && !cosmos.IsConflict(err) {
		t.Fatal(err)
	}
	if err := client.CreateContainer(t.Context(), database, definition); err != nil && !cosmos.IsConflict(err) {
		t.Fatal(err)
	}
}

// Write posts n results of the players from..from+n-1.
func (a *Account) Write(t *testing.T, from, n int) {
	t.Helper()
	container := a.Client.Container(Database, Results)
	for i := range n {
		r := game.Result{ID: fmt.Sprint("r", from+i), Game: "chess", Player: fmt.Sprint("p", from+i), Score: float64(i)}
		if _, err := container.Upsert(t.Context(), cosmos.NewPartitionKey(r.Player), r); err != nil {
			t.Fatal(err)
		}
	}
}

// WriteRaw stores a document as it is.
func (a *Account) WriteRaw(t *testing.T, player, document string) {
	t.Helper()
	container := a.Client.Container(Database, Results)
	if _, err := container.Upsert(t.Context(), cosmos.NewPartitionKey(player), json.RawMessage(document)); err != nil {
		t.Fatal(err)
	}
}

// OnBoard is how many players the leaderboard knows.
func (a *Account) OnBoard(t *testing.T) int {
	t.Helper()
	return a.Redis.Players("leaderboard:chess")
}

// Env are settings that run the leaderboard on the account, and pairs of names and values.
func (a *Account) Env(pairs ...string) map[string]string {
	env := map[string]string{
		"CosmosDB":                     a.ConnectionString(),
		"HALLEY_FUNCTIONS":             "leaderboard",
		"HALLEY_DATABASE_NAME":         Database,
		"HALLEY_CONTAINER_NAME":        Results,
		"HALLEY_START_FROM":            "beginning",
		"HALLEY_FEED_POLL_DELAY":       "50ms",
		"HALLEY_LEADERBOARD_REDIS_URL": "redis://" + a.Redis.Addr(),
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return env
}

// Scored is a result that the leaderboard takes.
func Scored(id, player string, score int) string {
	return fmt.Sprintf(`{"id":%q,"player":%q,"game":"chess","score":%d}`, id, player, score)
}

// Patience bounds the waits of tests. Only a test that fails waits for so long, also on a
// machine that is slow and busy.
const Patience = 3 * time.Minute

// Until waits until a condition holds.
func Until(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	for ctx, cancel := context.WithTimeout(t.Context(), Patience); ; {
		defer cancel()
		if holds() {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %v", condition, Patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Lines collects lines of output. It is safe for concurrent use.
type Lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// CheckJSON checks that each line is JSON.
func (l *Lines) CheckJSON(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("log line is not JSON: %s", line)
		}
	}
}

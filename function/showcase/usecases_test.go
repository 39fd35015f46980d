package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/jackc/pgx/v5"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/archive"
	"halley/handlers/handlerstest"
	"halley/handlers/postgres/postgrestest"
	"halley/handlers/postgres/view"
	"halley/handlers/redis/cache"
	"halley/handlers/webhook"
	"halley/handlers/webhook/receiver"
	"halley/tests/long"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/triggertest"
)

// The tests of this file are the commands of docs/use-cases.md that need more than the
// command dev.

// A document that its time to live has removed leaves the cache: in all-versions mode the
// feed shows the expiry as a change of its own.
func TestExpiredDocumentLeavesCache(t *testing.T) {
	cleanEnv(t)
	redis := miniredis.RunT(t)
	t.Setenv("HALLEY_CACHE_REDIS_URL", "redis://"+redis.Addr())
	t.Setenv("HALLEY_CACHE_KEY", "session:{id}")
	w := triggertest.NewWorld(t, &triggertest.Options{Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}})
	host := w.Host(handlerstest.Under(t, handlers.New("cache", "", cache.Open), handlerstest.Env(w)))
	host.Drain() // from now on
	w.Put(`{"id":"short","ttl":10}`)
	w.Put(`{"id":"long"}`)
	host.Drain()
	if !redis.Exists("session:short") || !redis.Exists("session:long") {
		t.Fatalf("keys %q", redis.Keys())
	}
	w.Advance(11 * time.Second)
	w.Put(`{"id":"other"}`)
	host.Drain()
	if redis.Exists("session:short") || !redis.Exists("session:long") {
		t.Errorf("keys %q", redis.Keys())
	}
}

// Documents that are cold are in the archive alone: they get a ttl when their file is durable.
func TestAgedDocumentIsInArchive(t *testing.T) {
	cleanEnv(t)
	directory := t.TempDir()
	t.Setenv("HALLEY_ARCHIVE_DIRECTORY", directory)
	t.Setenv("HALLEY_ARCHIVE_AGE_OUT", "ttl")
	t.Setenv("HALLEY_ARCHIVE_AGE_AFTER", "720h")
	w := triggertest.NewWorld(t, nil)
	host := w.Host(handlerstest.Under(t, handlers.New("archive", "", archive.Open), handlerstest.Env(w)))
	w.Put(`{"id":"cold"}`)
	host.Drain()
	w.Advance(719 * time.Hour)
	w.Put(`{"id":"hot"}`)
	host.Drain()
	w.Advance(2 * time.Hour)
	if left := w.Documents(); len(left) != 1 || string(cosmos.Property(left[0], "id")) != `"hot"` {
		t.Errorf("documents %s, want the hot one", left)
	}
	var archived []string
	for r, err := range archive.Read(t.Context(), archive.Directory(directory), "archive/") {
		if err != nil {
			t.Fatal(err)
		}
		archived = append(archived, r.ID)
	}
	if slices.Sort(archived); !slices.Equal(archived, []string{"cold", "hot"}) {
		t.Errorf("archived %q, want both", archived)
	}
}

// A table in PostgreSQL has every document of a container: those from before the function
// began by a snapshot, and then every version and delete.
func TestContainerIsInPostgres(t *testing.T) {
	url, pool := postgrestest.Schema(t)
	cleanEnv(t)
	t.Setenv("HALLEY_VIEW_POSTGRES_URL", url)
	t.Setenv("HALLEY_VIEW_TABLE", "orders")
	t.Setenv("HALLEY_VIEW_COLUMNS", "total=/total bigint")
	t.Setenv("HALLEY_VIEW_CREATE_TABLES", "true")
	w := triggertest.NewWorld(t, &triggertest.Options{Function: trigger.Function{
		FeedSource:  trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: trigger.FromSnapshot()},
		BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 10},
	}})
	want := map[string]int{}
	put := func(first, n, total int) {
		for i := first; i < first+n; i++ {
			id := fmt.Sprint("order", i)
			w.Put(map[string]any{"id": id, "total": total})
			want[id] = total
		}
	}
	remove := func(ids ...string) {
		for _, id := range ids {
			w.Delete(id, id)
			delete(want, id)
		}
	}
	put(0, 200, 1)
	remove("order3", "order150")
	table := handlerstest.Under(t, handlers.New("view", "", view.Open), handlerstest.Env(w))
	calls := 0
	var killed *triggertest.Host
	handler := func(ctx context.Context, b trigger.Batch) error {
		switch calls++; calls {
		case 3: // of the snapshot
			remove("order0", "order199")
			put(190, 9, 2)
		case 6:
			killed.Kill()
		}
		return table(ctx, b)
	}
	killed = w.Host(handler)
	killed.Drain()
	w.ExpireLeases()
	host := w.Host(handler)
	host.Drain()
	put(0, 20, 3)
	remove("order20")
	host.Drain()

	found := map[string]int{}
	rows, err := pool.Query(t.Context(), "SELECT id, total FROM orders")
	if err != nil {
		t.Fatal(err)
	}
	var id string
	var total int
	if _, err := pgx.ForEachRow(rows, []any{&id, &total}, func() error { found[id] = total; return nil }); err != nil {
		t.Fatal(err)
	}
	if calls < 20 || !maps.Equal(found, want) {
		t.Errorf("after %d calls the table has %d rows, the container %d documents", calls, len(found), len(want))
	}
}

// account serves an embedded account until the test ends.
func account(t *testing.T) *emulator.Account {
	t.Helper()
	a, err := emulator.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := a.Serve(ctx, emulator.ServeOptions{Addr: "127.0.0.1:0", Ready: func(string) { close(ready) }}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		serving.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	<-ready
	return a
}

// documentsOf counts the documents of a container; -1 if it does not exist.
func documentsOf(t *testing.T, a *emulator.Account, database, name string) int {
	t.Helper()
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient(a.Endpoint(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for page, err := range client.Container(database, name).Query(t.Context(), cosmos.Query{Text: "SELECT c.id FROM c"}) {
		if cosmos.IsNotFound(err) {
			return -1
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Items)
	}
	return n
}

// The leases of an app are in another account than the container that it monitors.
func TestLeasesInAnotherAccount(t *testing.T) {
	cleanEnv(t)
	monitored, leases := account(t), account(t)
	if err := monitored.CreateContainer("shop", "orders", "/id", 2); err != nil {
		t.Fatal(err)
	}
	if err := leases.CreateContainer("control", "leases", "/id", 1); err != nil {
		t.Fatal(err)
	}
	hook, err := receiver.Start("127.0.0.1:0", webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	defer hook.Close()
	for name, value := range map[string]string{
		"CosmosDB": monitored.ConnectionString(), "LeaseAccount": leases.ConnectionString(),
		"HALLEY_DATABASE_NAME": "shop", "HALLEY_CONTAINER_NAME": "orders", "HALLEY_START_FROM": "beginning",
		"HALLEY_LEASE_CONNECTION": "LeaseAccount", "HALLEY_LEASE_DATABASE_NAME": "control",
		"HALLEY_DEAD_LETTERS": "directory:" + t.TempDir(), "HALLEY_FEED_POLL_DELAY": "50ms",
		"HALLEY_LEASE_ACQUIRE_INTERVAL": "100ms", "HALLEY_LEASE_RENEW_INTERVAL": "1s", "HALLEY_LEASE_EXPIRATION_INTERVAL": "5s",
		"HALLEY_WEBHOOK_URL": hook.URL(), "HALLEY_WEBHOOK_SECRETS": webhookSecret, "HALLEY_WEBHOOK_ALLOW_PRIVATE_ENDPOINT": "true",
	} {
		t.Setenv(name, value)
	}
	seen := make(chan struct{})
	once := sync.OnceFunc(func() { close(seen) })
	hook.Respond(func(receiver.Request) *receiver.Answer { once(); return nil })

	ctx, stop := context.WithCancel(t.Context())
	shop := app.Options{Name: "shop", Handlers: []handlers.Entry{handlers.New("webhook", "posts orders", webhook.Open)}, Stdout: io.Discard, Stderr: os.Stderr}
	code := make(chan int, 1)
	go func() { code <- shop.Run(ctx, []string{"run"}) }()
	putOrder(t, monitored)
	select {
	case <-seen:
	case n := <-code:
		t.Fatalf("the app ended with %d", n)
	}
	stop()
	if n := <-code; n != 0 {
		t.Errorf("the app ended with %d", n)
	}
	if n := documentsOf(t, leases, "control", "leases"); n < 2 {
		t.Errorf("%d documents in the lease container", n)
	}
	if n := documentsOf(t, monitored, "shop", "leases"); n != -1 {
		t.Errorf("the monitored account has a lease container with %d documents", n)
	}
}

func putOrder(t *testing.T, in *emulator.Account) {
	t.Helper()
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient(in.Endpoint(), key, nil)
	if err == nil {
		_, err = client.Container("shop", "orders").Upsert(t.Context(), cosmos.NewPartitionKey("1"), json.RawMessage(`{"id":"1"}`))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Each command of the page that runs the showcase ends with a verdict on each of its handlers:
// on several hosts, of two functions on one container, and with a filter.
func TestCommandsOfUseCases(t *testing.T) {
	isLong := long.Wanted() // before the environment is clean
	servers := serversOfTests(t)
	commands := regexp.MustCompile("`(?:env ([A-Z_]+)=([^`]+) )?go run (?:-tags (\\w+) )?\\./function/showcase (dev --[^`]*)`").FindAllStringSubmatch(useCases(t), -1)
	if len(commands) < 10 {
		t.Fatalf("the page has %d commands of the showcase", len(commands))
	}
	for _, command := range commands {
		setting, value, tag, args := command[1], strings.Trim(command[2], "'"), command[3], strings.Fields(command[4])
		t.Run(command[4], func(t *testing.T) {
			if tag == natsTag && natsNeeds != "" {
				t.Skipf("it runs with -tags %s", tag)
			}
			if plain := len(args) == 3 && setting == ""; !isLong && (plain || slices.Contains(args, "--split-after")) {
				t.Skip("the short form of TestEachHandler runs these handlers")
			}
			if _, needsServer := testServers[setting]; needsServer {
				value = servers[setting]
			}
			duration := "2s"
			switch {
			case slices.Contains(args, "--split-after"): // and all handlers, which have the machine for themselves
				duration = "5s"
			case setting == "":
				t.Parallel()
			case value == "":
				t.Skipf("%s is not set: no server for the command", testServers[setting])
			default:
				t.Setenv(setting, value)
			}
			if !isLong {
				duration = "1s"
			}
			out := run(t, 0, append(args, "--for", duration, "--rate", "50")...)
			names, _ := takeFlag(args, "--handlers")
			chosen, err := choose(names)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range chosen {
				if !strings.Contains(out, "\n"+r.entry.Name+": ") {
					t.Errorf("no verdict on %s:\n%s", r.entry.Name, out)
				}
			}
		})
	}
}

// useCases returns the page of the use cases.
func useCases(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/use-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), `\&`, "&")
}

// The page has a row for each of the eighteen use cases, with a command of a kind that CI runs, and
// what the commands name exists: showcase and tests here and in their packages, examples in
// scripts/examples, new apps in the tests of processes.
func TestUseCasesPage(t *testing.T) {
	text := useCases(t)
	uses := regexp.MustCompile(`(?m)^\| \d+ \|.*`).FindAllString(text, -1)
	if len(uses) != 18 {
		t.Errorf("%d use cases", len(uses))
	}
	kinds := regexp.MustCompile("^`(env [A-Z_]+=[^`]+ )?(go run (-tags \\w+ )?./function/showcase dev .+|go test \\./\\S+ -run \\w+ -v|cd docs/examples/\\w+ && GOWORK=off go run (./story|. dev)|go run ./function new app ../shop --template (azd|container))`$")
	for _, use := range uses {
		if command := strings.TrimSpace(strings.Split(use, " | ")[2]); !kinds.MatchString(command) {
			t.Errorf("no step of CI runs %s", command)
		}
	}
	tests := regexp.MustCompile(`go test (\./\S+) -run (\w+)`).FindAllStringSubmatch(text, -1)
	if len(tests) == 0 {
		t.Error("no use case is shown by a test")
	}
	for _, named := range tests {
		files, err := filepath.Glob(filepath.Join("../..", named[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			source, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(source), fmt.Sprintf("func %s(", named[2]))
		}) {
			t.Errorf("%s has no test %s", named[1], named[2])
		}
	}
	for _, example := range regexp.MustCompile(`cd (docs/examples/\w+)`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("../..", example[1], "go.mod")); err != nil {
			t.Error(err)
		}
	}
}

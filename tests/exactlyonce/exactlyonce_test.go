package exactlyonce

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers/postgres/postgrestest"
	"halley/handlers/postgres/view"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// The defaults are the short form: they write for longer than the first kill may take.
var (
	changes  = flag.Int("changes", 1_000, "changes to write")
	rate     = flag.Int("rate", 500, "changes per second; 0: as fast as possible")
	interval = flag.Duration("kill-every", 500*time.Millisecond, "average time between two kills")
	limit    = flag.Duration("limit", 10*time.Minute, "time for all of it")
	seed     = flag.Uint64("seed", 0, "of the documents and the kills; 0: a new one")
)

const (
	database  = "shop"
	monitored = "orders"
	leases    = "leases"
	hosts     = 3
	ranges    = 8
)

// columns are the columns of the view, in the test and in the settings of the hosts.
const columns = "customer=/customer,country=/country,cents=/cents bigint,version=/version bigint"

// journal writes a line for each effect on a row.
const journal = `
CREATE TABLE effects (id text NOT NULL, version bigint NOT NULL);
CREATE FUNCTION record_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO effects VALUES (NEW.id, NEW.version);
	RETURN NULL;
END $$;
CREATE TRIGGER effect AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION record_effect()`

// TestKilledHostsCauseEachEffectOnce kills hosts while they fill a view. The totals must
// be exactly those of the documents, each version that was delivered must have had exactly
// one effect, and no change may be taken for one that crashes its process.
func TestKilledHostsCauseEachEffectOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some time")
	}
	drawSeed(t)
	began := time.Now()
	url, pool := postgrestest.Schema(t)
	createView(t, pool, false, journal)
	account, endpoint := serveAccount(t, cosmos.ContainerDefinition{})
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()

	l := &load{t: t, container: connect(t, account, endpoint).Container(database, monitored), changes: *changes, rate: *rate, documents: map[string]document{}}
	f := startHosts(t, endpoint, append(viewSettings(url), "HALLEY_START_FROM=beginning")...)
	killing, stopKilling := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { f.killAtRandom(killing, *interval) })
	l.write(ctx)
	written := time.Since(began)
	caughtUp := awaitTotals(ctx, t, pool, l.totals())
	lasted := time.Since(began)
	stopKilling()
	working.Wait()
	for _, h := range f.hosts {
		h.stop()
	}
	if !caughtUp {
		t.Errorf("the totals are not those of the documents after %s", lasted.Round(time.Second))
	}
	requireEffects(t, pool, l.documents)
	requireNoDeadLetters(t, f.hosts[0])
	t.Logf("%d changes of %d documents by %d hosts, %d kills; written after %s, ended after %s: %.0f changes per second",
		*changes, len(l.documents), hosts, f.kills, written.Round(100*time.Millisecond), lasted.Round(100*time.Millisecond), float64(*changes)/lasted.Seconds())
}

// drawSeed chooses a seed for all tests if the run has none.
func drawSeed(t *testing.T) {
	t.Helper()
	draw()
	t.Logf("seed %d", *seed)
}

var draw = sync.OnceFunc(func() {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
})

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// createView creates the tables of the view, and a journal of their effects.
func createView(t *testing.T, pool *pgxpool.Pool, fromSnapshot bool, journal string) {
	t.Helper()
	parsed, err := view.ParseColumns(columns)
	must(t, err)
	v, err := view.New(pool, view.Definition{Table: pgx.Identifier{"orders"}, Columns: parsed, GroupBy: []string{"country"}, Sum: []string{"cents"}, FromSnapshot: fromSnapshot})
	must(t, err)
	_, err = pool.Exec(t.Context(), v.DDL()+journal)
	must(t, err)
}

// serveAccount serves an account on a loopback port until the test ends. items is the
// monitored container without its name, key and ranges.
func serveAccount(t *testing.T, items cosmos.ContainerDefinition) (*emulator.Account, string) {
	t.Helper()
	account, err := emulator.New(nil)
	must(t, err)
	client := connect(t, account, "https://halley.emulator/")
	must(t, client.CreateDatabase(t.Context(), database))
	items.ID, items.PartitionKey = monitored, cosmos.PartitionKeyDefinition{Paths: []string{"/customer"}}
	items.Throughput = ranges * 10_000 // a range has 10,000 RU/s at most
	must(t, client.CreateContainer(t.Context(), database, items))
	must(t, account.CreateContainer(database, leases, "/id", 1))
	ctx, cancel := context.WithCancel(context.Background())
	ready, served := make(chan string, 1), make(chan error, 1)
	go func() {
		served <- account.Serve(ctx, emulator.ServeOptions{Addr: "127.0.0.1:0", Ready: func(endpoint string) { ready <- endpoint }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve the account: %v", err)
		}
		must(t, account.Close())
	})
	select {
	case endpoint := <-ready:
		return account, endpoint
	case err := <-served:
		served <- nil
		t.Fatalf("serve the account: %v", err)
		return nil, ""
	}
}

// connect returns a client of the account that does not leave this process. endpoint is
// that of the account.
func connect(t *testing.T, account *emulator.Account, endpoint string) *cosmos.Client {
	t.Helper()
	credential, err := cosmos.KeyCredential(emulator.Key)
	must(t, err)
	client, err := cosmos.NewClient(endpoint, credential, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
	must(t, err)
	return client
}

// viewSettings are the settings of the handler view on a database.
func viewSettings(url string) []string {
	return []string{
		"HALLEY_FUNCTIONS=view", "HALLEY_VIEW_POSTGRES_URL=" + url, "HALLEY_VIEW_TABLE=orders", "HALLEY_VIEW_COLUMNS=" + columns,
		"HALLEY_VIEW_GROUP_BY=country", "HALLEY_VIEW_SUM=cents",
	}
}

// startHosts starts hosts of the app, with further settings.
func startHosts(t *testing.T, endpoint string, settings ...string) *fleet {
	t.Helper()
	must(t, buildApp())
	dir := t.ArtifactDir()
	f := &fleet{random: rand.New(rand.NewPCG(*seed, writers))}
	for i := range hosts {
		h := newHost(t, dir, i, append([]string{
			fmt.Sprintf("CosmosDB=AccountEndpoint=%s;AccountKey=%s;", endpoint, emulator.Key),
			"HALLEY_DATABASE_NAME=" + database, "HALLEY_CONTAINER_NAME=" + monitored,
			"HALLEY_LEASE_EXPIRATION_INTERVAL=5s", "HALLEY_LEASE_RENEW_INTERVAL=1s", "HALLEY_LEASE_ACQUIRE_INTERVAL=1s", "HALLEY_FEED_POLL_DELAY=200ms",
		}, settings...))
		h.start()
		t.Cleanup(h.kill)
		f.hosts = append(f.hosts, h)
	}
	return f
}

// awaitTotals waits until the totals of the view are right, or ctx ends.
func awaitTotals(ctx context.Context, t *testing.T, pool *pgxpool.Pool, want map[string]total) bool {
	t.Helper()
	for ctx.Err() == nil {
		if maps.Equal(readTotals(t, pool), want) {
			return true
		}
		waitUntil(ctx, time.Now().Add(200*time.Millisecond))
	}
	return false
}

func readTotals(t *testing.T, pool *pgxpool.Pool) map[string]total {
	t.Helper()
	rows, err := pool.Query(context.Background(), "SELECT country, documents, sum_cents::bigint FROM orders_totals")
	must(t, err)
	got := map[string]total{}
	var country string
	var sums total
	_, err = pgx.ForEachRow(rows, []any{&country, &sums.Documents, &sums.Cents}, func() error {
		got[country] = sums
		return nil
	})
	must(t, err)
	return got
}

// requireEffects fails the test unless the last version of each document has had one
// effect, and no version more than one. A first version that was replaced before a host
// read it has none.
func requireEffects(t *testing.T, pool *pgxpool.Pool, documents map[string]document) {
	t.Helper()
	rows, err := pool.Query(context.Background(), "SELECT id, version FROM effects")
	must(t, err)
	type version struct {
		id     string
		number int64
	}
	effects := map[version]int{}
	var v version
	_, err = pgx.ForEachRow(rows, []any{&v.id, &v.number}, func() error {
		effects[v]++
		return nil
	})
	must(t, err)
	missing, repeated, replaced := 0, 0, 0
	for _, count := range effects {
		if count > 1 {
			repeated++
		}
	}
	for id, d := range documents {
		if effects[version{id, d.Version}] == 0 {
			missing++
		}
		if d.Version > 1 && effects[version{id, 1}] == 0 {
			replaced++
		}
	}
	if missing+repeated > 0 {
		t.Errorf("%d documents without an effect of their last version, %d versions with more than one", missing, repeated)
	}
	t.Logf("%d effects; %d versions were replaced before they were read", len(effects), replaced)
}

// requireNoDeadLetters fails the test if the command deadletters finds one.
func requireNoDeadLetters(t *testing.T, h *host) {
	t.Helper()
	if out, err := h.command(t.Context(), "deadletters", "list", "--json").Output(); err != nil || len(out) > 0 {
		t.Errorf("dead letters: %v\n%s", err, out)
	}
}

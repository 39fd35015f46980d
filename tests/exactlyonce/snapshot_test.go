package exactlyonce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers/postgres/postgrestest"
	"halley/tests/long"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// fullJournal also writes a line for each row that is removed, and none for a row that a later
// snapshot shows as it is.
const fullJournal = `
CREATE TABLE effects (id text NOT NULL, version bigint NOT NULL, removed boolean NOT NULL);
CREATE FUNCTION record_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		INSERT INTO effects VALUES (OLD.id, OLD.version, true);
	ELSE
		INSERT INTO effects VALUES (NEW.id, NEW.version, false);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER effect AFTER INSERT OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION record_effect();
CREATE TRIGGER another AFTER UPDATE ON orders FOR EACH ROW
	WHEN (NEW.version <> OLD.version OR NEW.generation IS NOT DISTINCT FROM OLD.generation) EXECUTE FUNCTION record_effect()`

// The view must be the container, its totals those of its rows, and no version may have had
// two effects.
func TestSnapshotInViewUnderKills(t *testing.T) {
	t.Parallel()
	url, pool := postgrestest.Schema(t)
	createView(t, pool, true, fullJournal)
	drawSeed(t)
	application := fmt.Sprint("exactlyonce-", *seed)
	r := snapshotUnderKills(t, snapshotSink{
		function: "view", settings: viewSettings(url + "&application_name=" + application),
		crash:     func(ctx context.Context) int { return crashConnections(ctx, t, pool, application, *interval) },
		documents: func() map[string]document { return rowsOf(t, pool) },
	})
	requireDocuments(t, rowsOf(t, pool), r.life.living())
	if totals := (&load{documents: r.life.living()}).totals(); !maps.Equal(readTotals(t, pool), totals) {
		t.Error("the totals are not those of the documents")
	}
	requireNoRepetition(t, pool)
}

// The index must have the documents of the container.
func TestSnapshotInIndexUnderKills(t *testing.T) {
	long.Only(t, "waits for late writes at the end of a snapshot")
	t.Parallel()
	x := newSearchIndex(t)
	drawSeed(t)
	r := snapshotUnderKills(t, snapshotSink{
		function: "opensearch", settings: x.settings(),
		crash:     func(ctx context.Context) int { return x.crash(ctx, *interval) },
		documents: func() map[string]document { return x.documents(t) },
	})
	requireDocuments(t, x.documents(t), r.life.living())
}

// snapshotSink is a sink of a function that begins with a snapshot.
type snapshotSink struct {
	function  string
	settings  []string
	crash     func(ctx context.Context) (crashes int) // crashes the sink until ctx ends
	documents func() map[string]document              // that the sink has, by id
	ttl       *int                                    // default of the container
}

// snapshotRun is a function that begins with a snapshot, and comes back with another one after its
// hosts stood still for longer than the retention.
type snapshotRun struct {
	t       *testing.T
	sink    snapshotSink
	account *emulator.Account
	client  *cosmos.Client
	source  trigger.FeedSource
	life    *life
	fleet   *fleet
	during  int // kills while a snapshot is read
	crashes int // of the sink
	stalled int // ranges whose position had left the retention
	seeks   int // commands until another snapshot has begun
}

// snapshotUnderKills kills hosts while they read a snapshot and then every version, with writes
// and deletes before, during and after each page of the snapshot, a split, and crashes of the
// sink. Then no host runs for longer than the retention, and the hosts come back with a second
// snapshot, among the same troubles. It returns when all is delivered.
func snapshotUnderKills(t *testing.T, sink snapshotSink) *snapshotRun {
	if testing.Short() {
		t.Skip("kills processes for some time")
	}
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	r := newSnapshotRun(ctx, t, sink)
	r.readSnapshot(ctx, "0")
	missed := r.missRetention(ctx)
	r.underTrouble(ctx, func() { r.beginSnapshot(ctx) })
	r.readSnapshot(ctx, "1")
	awaitCaughtUp(ctx, t, r.client, r.source)
	for _, h := range r.fleet.hosts {
		h.stop()
	}
	requireNoDeadLetters(t, r.fleet.hosts[0])
	documents := r.life.living()
	missed.requireWork(t, documents)
	t.Logf("%d changes, %d documents, %d hosts, %d kills, %d of them during a snapshot, %d crashes of the sink, 2 splits, %d ranges stalled, %d seeks",
		r.life.next, len(documents), hosts, r.fleet.kills, r.during, r.crashes, r.stalled, r.seeks)
	if r.during < 2 || r.crashes == 0 || r.stalled == 0 {
		t.Error("the test did not do its work")
	}
	return r
}

// newSnapshotRun writes half of the changes, and starts hosts.
func newSnapshotRun(ctx context.Context, t *testing.T, sink snapshotSink) *snapshotRun {
	t.Helper()
	account, endpoint := serveAccount(t, cosmos.ContainerDefinition{Retention: retention, DefaultTTL: sink.ttl})
	client := connect(t, account, endpoint)
	source := trigger.FeedSource{
		Name: sink.function, ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: trigger.FromSnapshot(), Container: client.Container(database, monitored),
	}
	r := &snapshotRun{t: t, sink: sink, account: account, client: client, source: source, life: newLife(t, source.Container)}
	r.life.write(ctx, *changes/2, 0)
	r.fleet = startHosts(t, endpoint, append([]string{
		"HALLEY_CHANGE_FEED_MODE=all-versions", "HALLEY_START_FROM=snapshot", "HALLEY_PAGE_ITEMS=25", "HALLEY_MAX_ITEMS_PER_INVOCATION=10",
		fmt.Sprint("HALLEY_RATE=", max(*rate/4, 1)), // so that the snapshot lasts for several kills
	}, sink.settings...)...)
	r.fleet.beforeKill = func() {
		if lags, err := r.lags(ctx); err == nil && isInSnapshot(lags) {
			r.during++
		}
	}
	return r
}

// readSnapshot waits until hosts have read the snapshot, with writes, trouble and the split of a
// partition. So that hosts make progress, the trouble ends after some time.
func (r *snapshotRun) readSnapshot(ctx context.Context, partition string) {
	r.t.Helper()
	r.await(ctx, isInSnapshot)
	r.underTrouble(ctx, func() {
		enough, cancel := context.WithTimeout(ctx, time.Duration(*changes)*(*interval)/1000)
		defer cancel()
		r.life.write(ctx, *changes/16, *rate)
		_, err := r.account.Split(database, monitored, partition)
		must(r.t, err)
		r.life.write(ctx, *changes/16, *rate)
		r.await(enough, isPastSnapshot)
	})
	r.await(ctx, isPastSnapshot)
}

// underTrouble does work while hosts are killed and the sink crashes, both for the first time at once.
func (r *snapshotRun) underTrouble(ctx context.Context, work func()) {
	trouble, stopTrouble := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer stopTrouble()
	working.Go(func() {
		r.fleet.killOne()
		r.fleet.killAtRandom(trouble, *interval)
	})
	working.Go(func() { r.crashes += r.sink.crash(trouble) })
	work()
}

// lags returns the state of the ranges.
func (r *snapshotRun) lags(ctx context.Context) ([]trigger.Lag, error) {
	return trigger.EstimateLag(ctx, r.client.Container(database, leases), r.source)
}

// await waits until the ranges meet a condition, or ctx ends.
func (r *snapshotRun) await(ctx context.Context, met func([]trigger.Lag) bool) {
	for ctx.Err() == nil {
		if lags, err := r.lags(ctx); err == nil && met(lags) {
			return
		}
		waitUntil(ctx, time.Now().Add(50*time.Millisecond))
	}
}

// isInSnapshot reports whether a range reads its snapshot.
func isInSnapshot(lags []trigger.Lag) bool {
	return slices.ContainsFunc(lags, func(lag trigger.Lag) bool { return lag.Snapshot != nil })
}

// isPastSnapshot reports whether all ranges have read their snapshots.
func isPastSnapshot(lags []trigger.Lag) bool {
	return len(lags) > 0 && !slices.ContainsFunc(lags, func(lag trigger.Lag) bool { return lag.Snapshot != nil || lag.Continuation == "" })
}

// crashConnections ends all connections of an application to PostgreSQL every interval, in the middle
// of their transactions, until ctx ends.
func crashConnections(ctx context.Context, t *testing.T, pool *pgxpool.Pool, application string, interval time.Duration) (crashes int) {
	const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
	for ctx.Err() == nil {
		if _, err := pool.Exec(ctx, end, application); err != nil && ctx.Err() == nil {
			t.Errorf("end the connections: %v", err)
		}
		crashes++
		waitUntil(ctx, time.Now().Add(interval))
	}
	return crashes
}

// rowsOf returns the documents of the view.
func rowsOf(t *testing.T, pool *pgxpool.Pool) map[string]document {
	t.Helper()
	rows, err := pool.Query(context.Background(), "SELECT id, customer, country, cents, version FROM orders")
	must(t, err)
	found := map[string]document{}
	var d document
	_, err = pgx.ForEachRow(rows, []any{&d.ID, &d.Customer, &d.Country, &d.Cents, &d.Version}, func() error {
		found[d.ID] = d
		return nil
	})
	must(t, err)
	return found
}

// requireDocuments fails the test unless a sink has exactly the documents of the container.
func requireDocuments(t *testing.T, got, want map[string]document) {
	t.Helper()
	lost, stale, extra := 0, 0, 0
	for id, d := range want {
		if found, ok := got[id]; !ok {
			lost++
		} else if found != d {
			stale++
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok {
			extra++
		}
	}
	if lost+stale+extra > 0 {
		t.Errorf("%d documents are lost, %d are not the last version, %d are of deleted documents", lost, stale, extra)
	}
}

// requireNoRepetition fails the test if a version had two effects, or its removal had.
func requireNoRepetition(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var effects, repeated int
	must(t, pool.QueryRow(context.Background(),
		"SELECT coalesce(sum(n), 0), count(*) FILTER (WHERE n > 1) FROM (SELECT count(*) AS n FROM effects GROUP BY id, version, removed) AS counted").Scan(&effects, &repeated))
	if repeated > 0 || effects == 0 {
		t.Errorf("of %d effects, those of %d versions are repeated", effects, repeated)
	}
}

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
	"halley/trigger"
	"halley/trigger/cosmos"
)

// fullJournal also writes a line for each row that is removed.
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
CREATE TRIGGER effect AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION record_effect()`

// The view must be the container, its totals those of its rows, and no version may have had
// two effects.
func TestSnapshotInViewUnderKills(t *testing.T) {
	url, pool := postgrestest.Schema(t)
	createView(t, pool, true, fullJournal)
	drawSeed(t)
	application := fmt.Sprint("exactlyonce-", *seed)
	documents := snapshotUnderKills(t, snapshotSink{
		function: "view", settings: viewSettings(url + "&application_name=" + application),
		crash: func(ctx context.Context) int { return crashConnections(ctx, t, pool, application, *interval) },
	})
	requireRows(t, pool, documents)
	requireNoRepetition(t, pool)
}

// The index must have the documents of the container.
func TestSnapshotInIndexUnderKills(t *testing.T) {
	c := newCluster(t)
	drawSeed(t)
	documents := snapshotUnderKills(t, snapshotSink{
		function: "opensearch", settings: []string{"HALLEY_FUNCTIONS=opensearch", "HALLEY_OPENSEARCH_URL=" + c.URL, "HALLEY_OPENSEARCH_INDEX=orders"},
		crash: func(ctx context.Context) int { return c.crash(ctx, *interval) },
	})
	c.requireIndex(t, documents)
}

// snapshotSink is a sink of a function that begins with a snapshot.
type snapshotSink struct {
	function string
	settings []string
	crash    func(ctx context.Context) (crashes int) // crashes the sink until ctx ends
}

// snapshotUnderKills kills hosts while they read a snapshot and then every version, with writes
// and deletes before, during and after each page of the snapshot, a split, and crashes of the
// sink. It returns the documents that the sink must have in the end.
func snapshotUnderKills(t *testing.T, sink snapshotSink) map[string]document {
	if testing.Short() {
		t.Skip("kills processes for some time")
	}
	account, endpoint := serveAccount(t, cosmos.ContainerDefinition{Retention: 24 * time.Hour})
	client := connect(t, account, endpoint)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()

	source := trigger.FeedSource{
		Name: sink.function, ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: trigger.FromSnapshot(), Container: client.Container(database, monitored),
	}
	l := newLife(t, source.Container)
	l.write(ctx, *changes/2, 0)
	f := startHosts(t, endpoint, append(sink.settings,
		"HALLEY_CHANGE_FEED_MODE=all-versions", "HALLEY_START_FROM=snapshot", "HALLEY_PAGE_ITEMS=25", "HALLEY_MAX_ITEMS_PER_INVOCATION=10",
		fmt.Sprint("HALLEY_RATE=", max(*rate/4, 1)))...) // so that the snapshot lasts for several kills
	during := 0 // kills while a snapshot is read
	f.beforeKill = func() {
		if isInSnapshot(ctx, client, source) {
			during++
		}
	}
	trouble, stopTrouble := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() {
		for !isInSnapshot(ctx, client, source) && trouble.Err() == nil {
			waitUntil(trouble, time.Now().Add(50*time.Millisecond))
		}
		f.killOne()
		f.killAtRandom(trouble, *interval)
	})
	crashes := 0
	working.Go(func() { crashes = sink.crash(trouble) })
	l.write(ctx, *changes/8, *rate)
	_, err := account.Split(database, monitored, "0")
	must(t, err)
	l.write(ctx, *changes-*changes/2-*changes/8, *rate)
	stopTrouble()
	working.Wait()
	awaitCaughtUp(ctx, t, client, source)
	for _, h := range f.hosts {
		h.stop()
	}
	requireNoDeadLetters(t, f.hosts[0])
	t.Logf("%d changes, %d documents, %d hosts, %d kills, %d of them during the snapshot, %d crashes of the sink", *changes, len(l.living()), hosts, f.kills, during, crashes)
	if during == 0 || crashes == 0 {
		t.Error("the test did not do its work")
	}
	return l.living()
}

// isInSnapshot reports whether a range of the function reads its snapshot.
func isInSnapshot(ctx context.Context, client *cosmos.Client, source trigger.FeedSource) bool {
	lags, err := trigger.EstimateLag(ctx, client.Container(database, leases), source)
	return err == nil && slices.ContainsFunc(lags, func(lag trigger.Lag) bool { return lag.Snapshot != nil })
}

// crashConnections ends all connections of an application to PostgreSQL every interval, in the middle
// of their transactions, until ctx ends.
func crashConnections(ctx context.Context, t *testing.T, pool *pgxpool.Pool, application string, interval time.Duration) (crashes int) {
	for {
		waitUntil(ctx, time.Now().Add(interval))
		if ctx.Err() != nil {
			return crashes
		}
		const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
		if _, err := pool.Exec(ctx, end, application); err != nil && ctx.Err() == nil {
			t.Errorf("end the connections: %v", err)
		}
		crashes++
	}
}

// requireRows fails the test unless the view has exactly the documents, and the totals are
// theirs.
func requireRows(t *testing.T, pool *pgxpool.Pool, want map[string]document) {
	t.Helper()
	rows, err := pool.Query(context.Background(), "SELECT id, customer, country, cents, version FROM orders")
	must(t, err)
	got := map[string]document{}
	var d document
	_, err = pgx.ForEachRow(rows, []any{&d.ID, &d.Customer, &d.Country, &d.Cents, &d.Version}, func() error {
		got[d.ID] = d
		return nil
	})
	must(t, err)
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
		t.Errorf("%d documents are lost, %d rows are not the last version, %d rows are of deleted documents", lost, stale, extra)
	}
	if totals := (&load{documents: want}).totals(); !maps.Equal(readTotals(t, pool), totals) {
		t.Error("the totals are not those of the documents")
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

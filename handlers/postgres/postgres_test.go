package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers/postgres"
	"halley/handlers/postgres/postgrestest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// journal is a table with a line for each effect: a sink that shows an effect that happens
// twice or not at all.
type journal struct {
	t     testing.TB
	pool  *pgxpool.Pool
	store *postgres.Store
}

func newJournal(t testing.TB) *journal {
	t.Helper()
	_, pool := postgrestest.Schema(t)
	j := &journal{t, pool, postgres.New(pool, pgx.Identifier{"positions"})}
	for _, statement := range []string{j.store.DDL(), "CREATE TABLE journal (line bigserial, id text, n bigint)"} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

type document struct {
	ID  string `json:"id"`
	Key string `json:"key"`
	N   int64  `json:"n"`
}

func (j *journal) handle(ctx context.Context, b trigger.Batch) error {
	return j.store.Apply(ctx, b, write)
}

// write is an effect.
func write(ctx context.Context, tx pgx.Tx, fresh []trigger.Change) error {
	for _, c := range fresh {
		d := document{N: -1} // of a delete
		if c.Document != nil {
			if err := c.Decode(&d); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "INSERT INTO journal (id, n) VALUES ($1, $2)", c.ID(), d.N); err != nil {
			return err
		}
	}
	return nil
}

// lines returns the effects on each document, in order.
func (j *journal) lines() map[string][]int64 {
	j.t.Helper()
	rows, err := j.pool.Query(context.Background(), "SELECT id, n FROM journal ORDER BY line")
	if err != nil {
		j.t.Fatal(err)
	}
	lines := map[string][]int64{}
	var id string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error {
		lines[id] = append(lines[id], n)
		return nil
	}); err != nil {
		j.t.Fatal(err)
	}
	return lines
}

// Each version takes effect exactly once, in order, whatever happens on the way.
func TestEffectsConverge(t *testing.T) {
	for name, function := range map[string]trigger.Function{
		"all versions": {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}, BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 4, PageItems: 4}},
		"lanes":        {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}, BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 4, PageItems: 4, Lanes: 3}},
		"blocked keys": {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}, BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 4, PageItems: 4}, GiveUpPolicy: trigger.GiveUpPolicy{BlockKeys: true}},
	} {
		t.Run(name, func(t *testing.T) {
			triggertest.Converges(t, triggertest.Scenario{
				Seeds:    10,
				Function: function,
				Document: func(random *rand.Rand, id, key string) any { return document{id, key, random.Int64N(1000)} },
				Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
					j := newJournal(t)
					return triggertest.Sink{
						Start: func() (trigger.Handler, func() error) { return j.handle, nil },
						State: func() any { return j.lines() },
					}
				},
			})
		})
	}
}

func change(lsn int64, text string) trigger.Change {
	c := triggertest.Upsert(text, "k")
	c.LSN = lsn
	return c
}

func deliver(t *testing.T, handler trigger.Handler, epoch int64, changes ...trigger.Change) {
	t.Helper()
	if v := (triggertest.Call{Epoch: epoch}).Deliver(t, handler, changes...); len(v.Failed) > 0 {
		t.Fatal(v)
	}
}

func (j *journal) requireLines(want string) {
	j.t.Helper()
	if got := fmt.Sprint(j.lines()); got != want {
		j.t.Errorf("effects are %s, want %s", got, want)
	}
}

// Several versions of a document in one transaction share an LSN. Each takes effect once,
// also if the batch ends between them and another owner gets all of them again.
func TestVersionsOfOneTransaction(t *testing.T) {
	j := newJournal(t)
	w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/key", Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}, BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 2}}})
	host := w.Host(j.handle)
	host.Drain() // the feed begins now
	var tx cosmos.Transaction
	for n := range int64(3) {
		tx.Create(document{"a", "k", 10 * n})
		tx.Upsert(document{"a", "k", 10*n + 1})
		tx.Delete("a", "")
	}
	if _, err := w.Client().Container(triggertest.Database, triggertest.Container).Commit(t.Context(), cosmos.NewPartitionKey("k"), &tx); err != nil {
		t.Fatal(err)
	}
	calls := 0
	var dying *triggertest.Host
	dying = w.Host(func(ctx context.Context, b trigger.Batch) error {
		if calls++; calls == 3 {
			dying.Kill()
		}
		return j.handle(ctx, b)
	})
	dying.Drain()
	w.Host(j.handle).Drain()
	w.RequireDelivered()
	j.requireLines("map[a:[0 1 -1 10 11 -1 20 21 -1]]")
	if calls < 3 {
		t.Errorf("%d calls: the test did not do its work", calls)
	}
}

func TestRedeliveryWritesNothing(t *testing.T) {
	j := newJournal(t)
	first, second := change(7, `{"id":"a","n":1,"_etag":"x"}`), change(8, `{"id":"b","n":2,"_etag":"y"}`)
	deliver(t, j.handle, 1, first, second)
	calls := 0
	counted := func(ctx context.Context, b trigger.Batch) error {
		return j.store.Apply(ctx, b, func(ctx context.Context, tx pgx.Tx, fresh []trigger.Change) error {
			calls++
			return write(ctx, tx, fresh)
		})
	}
	deliver(t, counted, 2, first, second) // a new owner
	deliver(t, counted, 1, second)        // the former owner
	if calls != 0 {
		t.Errorf("%d effects of changes that had taken effect", calls)
	}
	deliver(t, counted, 2, second, change(9, `{"id":"a","n":3,"_etag":"z"}`))
	j.requireLines("map[a:[1 3] b:[2]]")
}

func TestEffectFailsAsAWhole(t *testing.T) {
	j := newJournal(t)
	errDown := errors.New("down")
	v := triggertest.Deliver(t, func(ctx context.Context, b trigger.Batch) error {
		return j.store.Apply(ctx, b, func(ctx context.Context, tx pgx.Tx, fresh []trigger.Change) error {
			return errors.Join(write(ctx, tx, fresh), errDown)
		})
	}, change(1, `{"id":"a","n":1}`), change(2, `{"id":"b","n":2}`))
	if len(v.Failed) != 2 || !errors.Is(v.Err, errDown) {
		t.Error(v)
	}
	j.requireLines("map[]")
	deliver(t, j.handle, 1, change(1, `{"id":"a","n":1}`))
	j.requireLines("map[a:[1]]")
}

func TestRefusedChangeIsLeftOut(t *testing.T) {
	j := newJournal(t)
	v := triggertest.Deliver(t, func(ctx context.Context, b trigger.Batch) error {
		return j.store.Apply(ctx, b, func(ctx context.Context, tx pgx.Tx, fresh []trigger.Change) error {
			if i := slices.IndexFunc(fresh, func(c trigger.Change) bool { return c.ID() == "b" }); i >= 0 {
				return trigger.Skip(trigger.Failed(errors.New("refused"), fresh[i]))
			}
			return write(ctx, tx, fresh)
		})
	}, change(1, `{"id":"a","n":1}`), change(2, `{"id":"b","n":2}`), change(3, `{"id":"c","n":3}`))
	if v.String() != `2 handled, 1 given up ["b"]: 1 changes failed: refused` {
		t.Error(v)
	}
	j.requireLines("map[a:[1] c:[3]]")
	deliver(t, j.handle, 1, change(2, `{"id":"b","n":2}`)) // a replay
	j.requireLines("map[a:[1] b:[2] c:[3]]")
}

// Several owners deliver the same changes at the same time, in batches of other sizes and
// in several epochs.
func TestOwnersAtTheSameTime(t *testing.T) {
	j := newJournal(t)
	const versions, documents, owners = 20, 6, 4
	var changes []trigger.Change
	for n := range versions {
		for d := range documents {
			changes = append(changes, change(int64(n*documents+d+1), fmt.Sprintf(`{"id":"d%d","n":%d,"_etag":"%d-%d"}`, d, n, n, d)))
		}
	}
	var delivering sync.WaitGroup
	for owner := range owners {
		delivering.Go(func() {
			random := rand.New(rand.NewPCG(uint64(owner), 1))
			for rest := changes; len(rest) > 0; {
				count := 1 + random.IntN(min(25, len(rest)))
				call := triggertest.Call{Epoch: int64(owner + 1)}
				for v := call.Deliver(t, j.handle, rest[:count]...); len(v.Failed) > 0; v = call.Deliver(t, j.handle, v.Failed...) {
					if !strings.Contains(v.Err.Error(), "were changed 5 times by other calls") {
						t.Error(v)
						return
					}
				}
				rest = rest[count:]
			}
		})
	}
	delivering.Wait()
	for id, got := range j.lines() {
		if len(got) != versions || !slices.IsSorted(got) {
			t.Errorf("document %s has the effects %d", id, got)
		}
	}
}

func TestMissingTableIsAnError(t *testing.T) {
	_, pool := postgrestest.Schema(t)
	handler := func(ctx context.Context, b trigger.Batch) error {
		return postgres.New(pool, pgx.Identifier{"missing"}).Apply(ctx, b, write)
	}
	if v := triggertest.Deliver(t, handler, change(1, `{"id":"a"}`)); len(v.Failed) != 1 || !strings.Contains(v.String(), `read positions of 1 documents`) {
		t.Error(v)
	}
}

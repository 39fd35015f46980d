package view

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/once"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// added is a further column in the setting COLUMNS.
const added = ", placed=/placed bigint"

// view returns a view of orders with a set of columns.
func view(t testing.TB, columns string) *View {
	t.Helper()
	d, err := Settings{Table: "orders", Columns: columns, GroupBy: []string{"country"}, Sum: []string{"total"}}.definition("")
	if err != nil {
		t.Fatal(err)
	}
	return newView(nil, d)
}

// A column is added without a stop: ALTER, deploy, seek. The rows that hosts with the former
// columns have written get the new column when they are delivered again; the totals, and the
// rows that have it, are not written. A host with the former columns undoes nothing.
func TestColumnIsAddedWithoutStop(t *testing.T) {
	pool := configure(t)
	deliver := func(handler trigger.Handler, changes ...trigger.Change) {
		t.Helper()
		if v := triggertest.Deliver(t, handler, changes...); len(v.Failed) > 0 {
			t.Fatal(v)
		}
	}
	order := func(lsn int64, id string, total int) trigger.Change {
		return changeAt(lsn, fmt.Sprintf(`{"id":%q,"customer":"x","country":"de","total":%d,"placed":%d}`, id, total, 100*lsn))
	}
	former := handlerstest.Under(t, entry(), handlers.Env{})
	a1, b, c, deleted := order(1, "a", 1), order(2, "b", 2), order(3, "c", 4), order(4, "d", 8)
	deliver(former, a1, b, c, deleted)

	t.Setenv("HALLEY_VIEW_COLUMNS", os.Getenv("HALLEY_VIEW_COLUMNS")+added)
	_, alter, _ := strings.Cut(fmt.Sprint(probed(t)(t.Context())), "or run\n")
	if _, err := pool.Exec(t.Context(), alter); err != nil {
		t.Fatalf("%s: %v", alter, err)
	}
	newer := handlerstest.Under(t, entry(), handlers.Env{})

	e := order(5, "e", 16)
	deliver(newer, e)
	gone := triggertest.Delete("d", "c")
	gone.LSN = 6
	deliver(newer, gone)
	before := writes(t, pool)
	deliver(former, e, b, gone)
	requireWrites(t, pool, before, "the host with the former columns")
	a2 := order(7, "a", 32)
	deliver(former, a2)
	requireLines(t, pool, withPlaced, "a -", "b -", "c -", "e 500")

	before = writes(t, pool)
	everything := []trigger.Change{a1, b, c, deleted, e, gone, a2} // after a seek
	deliver(newer, everything...)
	requireLines(t, pool, withPlaced, "a 700", "b 200", "c 300", "e 500")
	requireLines(t, pool, allRows, "a x de 32", "b x de 2", "c x de 4", "e x de 16")
	requireLines(t, pool, allTotals, "de 4 54")
	after := writes(t, pool)
	for _, unchanged := range []string{"e", "total"} {
		if after[unchanged] != before[unchanged] {
			t.Errorf("%s was written", unchanged)
		}
	}

	deliver(newer, everything...)
	deliver(former, everything...)
	requireWrites(t, pool, after, "a further delivery")
}

// In both modes the feed delivers the documents again, from its beginning or as a snapshot.
func TestFeedFillsAddedColumn(t *testing.T) {
	for name, source := range map[string]trigger.FeedSource{
		"latest versions": {StartFrom: trigger.FromBeginning()},
		"snapshot":        {ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: trigger.FromSnapshot()},
	} {
		t.Run(name, func(t *testing.T) {
			pool := configure(t)
			w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer", Ranges: 2, Function: trigger.Function{FeedSource: source}})
			for i, id := range []string{"a", "b", "c"} {
				w.Put(map[string]any{"id": id, "customer": id, "country": "de", "total": 1, "placed": i})
			}
			w.Host(handlerstest.Under(t, entry(), handlers.Env{})).Drain()
			w.Delete("b", "b")
			if _, err := pool.Exec(t.Context(), "ALTER TABLE orders ADD placed bigint"); err != nil {
				t.Fatal(err)
			}
			t.Setenv("HALLEY_VIEW_COLUMNS", os.Getenv("HALLEY_VIEW_COLUMNS")+added)
			newer := handlerstest.Under(t, entry(), handlers.Env{})
			w.Host(newer).Drain()
			loseLeases(t, w)
			w.Host(newer).Drain()
			want := map[string][]string{"latest versions": {"a 0", "b -", "c 2"}, "snapshot": {"a 0", "c 2"}}[name] // latest versions show no delete
			requireLines(t, pool, withPlaced, want...)
			requireLines(t, pool, allTotals, fmt.Sprintf("de %d %[1]d", len(want)))
		})
	}
}

// A later version that arrives between the read of the positions and the write is not undone.
func TestLaterVersionWinsOverAddedColumn(t *testing.T) {
	pool := configure(t)
	first := changeAt(1, `{"id":"a","customer":"x","total":1,"placed":1}`)
	former := handlerstest.Under(t, entry(), handlers.Env{})
	if v := triggertest.Deliver(t, former, first); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	if _, err := pool.Exec(t.Context(), "ALTER TABLE orders ADD placed bigint"); err != nil {
		t.Fatal(err)
	}
	d, err := Settings{Table: "orders", Columns: os.Getenv("HALLEY_VIEW_COLUMNS") + added, GroupBy: []string{"country"}, Sum: []string{"total"}}.definition("")
	if err != nil {
		t.Fatal(err)
	}
	newer := newView(pool, d)
	var sinks handlerstest.Sinks
	newer.positions.Meter = handlers.Env{Measure: sinks.Measure}.Meter("postgres")
	lookUp, looks := newer.positions.Outdated, 0
	newer.positions.Outdated = func(ctx context.Context, documents []once.Document) ([]once.Document, error) {
		found, err := lookUp(ctx, documents)
		if looks++; looks == 1 {
			if v := triggertest.Deliver(t, former, changeAt(2, `{"id":"a","customer":"y","total":2,"placed":2}`)); len(v.Failed) > 0 {
				t.Error(v)
			}
		}
		return found, err
	}
	if v := triggertest.Deliver(t, newer.Handler(), first); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	requireLines(t, pool, allRows, "a y - 2")
	requireLines(t, pool, allTotals, "- 1 2")
	if total := sinks.Of("postgres"); total.Retries != 1 || total.Rows != 0 {
		t.Errorf("measured %+v", total)
	}
	if looks != 1 {
		t.Errorf("looked %d times for rows that lack columns", looks)
	}
}

// A table of a Halley that did not have the column gets it, and its rows are filled.
func TestTableOfFormerHalleyGetsColumn(t *testing.T) {
	pool := configure(t)
	first := changeAt(1, `{"id":"a","customer":"x","total":1}`)
	if v := triggertest.Deliver(t, handlerstest.Under(t, entry(), handlers.Env{}), first); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	if _, err := pool.Exec(t.Context(), "ALTER TABLE orders DROP halley_columns"); err != nil {
		t.Fatal(err)
	}
	if v := triggertest.Deliver(t, handlerstest.Under(t, entry(), handlers.Env{}), first); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	requireLines(t, pool, "SELECT halley_columns FROM orders", "customer,country,total")
	requireLines(t, pool, allTotals, "- 1 1")
}

const withPlaced = `SELECT id || ' ' || coalesce(placed::text, '-') FROM orders ORDER BY id`

// writes returns the transactions that have written the rows last, by id, and that of the
// totals.
func writes(t *testing.T, pool *pgxpool.Pool) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, line := range lines(t, pool, "SELECT id || ' ' || xmin FROM orders UNION ALL SELECT 'total ' || xmin FROM orders_totals") {
		name, transaction, _ := strings.Cut(line, " ")
		found[name] = transaction
	}
	return found
}

func requireWrites(t *testing.T, pool *pgxpool.Pool, want map[string]string, after string) {
	t.Helper()
	if got := writes(t, pool); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s wrote: transactions %v, before %v", after, got, want)
	}
}

package view

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/postgres/postgrestest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

type order struct {
	ID       string  `json:"id"`
	Customer string  `json:"customer"`
	Country  *string `json:"country,omitempty"`
	Total    any     `json:"total,omitempty"`
}

func newOrder(random *rand.Rand, id, customer string) any {
	o := order{ID: id, Customer: customer}
	if countries := []string{"de", "fr", "it"}; random.IntN(4) > 0 {
		o.Country = &countries[random.IntN(len(countries))]
	}
	if random.IntN(4) > 0 {
		o.Total = json.Number(fmt.Sprintf("%d.%02d", random.IntN(100), random.IntN(100)))
	}
	return o
}

// configure sets the settings of a view of orders with totals by country, in a schema of
// its own.
func configure(t testing.TB) *pgxpool.Pool {
	t.Helper()
	url, pool := postgrestest.Schema(t)
	t.Setenv("HALLEY_VIEW_POSTGRES_URL", url)
	t.Setenv("HALLEY_VIEW_TABLE", "orders")
	t.Setenv("HALLEY_VIEW_COLUMNS", "customer=/customer, country=/country, total=/total numeric")
	t.Setenv("HALLEY_VIEW_GROUP_BY", "country")
	t.Setenv("HALLEY_VIEW_SUM", "total")
	t.Setenv("HALLEY_VIEW_CREATE_TABLES", "true")
	return pool
}

func entry() handlers.Entry { return handlers.New("view", "", Open) }

// lines returns the rows of a query as texts, in its order. A table that does not exist
// yet has none.
func lines(t testing.TB, pool *pgxpool.Pool, query string) []string {
	t.Helper()
	rows, err := pool.Query(context.Background(), query)
	if err != nil {
		if strings.Contains(err.Error(), undefinedTable) {
			return nil
		}
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return fmt.Sprint(values...), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

const (
	allRows   = `SELECT id || ' ' || customer || ' ' || coalesce(country, '-') || ' ' || coalesce(trim_scale(total)::text, '-') FROM orders ORDER BY id`
	allTotals = `SELECT coalesce(country, '-') || ' ' || documents || ' ' || trim_scale(sum_total)::text FROM orders_totals ORDER BY key`
	counted   = `SELECT coalesce(country, '-') || ' ' || count(*) || ' ' || trim_scale(coalesce(sum(total), 0))::text FROM orders GROUP BY country ORDER BY jsonb_build_array(country)::text`
)

// wire lets the handler connect through a wire of the world, which is cut.
func wire(t testing.TB, w *triggertest.World) {
	t.Helper()
	parsed, err := url.Parse(os.Getenv("HALLEY_VIEW_POSTGRES_URL"))
	if err != nil {
		t.Fatal(err)
	}
	parsed.Host = w.Wire(parsed.Host)
	t.Setenv("HALLEY_VIEW_POSTGRES_URL", parsed.String())
}

// state is the content of a view. Totals must be those of the rows.
func state(t testing.TB, pool *pgxpool.Pool) map[string][]string {
	t.Helper()
	totals, want := lines(t, pool, allTotals), lines(t, pool, counted)
	if fmt.Sprint(totals) != fmt.Sprint(want) {
		t.Errorf("totals are %s, those of the rows %s", totals, want)
	}
	return map[string][]string{"rows": lines(t, pool, allRows), "totals": totals}
}

// The view is the same whatever happens on the way, and it is right.
func TestViewConverges(t *testing.T) {
	for name, function := range map[string]trigger.Function{
		"soft deletes": {SoftDeleteProperty: "deleted"},
		"all versions": {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		"lanes":        {SoftDeleteProperty: "deleted", BatchPolicy: trigger.BatchPolicy{Lanes: 3}},
		"blocked keys": {SoftDeleteProperty: "deleted", GiveUpPolicy: trigger.GiveUpPolicy{BlockKeys: true}},
	} {
		t.Run(name, func(t *testing.T) {
			triggertest.Converges(t, triggertest.Scenario{
				PartitionKey: "/customer",
				Seeds:        10,
				Function:     function,
				Document:     newOrder,
				Open: func(t testing.TB, w *triggertest.World) triggertest.Sink {
					pool := configure(t)
					wire(t, w)
					return triggertest.Sink{
						Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry(), handlers.Env{}) },
						State: func() any { return state(t, pool) },
					}
				},
				Want: func(documents []json.RawMessage) any { return wanted(t, documents) },
			})
		})
	}
}

// Hosts with another set of columns, as in a rolling deployment, write the same view.
func TestHostsWithOtherColumnsConverge(t *testing.T) {
	triggertest.Converges(t, triggertest.Scenario{
		PartitionKey: "/customer",
		Seeds:        10,
		Function:     trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		Document:     newOrder,
		Open: func(t testing.TB, w *triggertest.World) triggertest.Sink {
			pool := configure(t)
			wire(t, w)
			former, hosts := os.Getenv("HALLEY_VIEW_COLUMNS"), 0
			if _, err := pool.Exec(t.Context(), view(t, former+added).DDL()); err != nil {
				t.Fatal(err)
			}
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) {
					hosts++
					t.Setenv("HALLEY_VIEW_COLUMNS", former+[]string{"", added}[hosts%2])
					return handlerstest.Start(t, entry(), handlers.Env{})
				},
				State: func() any { return state(t, pool) },
			}
		},
		Want: func(documents []json.RawMessage) any { return wanted(t, documents) },
	})
}

// wanted is the content that a view of documents must have.
func wanted(t testing.TB, documents []json.RawMessage) map[string][]string {
	t.Helper()
	type sums struct{ documents, cents int64 }
	var rows, groups []string
	totals := map[string]sums{}
	for _, text := range documents {
		var o struct {
			ID, Customer string
			Country      *string
			Total        *float64
		}
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		country, total := "-", "-"
		if o.Country != nil {
			country = *o.Country
		}
		group := totals[country]
		group.documents++
		if o.Total != nil {
			total = strconv.FormatFloat(*o.Total, 'f', -1, 64)
			group.cents += int64(math.Round(100 * *o.Total))
		}
		totals[country] = group
		rows = append(rows, fmt.Sprintf("%s %s %s %s", o.ID, o.Customer, country, total))
	}
	slices.Sort(rows)
	for _, country := range []string{"de", "fr", "it", "-"} { // as their keys are sorted: "-" is null
		if group, found := totals[country]; found {
			groups = append(groups, fmt.Sprintf("%s %d %s", country, group.documents, strconv.FormatFloat(float64(group.cents)/100, 'f', -1, 64)))
		}
	}
	return map[string][]string{"rows": rows, "totals": groups}
}

func changeAt(lsn int64, text string) trigger.Change {
	c := triggertest.Upsert(text, "c")
	c.LSN = lsn
	return c
}

func requireLines(t *testing.T, pool *pgxpool.Pool, query string, want ...string) {
	t.Helper()
	if got := lines(t, pool, query); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nreturns %q\nwant    %q", query, got, want)
	}
}

func TestRowsAndTotalsFollowDocuments(t *testing.T) {
	pool := configure(t)
	handler := handlerstest.Under(t, entry(), handlers.Env{})
	for i, batch := range [][]trigger.Change{
		{changeAt(1, `{"id":"a","customer":"x","country":"de","total":0.1}`), changeAt(2, `{"id":"b","customer":"x","country":"de","total":0.2}`)},
		{changeAt(3, `{"id":"a","customer":"x","country":"fr","total":1}`), changeAt(4, `{"id":"c","customer":"y","total":1e2}`)},
		{changeAt(5, `{"id":"c","customer":"y","country":null,"total":7}`), changeAt(6, `{"id":"c","customer":"z","country":"de"}`)},
	} {
		if v := triggertest.Deliver(t, handler, batch...); len(v.Failed) > 0 {
			t.Fatalf("batch %d: %s", i, v)
		}
	}
	requireLines(t, pool, allRows, "a x fr 1", "b x de 0.2", "c z de -")
	requireLines(t, pool, allTotals, "de 2 0.2", "fr 1 1")
	for i, c := range []trigger.Change{
		triggertest.SoftDelete(`{"id":"a","customer":"x","country":"it","total":5,"deleted":true}`, "c"), triggertest.Delete("b", "c"), triggertest.Expire("c", "c"),
	} {
		c.LSN = int64(7 + i)
		if v := triggertest.Deliver(t, handler, c); len(v.Failed) > 0 {
			t.Fatal(v)
		}
	}
	requireLines(t, pool, allRows)
	requireLines(t, pool, allTotals)
	late := changeAt(6, `{"id":"c","customer":"z","country":"de"}`) // after the delete
	if v := triggertest.Deliver(t, handler, late); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	requireLines(t, pool, allRows)
}

// Totals without groups are one row; without sums they count.
func TestTotalsOfAllDocuments(t *testing.T) {
	for name, test := range map[string]struct{ group, sum, query, want string }{
		"sum alone":   {"", "total", `SELECT key || ' ' || documents || ' ' || sum_total FROM orders_totals`, "[] 3 6"},
		"count alone": {"customer,country", "", `SELECT key || ' ' || documents FROM orders_totals ORDER BY key`, `["x", "de"] 2|["x", null] 1`},
	} {
		t.Run(name, func(t *testing.T) {
			pool := configure(t)
			t.Setenv("HALLEY_VIEW_GROUP_BY", test.group)
			t.Setenv("HALLEY_VIEW_SUM", test.sum)
			handler := handlerstest.Under(t, entry(), handlers.Env{})
			v := triggertest.Deliver(t, handler, changeAt(1, `{"id":"a","customer":"x","country":"de","total":1}`),
				changeAt(2, `{"id":"b","customer":"x","country":"de","total":2}`), changeAt(3, `{"id":"c","customer":"x","total":3}`))
			if len(v.Failed) > 0 {
				t.Fatal(v)
			}
			requireLines(t, pool, test.query, strings.Split(test.want, "|")...)
		})
	}
}

// A document whose values do not fit is given up; the others of its batch are written, and
// a later version of it, too.
func TestDocumentThatDoesNotFitIsGivenUp(t *testing.T) {
	pool := configure(t)
	handler := handlerstest.Under(t, entry(), handlers.Env{})
	v := triggertest.Deliver(t, handler, changeAt(1, `{"id":"a","customer":"x","total":"much"}`), changeAt(2, `{"id":"b","customer":"x","total":2}`))
	const want = `1 handled, 1 given up ["a"]: 1 changes failed: document "a": column "total": the value at /total is not a number`
	if v.String() != want {
		t.Errorf("verdict is %s, want %s", v, want)
	}
	requireLines(t, pool, allRows, "b x - 2")
	if v := triggertest.Deliver(t, handler, changeAt(3, `{"id":"a","customer":"x","total":3}`)); len(v.Failed) > 0 {
		t.Error(v)
	}
	requireLines(t, pool, allRows, "a x - 3", "b x - 2")
}

// A constraint that the table has in addition refuses a document as well: the runtime
// halves the batch until it is alone.
func TestDocumentThatTheDatabaseRefusesIsGivenUp(t *testing.T) {
	pool := configure(t)
	handler := handlerstest.Under(t, entry(), handlers.Env{})
	if v := triggertest.Deliver(t, handler, changeAt(1, `{"id":"a","customer":"x","total":1}`)); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	if _, err := pool.Exec(t.Context(), "ALTER TABLE orders ADD CHECK (total < 10)"); err != nil {
		t.Fatal(err)
	}
	large, small := changeAt(2, `{"id":"a","customer":"x","total":10}`), changeAt(3, `{"id":"b","customer":"x","total":3}`)
	if v := triggertest.Deliver(t, handler, large, small); len(v.Failed) != 2 || v.GivenUp {
		t.Errorf("verdict on both is %s", v)
	}
	if v := triggertest.Deliver(t, handler, large); !v.GivenUp {
		t.Errorf("verdict on the large one is %s", v)
	}
	if v := triggertest.Deliver(t, handler, small); len(v.Failed) > 0 {
		t.Errorf("verdict on the small one is %s", v)
	}
	requireLines(t, pool, allRows, "a x - 1", "b x - 3")
}

func TestMissingTablesAreExplained(t *testing.T) {
	pool := configure(t)
	t.Setenv("HALLEY_VIEW_CREATE_TABLES", "false")
	var probes []handlers.Probe
	handler := handlerstest.Under(t, entry(), handlers.Env{Probe: func(p handlers.Probe) { probes = append(probes, p) }})
	v := triggertest.Deliver(t, handler, changeAt(1, `{"id":"a"}`))
	_, ddl, _ := strings.Cut(fmt.Sprint(v.Err), "set HALLEY_VIEW_CREATE_TABLES=true, or run\n")
	if v.GivenUp || !strings.Contains(ddl, `CREATE TABLE IF NOT EXISTS "orders_totals"`) {
		t.Fatalf("verdict is %s", v)
	}
	if err := probes[0].Try(t.Context()); err == nil || !strings.Contains(err.Error(), ddl) {
		t.Errorf("the probe says %v", err)
	}
	if _, err := pool.Exec(t.Context(), ddl); err != nil {
		t.Fatalf("the statements of the error: %v", err)
	}
	if v := triggertest.Deliver(t, handler, changeAt(1, `{"id":"a","customer":"x"}`)); len(v.Failed) > 0 {
		t.Error(v)
	}
	requireLines(t, pool, allRows, "a x - -")
	if err := probes[0].Try(t.Context()); err != nil {
		t.Errorf("the probe says %v", err)
	}
}

// Hosts that start at the same time create the tables once.
func TestHostsCreateTablesTogether(t *testing.T) {
	pool := configure(t)
	verdicts := make(chan trigger.Verdict)
	const hosts = 6
	for i := range hosts {
		handler := handlerstest.Under(t, entry(), handlers.Env{})
		go func() {
			verdicts <- triggertest.Deliver(t, handler, changeAt(1, fmt.Sprintf(`{"id":"%d","customer":"x","country":"de"}`, i)))
		}()
	}
	for range hosts {
		if v := <-verdicts; len(v.Failed) > 0 {
			t.Error(v)
		}
	}
	requireLines(t, pool, allTotals, "de 6 0")
}

// If the leases are lost, the feed begins at its beginning and epochs at 1. The view
// continues at the positions in the database: what took effect is read and not written.
func TestViewSurvivesLostLeases(t *testing.T) {
	pool := configure(t)
	handler := handlerstest.Under(t, entry(), handlers.Env{})
	w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer", Ranges: 2})
	put := func(id, customer string, total int) { w.Put(order{ID: id, Customer: customer, Total: total}) }
	put("a", "x", 1)
	put("b", "y", 2)
	w.Host(handler).Drain()
	w.Host(handler).Drain() // another epoch
	put("a", "x", 3)
	w.Host(handler).Drain()

	before := lines(t, pool, "SELECT document::text || xmin FROM orders ORDER BY document")
	loseLeases(t, w)
	if summary := w.Host(handler).Drain(); summary.Changes != 2 {
		t.Fatalf("%d changes after the leases were lost, want both documents", summary.Changes)
	}
	if after := lines(t, pool, "SELECT document::text || xmin FROM orders ORDER BY document"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("rows were written again: %s, before %s", after, before)
	}
	put("b", "y", 5)
	put("c", "x", 7)
	w.Host(handler).Drain()
	requireLines(t, pool, allRows, "a x - 3", "b y - 5", "c x - 7")
	requireLines(t, pool, allTotals, "- 3 15")
}

// loseLeases deletes all lease documents.
func loseLeases(t *testing.T, w *triggertest.World) {
	t.Helper()
	leases := w.Client().Container(triggertest.Database, "leases")
	deleted := 0
	for page, err := range leases.Query(t.Context(), cosmos.Query{Text: "SELECT VALUE c.id FROM c"}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			var id string
			if err := json.Unmarshal(item, &id); err != nil {
				t.Fatal(err)
			}
			if _, err := leases.Delete(t.Context(), id, cosmos.NewPartitionKey(id), ""); err != nil {
				t.Fatal(err)
			}
			deleted++
		}
	}
	if deleted < 3 {
		t.Fatalf("%d lease documents, want two and a marker", deleted)
	}
}

// Pool, timeouts and files of TLS are parameters of the URL.
func TestParametersOfConnections(t *testing.T) {
	_, files := handlerstest.Certificate(t)
	url := "postgres://halley:hunter2@db/shop?pool_max_conns=7&connect_timeout=9&statement_timeout=5000&sslmode=verify-full&sslrootcert="
	config, err := poolConfig(handlers.Secret(url + files.CA + "&sslcert=" + files.Cert + "&sslkey=" + files.Key))
	if err != nil {
		t.Fatal(err)
	}
	connection := config.ConnConfig
	if config.MaxConns != 7 || connection.ConnectTimeout != 9*time.Second || connection.RuntimeParams["statement_timeout"] != "5000" {
		t.Errorf("%d connections, %v, %v", config.MaxConns, connection.ConnectTimeout, connection.RuntimeParams)
	}
	if connection.TLSConfig.RootCAs == nil || len(connection.TLSConfig.Certificates) != 1 {
		t.Error("the files are not used")
	}
	if _, err := poolConfig(handlers.Secret(url + "/none/ca.pem")); err == nil || !strings.Contains(err.Error(), "files for sslrootcert") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a missing file: %v", err)
	}
}

package view

import (
	"context"
	"strings"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger/triggertest"
)

// probed opens a handler and returns its probe.
func probed(t *testing.T) (try func(context.Context) error) {
	t.Helper()
	handlerstest.Under(t, entry(), handlers.Env{Probe: func(p handlers.Probe) { try = p.Try }})
	return try
}

// The command check compares columns, types and keys of all tables with the settings, and
// prints the statements that are missing. When these were run, check and handler are content.
func TestTablesThatDoNotFitAreExplained(t *testing.T) {
	for name, test := range map[string]struct{ alter, columns, want string }{
		"another type":        {alter: `ALTER TABLE orders ALTER total TYPE text`, want: `ALTER TABLE "orders" ALTER COLUMN "total" TYPE numeric USING "total"::text::numeric;`},
		"rounded numbers":     {alter: `ALTER TABLE orders ALTER total TYPE numeric(10,1)`, want: `ALTER COLUMN "total" TYPE numeric USING`},
		"a column is missing": {alter: `ALTER TABLE orders DROP customer`, want: `ALTER TABLE "orders" ADD COLUMN "customer" text;`},
		"a new name in COLUMNS": {
			columns: "customer=/customer, country=/country, total=/total numeric, placed=/_ts timestamptz",
			want:    `ALTER TABLE "orders" ADD COLUMN "placed" timestamp with time zone;`,
		},
		"another shape of positions": {
			alter: `ALTER TABLE orders_positions DROP revision, ALTER epoch TYPE integer`,
			want:  `ALTER TABLE "orders_positions" ALTER COLUMN "epoch" TYPE bigint USING "epoch"::text::bigint;` + "\n" + `ALTER TABLE "orders_positions" ADD COLUMN "revision" bigint NOT NULL;`,
		},
		"no key":                  {alter: `ALTER TABLE orders DROP CONSTRAINT orders_pkey`, want: `ALTER TABLE "orders" ADD PRIMARY KEY ("document");`},
		"another key":             {alter: `ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (id)`, want: `ALTER TABLE "orders" ADD UNIQUE ("document");`},
		"a column without source": {alter: `ALTER TABLE orders ADD note text NOT NULL`, want: `ALTER TABLE "orders" ALTER COLUMN "note" DROP NOT NULL;`},
		"totals of other sums":    {alter: `ALTER TABLE orders_totals DROP sum_total`, want: `ALTER TABLE "orders_totals" ADD COLUMN "sum_total" numeric NOT NULL;` + "\nafter that, fill the totals again: delete the rows"},
		"additions of a user":     {alter: `ALTER TABLE orders ADD note text, ADD seen timestamptz NOT NULL DEFAULT now(), ADD CHECK (total < 1000); CREATE INDEX ON orders (country)`},
	} {
		t.Run(name, func(t *testing.T) {
			pool := configure(t)
			created := handlerstest.Under(t, entry(), handlers.Env{})
			if v := triggertest.Deliver(t, created, changeAt(1, `{"id":"a","customer":"x"}`)); len(v.Failed) > 0 {
				t.Fatal(v)
			}
			for _, statement := range []string{"DELETE FROM orders", "DELETE FROM orders_totals", "DELETE FROM orders_positions", test.alter} {
				if _, err := pool.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			if test.columns != "" {
				t.Setenv("HALLEY_VIEW_COLUMNS", test.columns)
			}
			err := probed(t)(t.Context())
			if test.want == "" {
				if err != nil {
					t.Errorf("the probe says %v", err)
				}
			} else {
				if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "CREATE_TABLES") {
					t.Fatalf("the probe says %v, want %s", err, test.want)
				}
				_, statements, _ := strings.Cut(err.Error(), "or run\n")
				statements, _, _ = strings.Cut(statements, "\nafter that")
				if _, err := pool.Exec(t.Context(), statements); err != nil {
					t.Fatalf("the statements of the error: %v\n%s", err, statements)
				}
				if err := probed(t)(t.Context()); err != nil {
					t.Errorf("the probe says %v, after the statements", err)
				}
			}
			if v := triggertest.Deliver(t, handlerstest.Under(t, entry(), handlers.Env{}), changeAt(2, `{"id":"b","customer":"x","country":"de","total":7.25}`)); len(v.Failed) > 0 {
				t.Error(v)
			}
			requireLines(t, pool, allRows, "b x de 7.25")
			requireLines(t, pool, allTotals, "de 1 7.25")
		})
	}
}

// A host that runs into tables that do not fit prints the same statements, and does not
// advise a setting that is set.
func TestRunExplainsTablesThatDoNotFit(t *testing.T) {
	pool := configure(t)
	if v := triggertest.Deliver(t, handlerstest.Under(t, entry(), handlers.Env{}), changeAt(1, `{"id":"a","customer":"x"}`)); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	t.Setenv("HALLEY_VIEW_COLUMNS", "customer=/customer, country=/country, total=/total numeric, placed=/_ts timestamptz")
	handler := handlerstest.Under(t, entry(), handlers.Env{})
	v := triggertest.Deliver(t, handler, changeAt(2, `{"id":"b","customer":"x"}`))
	if v.Err == nil || v.GivenUp || !strings.Contains(v.Err.Error(), `ALTER TABLE "orders" ADD COLUMN "placed" timestamp with time zone;`) || strings.Contains(v.Err.Error(), "CREATE_TABLES") {
		t.Errorf("verdict is %v", v)
	}
	if _, err := pool.Exec(t.Context(), "ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD placed timestamptz"); err != nil {
		t.Fatal(err)
	}
	if v := triggertest.Deliver(t, handler, changeAt(2, `{"id":"b","customer":"x"}`)); v.Err == nil || v.GivenUp || !strings.Contains(v.Err.Error(), `ADD PRIMARY KEY ("document")`) {
		t.Errorf("verdict is %v", v)
	}
	if _, err := pool.Exec(t.Context(), "DROP TABLE orders"); err != nil {
		t.Fatal(err)
	}
	if v := triggertest.Deliver(t, handler, changeAt(2, `{"id":"b","customer":"x"}`)); v.Err == nil || v.GivenUp || !strings.Contains(v.Err.Error(), "start the host again, which creates it") {
		t.Errorf("verdict is %v", v)
	}
}

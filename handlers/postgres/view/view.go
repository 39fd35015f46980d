// Package view keeps a table in PostgreSQL in step with a container: one row for each
// document, with columns from its properties, and, if wanted, totals of these rows: counts
// and sums by group.
//
// The one rule: the position of a document is written in the same transaction as its row
// and as the difference that it makes to the totals, so each version takes effect exactly
// once, and the totals are exact; see package [halley/handlers/once]. If a checkpoint is
// lost, the view continues at the positions in the database: changes that it has seen cost
// two reads per batch.
//
// Deletes remove the row and subtract its part of the totals: a soft delete
// (SoftDeleteProperty), and in all-versions mode every delete and every expiry. In
// latest-version mode without soft deletes, rows of deleted documents stay. If the function starts
// from a snapshot, the end of a later snapshot removes the rows of documents that were deleted
// while no host could see it, see [View.RemoveUnshown].
//
// The versions of a document take effect in their order; if a batch has several, only the
// last is written. Between documents there is no order, but each transaction is a whole
// batch, so readers never see totals that differ from the rows.
//
// Errors: if a value of a document does not fit its column, that document is dead-lettered
// with the reason, and its former row stays. If PostgreSQL cannot be reached, or aborts a
// transaction (serialization failure, deadlock), the batch is retried.
//
// Two tables, or three with totals, belong to a view: its rows, their positions, and the
// totals. See [View.DDL].
package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers"
	"halley/handlers/postgres"
	"halley/trigger"
)

// Settings of the handler, read with the prefix HALLEY_VIEW_.
type Settings struct {
	PostgresURL  handlers.Secret `split_words:"true" desc:"database that holds the view, postgres://user:password@host:5432/database?sslmode=verify-full; required"`
	Table        string          `split_words:"true" default:"halley_view" desc:"table of the rows, with or without a schema; the tables of positions and totals have its name and _positions and _totals"`
	Columns      string          `split_words:"true" desc:"columns and the properties they show, such as customer=/customer/name, total=/total numeric; types are text, numeric, bigint, boolean, timestamptz and jsonb; required"`
	GroupBy      []string        `split_words:"true" desc:"columns to group totals by, of type text, bigint or boolean; without it and SUM there are no totals, without it alone one row of totals"`
	Sum          []string        `split_words:"true" desc:"columns to add up in the totals, of type numeric or bigint"`
	CreateTables handlers.Toggle `split_words:"true" default:"false" desc:"create the tables if they do not exist"`
}

// Open returns the handler. It does not connect, so PostgreSQL may start later.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	d, err := s.definition(env.Prefix)
	if err != nil {
		return nil, nil, err
	}
	config, err := poolConfig(s.PostgresURL)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %sPOSTGRES_URL %w", env.Prefix, err)
	}
	meter := env.Meter("postgres")
	postgres.Measure(config, meter)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %sPOSTGRES_URL: %w", env.Prefix, err)
	}
	d.FromSnapshot = env.FromSnapshot
	view := newView(pool, d)
	view.positions.Meter = meter
	view.hint = fmt.Sprintf("set %sCREATE_TABLES=true, or run", env.Prefix)
	env.OfferProbe(view.probe(env.Prefix, config.ConnConfig.Host))
	if d.FromSnapshot {
		env.FollowRanges(handlers.RangeCallbacks{SnapshotRead: view.RemoveUnshown})
	}
	return view.Handler(), func() error { pool.Close(); return nil }, nil
}

// definition reads the settings of the view itself. Its errors name the setting.
func (s Settings) definition(prefix string) (d Definition, err error) {
	if d.Table, err = parseTable(s.Table); err != nil {
		return d, fmt.Errorf("setting %sTABLE: %w", prefix, err)
	}
	if d.Columns, err = ParseColumns(s.Columns); err != nil {
		return d, fmt.Errorf("setting %sCOLUMNS: %w", prefix, err)
	}
	d.GroupBy, d.Sum, d.CreateTables = trimmed(s.GroupBy), trimmed(s.Sum), bool(s.CreateTables)
	if err := d.check(); err != nil {
		return d, fmt.Errorf("settings %sCOLUMNS, %sGROUP_BY and %sSUM: %w", prefix, prefix, prefix, err)
	}
	return d, nil
}

func trimmed(names []string) (kept []string) {
	for _, name := range names {
		if name = strings.TrimSpace(name); name != "" {
			kept = append(kept, name)
		}
	}
	return kept
}

// poolConfig parses the URL. Its errors hold no part of it: a password that is not
// percent-encoded may be anywhere, also in the name of the database, which errors of
// connections show.
func poolConfig(url handlers.Secret) (*pgxpool.Config, error) {
	if url == "" {
		return nil, errors.New("is empty; set it to a URL such as postgres://user:password@host:5432/database?sslmode=verify-full")
	}
	config, err := pgxpool.ParseConfig(url.Reveal())
	if err != nil || !strings.HasPrefix(url.Reveal(), "postgres") || strings.Contains(config.ConnConfig.Database, "@") {
		return nil, errors.New("is not a URL of PostgreSQL; write postgres://user:password@host:5432/database?sslmode=verify-full, percent-encode the password, and name files for sslrootcert, sslcert and sslkey that can be read")
	}
	return config, nil
}

// probeTime bounds the probe.
const probeTime = 3 * time.Second

func (v *View) probe(prefix, host string) handlers.Probe {
	return handlers.Probe{What: "PostgreSQL at " + host, Try: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		if err := v.pool.Ping(ctx); err != nil {
			return fmt.Errorf("%w: start it, or correct %sPOSTGRES_URL", err, prefix)
		}
		return v.misfit(ctx)
	}}
}

// Definition describes a view.
type Definition struct {
	Table        pgx.Identifier // of the rows, with or without a schema
	Columns      []Column
	GroupBy      []string // columns to group totals by
	Sum          []string // columns to add up in the totals
	CreateTables bool     // if they do not exist, at the first batch
	// FromSnapshot is for a function that starts from a snapshot: rows say in which generation of
	// snapshots they were written, so that [View.RemoveUnshown] can remove those that a later one
	// has not shown.
	FromSnapshot bool
}

// New returns a view in a database. The caller closes the pool when the view is no longer
// used. The error names the mistake in the definition.
func New(pool *pgxpool.Pool, d Definition) (*View, error) {
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("definition of the view: %w", err)
	}
	return newView(pool, d), nil
}

func parseTable(name string) (pgx.Identifier, error) {
	parts := strings.Split(name, ".")
	for _, part := range parts {
		if !identifier.MatchString(part) || len(parts) > 2 || len(part) > maxTable {
			return nil, fmt.Errorf("%q is not a table: write table or schema.table, of up to %d letters, digits and underscores each", name, maxTable)
		}
	}
	return parts, nil
}

// maxTable leaves room for _positions in the 63 bytes of a name.
const maxTable = 50

func (d Definition) check() error {
	if _, err := parseTable(strings.Join(d.Table, ".")); err != nil {
		return err
	}
	if len(d.Columns) == 0 {
		return errors.New("there is no column: write name=/path or name=/path type")
	}
	known := map[string]Type{}
	for _, c := range d.Columns {
		if err := c.check(); err != nil {
			return err
		}
		if _, twice := known[c.Name]; twice {
			return fmt.Errorf("there are two columns %q", c.Name)
		}
		known[c.Name] = c.Type
	}
	if err := checkUse("group by", d.GroupBy, known, Text, BigInt, Boolean); err != nil {
		return err
	}
	for _, name := range d.Sum {
		if slices.Contains(d.GroupBy, "sum_"+name) {
			return fmt.Errorf("the column %q would be in the totals twice: use another name", "sum_"+name)
		}
	}
	return checkUse("sum", d.Sum, known, Numeric, BigInt)
}

// checkUse checks the columns that totals use.
func checkUse(use string, names []string, known map[string]Type, allowed ...Type) error {
	used := map[string]bool{}
	for _, name := range names {
		if !slices.Contains(allowed, known[name]) || used[name] {
			return fmt.Errorf("cannot %s %q: name columns of the view once, of the types %q", use, name, allowed)
		}
		used[name] = true
	}
	return nil
}

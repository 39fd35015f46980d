package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers/postgres"
)

// ownColumns are columns of the tables besides those of the definition.
var ownColumns = []string{"document", "id", "partition_key", "effective_key", "generation", "key", "documents", writtenColumn}

// View is a view in a database. It is safe for concurrent use.
type View struct {
	Definition
	pool      *pgxpool.Pool
	positions *postgres.Store
	hint      string // begins the advice if tables are missing
	ready     chan struct{}

	upsert, remove, addTotals, removeTotals string // statements
}

// newView returns the view of a definition that is checked.
func newView(pool *pgxpool.Pool, d Definition) *View {
	v := &View{Definition: d, pool: pool, hint: "set CreateTables, or run", ready: make(chan struct{}, 1)}
	v.positions = postgres.New(pool, v.table("_positions"))
	v.positions.Outdated = v.outdated
	v.upsert, v.remove = v.upsertStatement(), "DELETE FROM "+v.Table.Sanitize()+" WHERE document = ANY($1)"
	if v.hasTotals() {
		v.addTotals = v.totalsStatement()
		v.removeTotals = "DELETE FROM " + v.table("_totals").Sanitize() + " WHERE key = ANY($1)"
	}
	if !d.CreateTables {
		close(v.ready)
	} else {
		v.ready <- struct{}{}
	}
	return v
}

func (v *View) hasTotals() bool { return len(v.GroupBy)+len(v.Sum) > 0 }

// table is the name of a table that belongs to the view.
func (v *View) table(suffix string) pgx.Identifier {
	name := slices.Clone(v.Table)
	name[len(name)-1] += suffix
	return name
}

// tables are the shapes of the tables that belong to the view.
func (v *View) tables() []postgres.Table {
	rows := postgres.Table{Name: v.Table, Columns: []postgres.Column{
		{Name: "document", Type: "uuid", NotNull: true},
		{Name: "id", Type: "text", NotNull: true},
		{Name: "partition_key", Type: "text", NotNull: true},
	}}
	if v.FromSnapshot {
		rows.Columns = append(rows.Columns,
			postgres.Column{Name: "effective_key", Type: "text", Comment: "place of the partition key in the key space"},
			postgres.Column{Name: "generation", Type: "bigint", Comment: "of the newest snapshot when the row was written or shown"})
	}
	for _, c := range v.Columns {
		rows.Columns = append(rows.Columns, postgres.Column{Name: c.Name, Type: c.Type.inCatalog()})
	}
	rows.Columns = append(rows.Columns, postgres.Column{Name: writtenColumn, Type: "text"})
	tables := []postgres.Table{v.positions.Table(), rows}
	if v.hasTotals() {
		totals := postgres.Table{Name: v.table("_totals"), Columns: []postgres.Column{{Name: "key", Type: "text", NotNull: true}}}
		for _, name := range v.GroupBy {
			totals.Columns = append(totals.Columns, postgres.Column{Name: name, Type: v.column(name).Type.inCatalog()})
		}
		totals.Columns = append(totals.Columns, postgres.Column{Name: "documents", Type: "bigint", NotNull: true})
		for _, name := range v.Sum {
			totals.Columns = append(totals.Columns, postgres.Column{Name: "sum_" + name, Type: "numeric", NotNull: true})
		}
		tables = append(tables, totals)
	}
	return tables
}

// DDL are the statements that create the tables if they do not exist.
func (v *View) DDL() string {
	var statements []string
	for _, table := range v.tables() {
		statements = append(statements, table.DDL()+";")
	}
	if v.FromSnapshot {
		statements = append(statements, v.indexDDL())
	}
	return strings.Join(statements, "\n")
}

// indexDDL is the statement that creates the index by which [View.RemoveUnshown] finds the rows of
// a range, if it does not exist.
func (v *View) indexDDL() string {
	name := v.Table[len(v.Table)-1] + "_places" // in the schema of the table
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s);", quote(name), v.Table.Sanitize(), place)
}

// place is the expression whose order is that of the key space.
const place = `effective_key COLLATE "C"`

// misfit returns an error with the statements to run if tables are missing that the view
// may not create, or have other columns, types or keys than it needs.
func (v *View) misfit(ctx context.Context) error {
	var missing, alterations []string
	totalsDiffer := false
	hasIndex, err := v.hasIndex(ctx)
	if err != nil {
		return err
	}
	for _, table := range v.tables() {
		statements, exists, err := table.Alterations(ctx, v.pool)
		switch {
		case err != nil:
			return err
		case !exists && !v.CreateTables:
			missing = append(missing, table.DDL()+";")
		case len(statements) > 0:
			alterations = append(alterations, statements...)
			totalsDiffer = totalsDiffer || slices.Equal(table.Name, v.table("_totals"))
		}
	}
	if len(missing) > 0 && v.FromSnapshot {
		missing = append(missing, v.indexDDL())
	} else if !hasIndex && !v.CreateTables {
		alterations = append(alterations, v.indexDDL())
	}
	var errs []error
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("tables of the view are missing: %s\n%s", v.hint, strings.Join(missing, "\n")))
	}
	if len(alterations) > 0 {
		errs = append(errs, fmt.Errorf("tables of the view do not fit COLUMNS, GROUP_BY and SUM: correct these, or run\n%s", strings.Join(alterations, "\n")))
	}
	if totalsDiffer {
		errs = append(errs, errors.New("after that, fill the totals again: delete the rows of all tables of the view, and run halley leases seek --to beginning"))
	}
	return errors.Join(errs...)
}

// hasIndex reports whether the index of indexDDL exists, or is not needed.
func (v *View) hasIndex(ctx context.Context) (exists bool, err error) {
	if !v.FromSnapshot {
		return true, nil
	}
	name := slices.Clone(v.Table)
	name[len(name)-1] += "_places"
	if err := v.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name.Sanitize()).Scan(&exists); err != nil {
		return false, fmt.Errorf("look for the index %s: %w", name.Sanitize(), err)
	}
	return exists, nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func (v *View) column(name string) Column {
	return v.Columns[slices.IndexFunc(v.Columns, func(c Column) bool { return c.Name == name })]
}

// fixedColumns are the first columns of the rows, with their types.
func (v *View) fixedColumns() []postgres.Column {
	columns := []postgres.Column{{Name: "document", Type: "uuid"}, {Name: "id", Type: "text"}, {Name: "partition_key", Type: "text"}}
	if v.FromSnapshot {
		columns = append(columns, postgres.Column{Name: "effective_key", Type: "text"}, postgres.Column{Name: "generation", Type: "bigint"})
	}
	return columns
}

// newRows is the table expression of the rows that a batch writes. Its parameters are an
// array of values for each fixed column, and one of each column's texts.
func (v *View) newRows() string {
	var arrays, names, values []string
	for i, c := range v.fixedColumns() {
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, c.Type))
		names, values = append(names, c.Name), append(values, c.Name)
	}
	for _, c := range v.Columns {
		arrays = append(arrays, fmt.Sprintf("$%d::text[]", len(arrays)+1))
		names = append(names, quote(c.Name))
		values = append(values, fmt.Sprintf("%s::%s AS %[1]s", quote(c.Name), c.Type))
	}
	return "SELECT " + strings.Join(values, ", ") + " FROM unnest(" + strings.Join(arrays, ", ") + ") AS n (" + strings.Join(names, ", ") + ")"
}

// upsertStatement keeps the place of a row, and the highest of its generations: a dead letter that
// is replayed has no place, and a function that has lost its leases may have no generation.
func (v *View) upsertStatement() string {
	var names, updates []string
	for _, c := range v.fixedColumns() {
		names = append(names, c.Name)
	}
	if v.FromSnapshot {
		updates = append(updates, "effective_key = coalesce(excluded.effective_key, t.effective_key)", "generation = greatest(excluded.generation, t.generation)")
	}
	for _, c := range v.Columns {
		names = append(names, quote(c.Name))
		updates = append(updates, quote(c.Name)+" = excluded."+quote(c.Name))
	}
	names, updates = append(names, writtenColumn), append(updates, writtenColumn+" = excluded."+writtenColumn)
	return "INSERT INTO " + v.Table.Sanitize() + " AS t (" + strings.Join(names, ", ") + ")\n" +
		"SELECT r.*, '" + strings.Join(v.columnNames(), ",") + "' FROM (" + v.newRows() + ") AS r" +
		"\nON CONFLICT (document) DO UPDATE SET " + strings.Join(updates, ", ")
}

// totalsStatement adds to each group the difference between the new rows and the stored
// rows of the same documents. It writes the groups in the order of their keys, and returns
// the keys of those that are empty then. Its last parameter is an array of all documents
// that the batch writes or deletes.
func (v *View) totalsStatement() string {
	var groups, sums, added, subtracted, differences, updates []string
	for _, name := range v.GroupBy {
		groups = append(groups, quote(name))
	}
	for _, name := range v.Sum {
		sum := quote("sum_" + name)
		sums = append(sums, sum)
		added = append(added, fmt.Sprintf("coalesce(%s, 0)::numeric AS %s", quote(name), sum))
		subtracted = append(subtracted, fmt.Sprintf("-coalesce(%s, 0)::numeric", quote(name)))
		differences = append(differences, fmt.Sprintf("sum(%s) AS %s", sum, sum))
		updates = append(updates, fmt.Sprintf("%s = t.%s + excluded.%s", sum, sum, sum))
	}
	key := "jsonb_build_array(" + strings.Join(groups, ", ") + ")::text AS key"
	columns := list([]string{"key"}, groups, []string{"documents"}, sums)
	having := []string{"sum(documents) <> 0"}
	for _, sum := range sums {
		having = append(having, "sum("+sum+") <> 0")
	}
	return "WITH new_rows AS (" + v.newRows() + "), parts AS (\n" +
		"SELECT " + list([]string{key}, groups, []string{"1 AS documents"}, added) + " FROM new_rows\n" +
		"UNION ALL\n" +
		"SELECT " + list([]string{key}, groups, []string{"-1"}, subtracted) + " FROM " + v.Table.Sanitize() +
		fmt.Sprintf(" WHERE document = ANY($%d::uuid[])\n)\n", len(v.fixedColumns())+len(v.Columns)+1) +
		"INSERT INTO " + v.table("_totals").Sanitize() + " AS t (" + columns + ")\n" +
		"SELECT " + list([]string{"key"}, groups, []string{"sum(documents) AS documents"}, differences) + " FROM parts GROUP BY " + list([]string{"key"}, groups) +
		" HAVING " + strings.Join(having, " OR ") + " ORDER BY key\n" +
		"ON CONFLICT (key) DO UPDATE SET " + list([]string{"documents = t.documents + excluded.documents"}, updates) +
		"\nRETURNING key, documents"
}

// list joins lists of expressions.
func list(parts ...[]string) string { return strings.Join(slices.Concat(parts...), ", ") }

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Table is the shape of a table that a handler writes to.
type Table struct {
	Name    pgx.Identifier
	Columns []Column // the first one is the key
}

// Column is a column of a [Table].
type Column struct {
	Name    string
	Type    string // as PostgreSQL prints it, such as "timestamp with time zone"
	NotNull bool
	Comment string // for readers of the statement that creates the table
}

func (c Column) definition() string {
	text := pgx.Identifier{c.Name}.Sanitize() + " " + c.Type
	if c.NotNull {
		text += " NOT NULL"
	}
	return text
}

// DDL is the statement that creates the table if it does not exist.
func (t Table) DDL() string {
	var text strings.Builder
	text.WriteString("CREATE TABLE IF NOT EXISTS " + t.Name.Sanitize() + " (")
	for i, c := range t.Columns {
		text.WriteString("\n\t" + c.definition())
		if i == 0 {
			text.WriteString(" PRIMARY KEY")
		}
		if i < len(t.Columns)-1 {
			text.WriteByte(',')
		}
		if c.Comment != "" {
			text.WriteString(" -- " + c.Comment)
		}
	}
	return text.String() + "\n)"
}

// catalog reads the columns of a table. A column is required if a row that lacks it is
// refused, and it is a key if ON CONFLICT can name it.
// https://www.postgresql.org/docs/current/catalog-pg-attribute.html
const catalog = `SELECT a.attname, format_type(a.atttypid, a.atttypmod),
a.attnotnull AND NOT a.atthasdef AND a.attidentity = '',
EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indimmediate AND i.indisvalid
	AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),
EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary)
FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`

// storedColumn is a column as the catalog has it.
type storedColumn struct {
	name, kind             string
	required, key, keyless bool // keyless: the table has no primary key
}

// Alterations compares the table of the database with t: columns, their types and the key.
// It returns the statements that make it fit, none if it does. Further columns that a row
// may lack, indexes and constraints are no difference. If the table does not exist, exists
// is false.
func (t Table) Alterations(ctx context.Context, pool *pgxpool.Pool) (statements []string, exists bool, err error) {
	stored, err := t.stored(ctx, pool)
	if err != nil || len(stored) == 0 {
		return nil, false, err
	}
	alter := func(format string, arguments ...any) {
		statements = append(statements, "ALTER TABLE "+t.Name.Sanitize()+" "+fmt.Sprintf(format, arguments...)+";")
	}
	for i, c := range t.Columns {
		name := pgx.Identifier{c.Name}.Sanitize()
		place := slices.IndexFunc(stored, func(s storedColumn) bool { return s.name == c.Name })
		if place < 0 {
			alter("ADD COLUMN %s", c.definition())
		} else if kind := stored[place].kind; kind != c.Type {
			alter("ALTER COLUMN %s TYPE %s USING %[1]s::text::%[2]s", name, c.Type)
		}
		if i == 0 && (place < 0 || !stored[place].key) {
			alter("ADD %s (%s)", map[bool]string{true: "PRIMARY KEY", false: "UNIQUE"}[stored[0].keyless], name)
		}
	}
	for _, s := range stored {
		if s.required && !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == s.name }) {
			alter("ALTER COLUMN %s DROP NOT NULL", pgx.Identifier{s.name}.Sanitize())
		}
	}
	return statements, true, nil
}

func (t Table) stored(ctx context.Context, pool *pgxpool.Pool) (columns []storedColumn, err error) {
	rows, err := pool.Query(ctx, catalog, t.Name.Sanitize())
	if err == nil {
		columns, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c storedColumn, err error) {
			var hasKey bool
			err = row.Scan(&c.name, &c.kind, &c.required, &c.key, &hasKey)
			c.keyless = !hasKey
			return c, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", t.Name.Sanitize(), err)
	}
	return columns, nil
}

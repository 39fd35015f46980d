package view

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"halley/handlers/once"
)

// writtenColumn has the names of the columns that the last write of a row filled, separated by
// commas. It is NULL in rows of a Halley that did not have it.
//
// A host whose definition has another column fills it when it gets the version of the row
// again, for example after a seek. A host whose columns are all there leaves the row alone:
// while host A, with the former definition, and host B, with the new one, run next to each
// other, A does not undo what B has written. If A writes a later version of the document, the
// row no longer names the new column, so that a redelivery fills it.
const writtenColumn = "halley_columns"

// addWrittenColumn adds the column to a table that a former Halley has created. It does not
// touch others: ALTER TABLE locks out readers, and only the owner of the table may run it.
func (v *View) addWrittenColumn(ctx context.Context, tx pgx.Tx) error {
	var exists bool
	const lookUp = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2)"
	if err := tx.QueryRow(ctx, lookUp, v.Table.Sanitize(), writtenColumn).Scan(&exists); err != nil || exists {
		return err
	}
	_, err := tx.Exec(ctx, "ALTER TABLE "+v.Table.Sanitize()+" ADD COLUMN "+writtenColumn+" text")
	return err
}

func (v *View) columnNames() (names []string) {
	for _, c := range v.Columns {
		names = append(names, c.Name)
	}
	return names
}

// outdated returns the documents whose rows lack a column of the view. Deleted documents have
// no row.
func (v *View) outdated(ctx context.Context, documents []once.Document) ([]once.Document, error) {
	keys := make([][16]byte, len(documents))
	for i, d := range documents {
		keys[i] = d
	}
	rows, err := v.pool.Query(ctx, "SELECT document FROM "+v.Table.Sanitize()+
		" WHERE document = ANY($1) AND NOT string_to_array(coalesce("+writtenColumn+", ''), ',') @> $2::text[]",
		pgx.QueryExecModeCacheDescribe, keys, v.columnNames())
	if err != nil {
		return nil, fmt.Errorf("look for rows that lack columns: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return nil, fmt.Errorf("look for rows that lack columns: %w", err)
	}
	outdated := make([]once.Document, len(found))
	for i, key := range found {
		outdated[i] = key
	}
	return outdated, nil
}

package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"halley/handlers/once"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// Handler keeps the view in step.
func (v *View) Handler() trigger.Handler {
	return func(ctx context.Context, b trigger.Batch) error {
		if err := v.prepare(ctx); err != nil {
			return err
		}
		if err := v.markShown(ctx, b); err != nil {
			return v.explain(ctx, err)
		}
		err := v.positions.Apply(ctx, b, v.apply)
		if err != nil && len(b.Changes) == 1 && refusesValues(err) {
			return trigger.Skip(err)
		}
		return v.explain(ctx, err)
	}
}

// prepare creates the tables before the first batch. Other calls wait meanwhile; if it
// fails, the next call tries again.
func (v *View) prepare(ctx context.Context) error {
	select {
	case _, first := <-v.ready:
		if !first {
			return nil
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := v.createTables(ctx); err != nil {
		v.ready <- struct{}{}
		return fmt.Errorf("create the tables of the view: %w", v.explain(ctx, err))
	}
	close(v.ready)
	return nil
}

// createTables creates the tables under a lock: CREATE TABLE IF NOT EXISTS fails if another
// host does the same at the same time.
func (v *View) createTables(ctx context.Context) error {
	return pgx.BeginFunc(ctx, v.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", "create "+v.Table.Sanitize()); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, v.DDL()); err != nil {
			return err
		}
		return v.addWrittenColumn(ctx, tx)
	})
}

// rows are the rows that a batch writes, as arrays for the parameters of statements.
type rows struct {
	all       [][16]byte // documents that are written or deleted
	deleted   [][16]byte
	documents [][16]byte
	ids, keys []string
	shown     shown       // of documents
	columns   [][]*string // by column, then by document
}

// apply is the effect of changes on the rows and the totals.
func (v *View) apply(ctx context.Context, tx pgx.Tx, fresh []trigger.Change) error {
	r, err := v.rowsOf(once.Last(fresh))
	if err != nil {
		return err
	}
	return v.write(ctx, tx, r)
}

// write writes rows, and the difference that they make to the totals.
func (v *View) write(ctx context.Context, tx pgx.Tx, r *rows) (err error) {
	parameters := []any{r.documents, r.ids, r.keys}
	if v.FromSnapshot {
		parameters = append(parameters, r.shown.places, r.shown.generations)
	}
	for _, texts := range r.columns {
		parameters = append(parameters, texts)
	}
	var empty []string // keys of totals
	statements := &pgx.Batch{}
	if v.hasTotals() {
		statements.Queue(v.addTotals, append(parameters[:len(parameters):len(parameters)], r.all)...).Query(func(result pgx.Rows) error {
			empty, err = emptyTotals(result)
			return err
		})
	}
	if len(r.deleted) > 0 {
		statements.Queue(v.remove, r.deleted)
	}
	if len(r.documents) > 0 {
		statements.Queue(v.upsert, parameters...)
	}
	if err := tx.SendBatch(ctx, statements).Close(); err != nil {
		return fmt.Errorf("write %d documents to the view: %w", len(r.all), err)
	}
	if len(empty) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, v.removeTotals, empty); err != nil {
		return fmt.Errorf("remove %d empty totals: %w", len(empty), err)
	}
	return nil
}

// emptyTotals reads the keys of groups without documents.
func emptyTotals(result pgx.Rows) (empty []string, err error) {
	var key string
	var documents int64
	_, err = pgx.ForEachRow(result, []any{&key, &documents}, func() error {
		if documents == 0 {
			empty = append(empty, key)
		}
		return nil
	})
	return empty, err
}

// rowsOf converts changes to rows. If the values of some documents do not fit, its error
// gives these up.
func (v *View) rowsOf(changes []trigger.Change) (*rows, error) {
	r := &rows{columns: make([][]*string, len(v.Columns))}
	var refused []error
	for _, c := range changes {
		document := [16]byte(once.DocumentOf(c))
		r.all = append(r.all, document)
		if c.Operation == cosmos.OperationDelete || c.Operation == cosmos.OperationExpire {
			r.deleted = append(r.deleted, document)
			continue
		}
		values, err := v.values(c)
		if err != nil {
			refused = append(refused, trigger.Skip(trigger.Failed(fmt.Errorf("document %q: %w", c.ID(), err), c)))
			continue
		}
		r.documents, r.ids, r.keys = append(r.documents, document), append(r.ids, c.ID()), append(r.keys, string(c.PartitionKey()))
		r.shown.add(c)
		for i, value := range values {
			r.columns[i] = append(r.columns[i], value)
		}
	}
	return r, errors.Join(refused...)
}

func (v *View) values(c trigger.Change) ([]*string, error) {
	if strings.ContainsRune(c.ID(), 0) {
		return nil, fmt.Errorf("the id %w", errNUL)
	}
	values := make([]*string, len(v.Columns))
	for i, column := range v.Columns {
		value, err := column.value(c.Document)
		if err != nil {
			return nil, err
		}
		if value != nil && len(*value) > maxGroup && slices.Contains(v.GroupBy, column.Name) {
			return nil, fmt.Errorf("column %q: the value at %s %w", column.Name, column.Path, errTooLong)
		}
		values[i] = value
	}
	return values, nil
}

// Classes of errors and errors of PostgreSQL:
// https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	dataException      = "22"
	integrityViolation = "23"
	undefinedTable     = "42P01"
	undefinedColumn    = "42703"
	otherType          = "42804"
	withoutKey         = "42P10" // ON CONFLICT names no unique column
)

// refusesValues reports whether PostgreSQL refuses the values of a row, for example
// because of a constraint that the table has in addition.
func refusesValues(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && (strings.HasPrefix(refusal.Code, dataException) || strings.HasPrefix(refusal.Code, integrityViolation))
}

// explain adds the statements that are missing to an error about missing tables, and to one
// about tables that do not fit.
func (v *View) explain(ctx context.Context, err error) error {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) || !slices.Contains([]string{undefinedTable, undefinedColumn, otherType, withoutKey}, refusal.Code) {
		return err
	}
	if misfit := v.misfit(ctx); misfit != nil {
		return fmt.Errorf("%w: %w", err, misfit)
	}
	return fmt.Errorf("%w: if a table was removed, start the host again, which creates it", err)
}

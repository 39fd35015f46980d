// Package postgres makes effects in PostgreSQL happen exactly once: a function's effect
// and the positions of the documents that caused it are written in one transaction. The
// rule, and why it holds, is in package [halley/handlers/once].
//
//	store := postgres.New(pool, pgx.Identifier{"mails_positions"})
//	handler := func(ctx context.Context, b trigger.Batch) error {
//		return store.Apply(ctx, b, func(ctx context.Context, tx pgx.Tx, fresh []trigger.Change) error {
//			...
//		})
//	}
//
// Each function has a table of positions of its own, see [Store.DDL]. It has one row for
// each document that was ever delivered, also for those that were deleted. Rows of
// documents that were not written for a long time may be removed:
//
//	DELETE FROM mails_positions WHERE written < extract(epoch FROM now() - interval '30 days')
//
// The time must be longer than the function is ever behind, and than an operator ever
// moves positions back: without its row, a change that is delivered again takes effect
// again.
package postgres

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers"
	"halley/handlers/once"
	"halley/trigger"
)

// Effect writes the effect of changes within a transaction, which it neither commits nor
// rolls back. fresh has the changes of the batch whose effects did not take place yet, those
// of each document in the order of the batch; it is not empty. An effect may be called again
// if its transaction was rolled back.
//
// If the error is a trigger.Failed or trigger.FailedFrom, also in a trigger.Skip, the
// transaction is rolled back, the effect is called again with the other changes, and these
// are handled. After any other error nothing of the batch is written.
//
// The rows of the changes' documents are locked in the table of positions before the effect
// begins, in ascending order, so two calls never have the same document. An effect that
// locks rows of several documents, such as totals, locks them in an order of its own that
// is always the same; then calls do not deadlock.
type Effect func(ctx context.Context, tx pgx.Tx, fresh []trigger.Change) error

// Store is the positions of one function. It is safe for concurrent use.
type Store struct {
	// Outdated, if it is not nil, returns those of some documents whose effect took place in a
	// former form, such as a row without a column that was added since. If their last version
	// is delivered again, its effect is called again, and their positions stay. It is set
	// before the first call of Apply.
	Outdated func(ctx context.Context, documents []once.Document) ([]once.Document, error)

	// Meter counts the changes whose effects were committed, if it is not nil. It is set
	// before the first call of Apply; see [Measure] for the requests.
	Meter *handlers.Meter

	pool  *pgxpool.Pool
	table pgx.Identifier
	read  string
	write string
}

// New returns the store with its positions in a table. The caller closes the pool when
// the store is no longer used. PostgreSQL is of version 12 or later.
func New(pool *pgxpool.Pool, table pgx.Identifier) *Store {
	name := table.Sanitize()
	return &Store{
		pool: pool, table: table,
		read: "SELECT document, epoch, lsn, written, versions, revision FROM " + name + " WHERE document = ANY($1)",
		write: "INSERT INTO " + name + ` AS p (document, epoch, lsn, written, versions, revision)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
ON CONFLICT (document) DO UPDATE
SET epoch = excluded.epoch, lsn = excluded.lsn, written = excluded.written, versions = excluded.versions, revision = excluded.revision
WHERE p.revision = excluded.revision - 1`,
	}
}

// DDL is the statement that creates the table of positions if it does not exist.
func (s *Store) DDL() string { return s.Table().DDL() }

// Table is the shape of the table of positions.
func (s *Store) Table() Table {
	return Table{Name: s.table, Columns: []Column{
		{Name: "document", Type: "uuid", NotNull: true, Comment: "hash of partition key and id"},
		{Name: "epoch", Type: "bigint", NotNull: true},
		{Name: "lsn", Type: "bigint", NotNull: true},
		{Name: "written", Type: "bigint", NotNull: true, Comment: "by the time of the version, in seconds since 1970"},
		{Name: "versions", Type: "text", NotNull: true, Comment: "etag of the version whose effect took place last"},
		{Name: "revision", Type: "bigint", NotNull: true, Comment: "counts the writes of this row"},
	}}
}

// stored is a row of the table.
type stored struct {
	once.Position
	revision int64
}

// conflicts is how often positions may change between their read and their write, in one
// call, before the batch fails. Each time another call has written effects of the batch's
// documents, as only a former owner does.
const conflicts = 5

// Apply makes the effects of a batch happen exactly once. Its error is the handler's
// verdict on the batch; if it is nil, the effects of all changes have taken place, now or
// before. If all have taken place before, Apply costs one read, and with Outdated a second one.
func (s *Store) Apply(ctx context.Context, b trigger.Batch, effect Effect) error {
	return once.Effects(b, func(b trigger.Batch) error {
		for range conflicts {
			applied, err := s.try(ctx, b, effect)
			if applied || err != nil {
				return err
			}
			s.Meter.Retried()
		}
		return fmt.Errorf("positions of the batch's documents in %s were changed %d times by other calls", s.table.Sanitize(), conflicts)
	})
}

// begin begins a transaction. A plan that was made when a table was empty reads all of it
// when it is not; so each statement is planned for its parameters, which costs less than
// reading a page.
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL plan_cache_mode = force_custom_plan"

// try returns false if positions have changed since they were read.
func (s *Store) try(ctx context.Context, b trigger.Batch, effect Effect) (applied bool, err error) {
	rows, err := s.positions(ctx, once.Documents(b))
	if err != nil {
		return false, err
	}
	stored := make(map[once.Document]once.Position, len(rows))
	for document, row := range rows {
		stored[document] = row.Position
	}
	fresh, moved := once.Fresh(b, stored)
	repeated, err := s.repeated(ctx, b, stored, moved)
	if err != nil {
		return false, err
	}
	fresh = append(fresh, repeated...)
	if len(fresh) == 0 {
		return true, nil
	}
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return false, fmt.Errorf("begin a transaction: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing; if it fails, the connection is closed
	if moves, err := s.move(ctx, tx, rows, moved); !moves || err != nil {
		return false, err
	}
	if err := effect(ctx, tx, fresh); err != nil {
		return false, err
	}
	if err := tx.Commit(ctx); err != nil {
		return false, fmt.Errorf("commit the effects of %d changes: %w", len(fresh), err)
	}
	s.Meter.Wrote(len(fresh))
	return true, nil
}

// repeated returns the changes of a batch whose effects are to take place again, see
// Outdated, and adds the positions of their documents to moved as they are: so they are
// locked, and the effects do not take place if a later version is written meanwhile.
func (s *Store) repeated(ctx context.Context, b trigger.Batch, stored, moved map[once.Document]once.Position) (again []trigger.Change, err error) {
	if s.Outdated == nil {
		return nil, nil
	}
	current := map[once.Document]trigger.Change{}
	for _, c := range b.Changes {
		document := once.DocumentOf(c)
		if _, isMoved := moved[document]; !isMoved && stored[document].Names(c) {
			current[document] = c
		}
	}
	if len(current) == 0 {
		return nil, nil
	}
	outdated, err := s.Outdated(ctx, slices.Collect(maps.Keys(current)))
	if err != nil {
		return nil, err
	}
	for _, document := range outdated {
		again = append(again, current[document])
		moved[document] = stored[document]
	}
	return again, nil
}

// Forget removes the positions of documents, each a [once.Document], within a transaction: whatever is delivered of them
// from then on takes effect. It is for documents whose effects the transaction removes, as they do
// not exist any more.
func (s *Store) Forget(ctx context.Context, tx pgx.Tx, documents [][16]byte) error {
	if _, err := tx.Exec(ctx, "DELETE FROM "+s.table.Sanitize()+" WHERE document = ANY($1)", documents); err != nil {
		return fmt.Errorf("remove positions of %d documents: %w", len(documents), err)
	}
	return nil
}

// positions reads the rows of documents, without locks.
func (s *Store) positions(ctx context.Context, documents []once.Document) (map[once.Document]stored, error) {
	keys := make([][16]byte, len(documents))
	for i, d := range documents {
		keys[i] = d
	}
	result, err := s.pool.Query(ctx, s.read, pgx.QueryExecModeCacheDescribe, keys) // planned each time, see begin
	if err != nil {
		return nil, fmt.Errorf("read positions of %d documents: %w", len(documents), err)
	}
	rows := make(map[once.Document]stored, len(documents))
	var document [16]byte
	var row stored
	var versions string
	_, err = pgx.ForEachRow(result, []any{&document, &row.Epoch, &row.LSN, &row.Time, &versions, &row.revision}, func() error {
		row.Versions = strings.Fields(versions)
		rows[document] = row
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read positions of %d documents: %w", len(documents), err)
	}
	return rows, nil
}

// move writes positions if the rows are still those that were read. It locks them in
// ascending order.
func (s *Store) move(ctx context.Context, tx pgx.Tx, rows map[once.Document]stored, moved map[once.Document]once.Position) (bool, error) {
	documents := make([][16]byte, 0, len(moved))
	for d := range moved {
		documents = append(documents, d)
	}
	slices.SortFunc(documents, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	var epochs, lsns, times, revisions []int64
	var versions []string
	for _, d := range documents {
		p := moved[d]
		epochs, lsns, times = append(epochs, p.Epoch), append(lsns, p.LSN), append(times, p.Time)
		versions, revisions = append(versions, strings.Join(p.Versions, " ")), append(revisions, rows[d].revision+1)
	}
	written, err := tx.Exec(ctx, s.write, documents, epochs, lsns, times, versions, revisions)
	if err != nil {
		return false, fmt.Errorf("write positions of %d documents: %w", len(documents), err)
	}
	return written.RowsAffected() == int64(len(documents)), nil
}

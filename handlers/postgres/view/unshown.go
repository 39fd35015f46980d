package view

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"halley/handlers/once"
	"halley/trigger"
)

// shown are the places and the generations of changes, as arrays for the parameters of statements.
// What is not known is NULL: a row without a generation is older than any.
type shown struct {
	places      []*string
	generations []*int64
}

func (s *shown) add(c trigger.Change) {
	var place *string
	var generation *int64
	if text := c.EffectiveKey(); text != "" {
		place = &text
	}
	if n := c.Generation(); n > 0 {
		generation = &n
	}
	s.places, s.generations = append(s.places, place), append(s.generations, generation)
}

// markShown gives the rows of documents that a snapshot shows its generation. Those whose version
// has taken effect before are written in no other way. A row that is marked although its document
// is not fresh is that of a document that exists.
func (v *View) markShown(ctx context.Context, b trigger.Batch) error {
	if !v.FromSnapshot {
		return nil
	}
	var documents [][16]byte
	var marks shown
	for _, c := range b.Changes {
		if c.FromSnapshot() {
			documents = append(documents, once.DocumentOf(c))
			marks.add(c)
		}
	}
	if len(documents) == 0 {
		return nil
	}
	_, err := v.pool.Exec(ctx, "UPDATE "+v.Table.Sanitize()+` AS t SET generation = s.generation, effective_key = coalesce(s.effective_key, t.effective_key)
FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS s (document, effective_key, generation)
WHERE t.document = s.document AND (t.generation IS NULL OR t.generation < s.generation)`, documents, marks.places, marks.generations)
	if err != nil {
		return fmt.Errorf("mark %d rows as shown: %w", len(documents), err)
	}
	return nil
}

// removeStep is the number of rows of a step, each of which is a transaction.
const removeStep = 1000

// RemoveUnshown is the SnapshotRead of a function that starts from a snapshot. It removes the rows
// of the range that neither this snapshot nor a later change has shown, with their parts of the
// totals and their positions, except those of the kept keys. It does so in steps; a call that
// follows continues.
func (v *View) RemoveUnshown(ctx context.Context, end trigger.SnapshotEnd) error {
	if err := v.prepare(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context, trigger.SnapshotEnd) (found int, err error){v.placeRows, v.removeRows} {
		for found := 1; found > 0; {
			var err error
			if found, err = step(ctx, end); err != nil {
				return v.explain(ctx, err)
			}
		}
	}
	return nil
}

// outside is a place above all ranges: that of a row whose partition key the container cannot have.
const outside = "FF"

// placeRows gives rows their place that were written without it, by an older version or a replay
// of dead letters. It returns how many there were.
func (v *View) placeRows(ctx context.Context, end trigger.SnapshotEnd) (int, error) {
	result, err := v.pool.Query(ctx, fmt.Sprint("SELECT document, partition_key FROM ", v.Table.Sanitize(), " WHERE ", place, " IS NULL LIMIT ", removeStep))
	if err != nil {
		return 0, fmt.Errorf("look for rows without a place: %w", err)
	}
	var documents [][16]byte
	var places []string
	var document [16]byte
	var key string
	_, err = pgx.ForEachRow(result, []any{&document, &key}, func() error {
		text, err := end.EffectiveKey(key)
		if err != nil {
			text = outside
		}
		documents, places = append(documents, document), append(places, text)
		return nil
	})
	if err == nil && len(documents) > 0 {
		_, err = v.pool.Exec(ctx, "UPDATE "+v.Table.Sanitize()+` AS t SET effective_key = s.effective_key
FROM unnest($1::uuid[], $2::text[]) AS s (document, effective_key) WHERE t.document = s.document`, documents, places)
	}
	if err != nil {
		return 0, fmt.Errorf("find the places of %d rows: %w", len(documents), err)
	}
	return len(documents), nil
}

// removeRows removes some of the rows that were not shown, and returns how many it has found. Another
// host whose call is late may remove them first, or a change may mark them: then it looks again.
func (v *View) removeRows(ctx context.Context, end trigger.SnapshotEnd) (int, error) {
	found, err := v.unshownRows(ctx, end)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	err = pgx.BeginTxFunc(ctx, v.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		result, err := tx.Query(ctx, "SELECT document FROM "+v.Table.Sanitize()+" WHERE document = ANY($1) AND (generation IS NULL OR generation < $2) ORDER BY document FOR UPDATE", found, end.Generation)
		if err != nil {
			return err
		}
		documents, err := pgx.CollectRows(result, pgx.RowTo[[16]byte])
		if err != nil {
			return err
		}
		if err := v.write(ctx, tx, &rows{all: documents, deleted: documents, columns: make([][]*string, len(v.Columns))}); err != nil {
			return err
		}
		return v.positions.Forget(ctx, tx, documents)
	})
	if err != nil {
		return 0, fmt.Errorf("remove %d rows that the snapshot has not shown: %w", len(found), err)
	}
	return len(found), nil
}

// unshownRows finds some of the rows that were not shown.
func (v *View) unshownRows(ctx context.Context, end trigger.SnapshotEnd) (documents [][16]byte, err error) {
	result, err := v.pool.Query(ctx, fmt.Sprintf(`SELECT document FROM %s WHERE %s >= $1 AND %[2]s < $2
AND (generation IS NULL OR generation < $3) AND partition_key <> ALL($4::text[]) LIMIT %d`, v.Table.Sanitize(), place, removeStep),
		end.Range.Min, end.Range.Max, end.Generation, append([]string{}, end.KeptKeys...)) // nil would be NULL
	if err == nil {
		documents, err = pgx.CollectRows(result, pgx.RowTo[[16]byte])
	}
	if err != nil {
		return nil, fmt.Errorf("look for rows that the snapshot has not shown: %w", err)
	}
	return documents, nil
}

package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter/internal/record"
)

// Query has the service filter, sorts the positions of the records that it finds, and reads
// the records of the page one by one. (The service sorts a query of one partition key alone,
// and leaves out documents without the property.)
func (s *Container) Query(ctx context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	page, err := s.page(ctx, q)
	if err != nil {
		return page, fmt.Errorf("list dead letters of %v: %w", q.Source, err)
	}
	for i, damage := range page.Damaged {
		page.Damaged[i] = fmt.Errorf("list dead letters of %v: %w", q.Source, damage)
	}
	return page, nil
}

func (s *Container) page(ctx context.Context, q trigger.DeadLetterQuery) (page trigger.DeadLetterPage, err error) {
	k, err := s.keys(ctx)
	if err != nil {
		return page, err
	}
	w, err := s.search.Window(q, func(from *record.Position) iter.Seq2[record.Position, error] {
		return s.positions(ctx, k.selection(q, from))
	})
	if err != nil {
		return page, err
	}
	return w.Page(func(p record.Position) (trigger.DeadLetter, bool, error) { return s.load(ctx, k, q.Source, p.At) })
}

// selection returns the query of the positions of records, from a position on. A document
// whose property is no text may be any record: it is read, and reported as damaged.
func (k keys) selection(q trigger.DeadLetterQuery, from *record.Position) cosmos.Query {
	selected := k.query(`c.id, c.time, c.range, c.lsn, c["order"]`, q.Source)
	other := trigger.RecordDead
	if q.Kind == other {
		other = trigger.RecordPostponed
	}
	addCondition := func(property, condition, name string, value any) {
		selected.Text += ` AND (NOT IS_STRING(c["` + property + `"]) OR ` + condition + `)`
		selected.Parameters = append(selected.Parameters, cosmos.Parameter{Name: name, Value: value})
	}
	addCondition("record", `c.record != @other`, "@other", other)
	for _, text := range []struct{ property, condition, name, value string }{
		{"letter", `c.letter = @letter`, "@letter", q.ID},
		{"range", `c["range"] = @range`, "@range", q.Range},
		{"key", `c["key"] = @key`, "@key", q.Key},
		{"error", `CONTAINS(c.error, @error)`, "@error", q.ErrorContains},
	} {
		if text.value != "" {
			addCondition(text.property, text.condition, text.name, text.value)
		}
	}
	times := []struct {
		condition, name string
		value           time.Time
	}{{`c.time >= @after`, "@after", q.After}, {`c.time < @before`, "@before", q.Before}}
	if from != nil && q.Key == "" { // the records of a key are not in the order of time
		condition := `c.time >= @from`
		if q.NewestFirst {
			condition = `c.time <= @from`
		}
		times = append(times, struct {
			condition, name string
			value           time.Time
		}{condition, "@from", from.Time})
	}
	for _, bound := range times {
		if !bound.value.IsZero() {
			addCondition("time", bound.condition, bound.name, sortable{bound.value})
		}
	}
	return selected
}

// positions yields the positions that a query finds. If a result cannot be decoded, its time
// is zero, so that document is read first and reported as damaged.
func (s *Container) positions(ctx context.Context, q cosmos.Query) iter.Seq2[record.Position, error] {
	return func(yield func(record.Position, error) bool) {
		for page, err := range s.container.Query(ctx, q) {
			if err != nil {
				yield(record.Position{}, err)
				return
			}
			for _, raw := range page.Items {
				p, err := rowPosition(raw)
				if err != nil {
					yield(record.Position{}, fmt.Errorf("result of the query of dead letters: %w", err))
					return
				}
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

func rowPosition(raw json.RawMessage) (record.Position, error) {
	var name struct {
		DocumentID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &name); err != nil {
		return record.Position{}, err
	}
	var doc deadLetterDocument
	if json.Unmarshal(raw, &doc) != nil {
		return record.Position{At: name.DocumentID}, nil
	}
	return record.Position{Time: doc.Time.UTC(), Order: doc.Order, Token: doc.Range, LSN: doc.LSN, At: doc.DocumentID}, nil
}

// query returns a query of the dead letters of a source.
func (k keys) query(columns string, source trigger.DeadLetterSource) cosmos.Query {
	return cosmos.Query{
		Text: `SELECT ` + columns + ` FROM c WHERE c.kind = @kind AND c["function"] = @function` +
			` AND c["account"] = @account AND c["database"] = @database AND c["container"] = @container`,
		Parameters: []cosmos.Parameter{{Name: "@kind", Value: kindDeadLetter}, {Name: "@function", Value: source.Function},
			{Name: "@account", Value: source.Account}, {Name: "@database", Value: source.Database}, {Name: "@container", Value: source.Container}},
		PartitionKey: k.queryScope(source.Function),
	}
}

// load reads a dead letter with its parts.
func (s *Container) load(ctx context.Context, k keys, source trigger.DeadLetterSource, id string) (d trigger.DeadLetter, found bool, err error) {
	doc, err := s.read(ctx, k, source, id)
	if err != nil {
		return trigger.DeadLetter{}, false, err
	}
	if doc == nil {
		return trigger.DeadLetter{}, false, s.confirmDeleted(ctx, k, source, id)
	}
	d = doc.deadLetter()
	if doc.Parts == nil {
		return d, true, nil
	}
	r, damage := s.joinParts(ctx, k, doc.deadLetterDocument)
	if isDamage(damage) { // or another host is deleting it
		doc, err := s.read(ctx, k, source, id)
		if err != nil {
			return trigger.DeadLetter{}, false, err
		}
		if doc == nil {
			return trigger.DeadLetter{}, false, s.confirmDeleted(ctx, k, source, id)
		}
	}
	d.Document, d.Previous = json.RawMessage(r.Document), json.RawMessage(r.Previous)
	return d, damage == nil, damage
}

// confirmDeleted is called if a query has shown a dead letter that a read does
// not find. It returns nil if a second query does not show it either: it was
// deleted. Otherwise the read is outdated or the document has a partition key
// that does not belong to its id; the error is damage, because nothing can read
// it now.
func (s *Container) confirmDeleted(ctx context.Context, k keys, source trigger.DeadLetterSource, id string) error {
	shown, err := s.anyMatch(ctx, k, source, ` AND c.id = @id`, cosmos.Parameter{Name: "@id", Value: id})
	if err != nil || !shown {
		return err
	}
	return &DamageError{Where: "document " + id, Err: errors.New("a query shows it, but a read does not find it; if this persists, its partition key is not the one that its id requires")}
}

// Holds queries one dead letter with the key. A damaged dead letter counts for
// the key that its document has now: if the key was edited, it does not count
// for its original key any more.
func (s *Container) Holds(ctx context.Context, source trigger.DeadLetterSource, key string) (holds bool, err error) {
	k, err := s.keys(ctx)
	if err == nil {
		holds, err = s.anyMatch(ctx, k, source, ` AND c["key"] = @key AND (NOT IS_STRING(c.record) OR c.record != "postponed")`, cosmos.Parameter{Name: "@key", Value: key})
	}
	if err != nil {
		return false, fmt.Errorf("look for dead letters of key %s: %w", key, err)
	}
	return holds, nil
}

// anyMatch reports whether a query finds a dead letter of the source that
// meets a further condition.
func (s *Container) anyMatch(ctx context.Context, k keys, source trigger.DeadLetterSource, condition string, p cosmos.Parameter) (bool, error) {
	q := k.query(`c.id`, source)
	q.Text, q.Parameters, q.MaxItems = q.Text+condition, append(q.Parameters, p), 1
	for page, err := range s.container.Query(ctx, q) {
		if err != nil {
			return false, err
		}
		if len(page.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}

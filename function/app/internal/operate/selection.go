package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"halley/trigger"
)

// Store is the store of one function's dead letters.
type Store struct {
	Function string
	Source   trigger.DeadLetterSource
	trigger.DeadLetters
}

// Selection selects dead letters.
type Selection struct {
	Key, Range, Text string
	Since, Until     Moment
	IDs              []string // of a replay; none selects all
	PostponedOnly    bool     // postponed changes alone
	DeadOnly         bool     // dead letters alone, unless ids name others
	NewestFirst      bool     // first
	Limit            int      // of the records of each kind and function; 0 is none
}

// kinds are the selected kinds of records, in the order in which they are listed.
func (p *Selection) kinds() []trigger.RecordKind {
	switch {
	case p.PostponedOnly:
		return []trigger.RecordKind{trigger.RecordPostponed}
	case p.DeadOnly && len(p.IDs) == 0:
		return []trigger.RecordKind{trigger.RecordDead}
	}
	return []trigger.RecordKind{trigger.RecordDead, trigger.RecordPostponed}
}

// query selects the records of one kind. Several ids are left to wants.
func (p *Selection) query(kind trigger.RecordKind) trigger.DeadLetterQuery {
	q := trigger.DeadLetterQuery{
		Kind: kind, Range: p.Range, Key: p.Key, ErrorContains: p.Text, After: p.Since.Time, Before: p.Until.Time, NewestFirst: p.NewestFirst,
	}
	if q.Key != "" && !IsJSONArray(q.Key) {
		q.Key = jsonArrayOf(q.Key)
	}
	if len(p.IDs) == 1 {
		q.ID = p.IDs[0]
	}
	return q
}

// wanted returns the filter that the stores do not evaluate. There may be ten thousands of ids.
func (p *Selection) wanted() func(trigger.DeadLetter) bool {
	ids := map[string]bool{}
	for _, id := range p.IDs {
		ids[id] = true
	}
	return func(d trigger.DeadLetter) bool { return len(ids) == 0 || ids[d.ID] }
}

// IsJSONArray reports whether s is a partition key as dead letters have it.
func IsJSONArray(s string) bool {
	var array []json.RawMessage
	return json.Unmarshal([]byte(s), &array) == nil
}

// jsonArrayOf returns the key of documents whose partition key is one string.
func jsonArrayOf(s string) string {
	raw, _ := json.Marshal([]string{s}) // a string encodes
	return string(raw)
}

// StoredLetter is a dead letter and its store.
type StoredLetter struct {
	trigger.DeadLetter
	Store Store
}

// Find yields the selected dead letters of all stores. An error is about one dead
// letter or one store, and the iteration continues after it.
func (p *Selection) Find(ctx context.Context, stores []Store) iter.Seq2[StoredLetter, error] {
	return func(yield func(StoredLetter, error) bool) {
		for _, s := range stores {
			damaged := map[string]bool{} // a record may be damaged in the lists of both kinds
			for _, kind := range p.kinds() {
				if !p.findKind(ctx, s, kind, damaged, yield) {
					return
				}
			}
		}
	}
}

// findKind yields those of one store and kind; false means that the caller has ended.
func (p *Selection) findKind(ctx context.Context, s Store, kind trigger.RecordKind, damaged map[string]bool, yield func(StoredLetter, error) bool) bool {
	q, n := p.query(kind), 0
	q.Source, q.Limit = s.Source, min(p.Limit, LettersOfPage)
	isWanted := p.wanted()
	for d, err := range trigger.AllDeadLetters(ctx, s, q) {
		switch {
		case err != nil && damaged[err.Error()], err == nil && !isWanted(d):
			continue
		case err != nil:
			damaged[err.Error()] = true
			err = fmt.Errorf("dead letters of %s: %w", s.Function, err)
		default:
			n++
		}
		if !yield(StoredLetter{d, s}, err) {
			return false
		}
		if p.Limit > 0 && n == p.Limit {
			return true
		}
	}
	return true
}

// LettersOfPage bounds the dead letters that a command asks for at a time.
const LettersOfPage = 100

// Named finds the dead letters with these ids; a missing one is an error.
func (p *Selection) Named(ctx context.Context, stores []Store, ids []string) ([]StoredLetter, error) {
	byID := map[string]StoredLetter{}
	var failed error
	wanted := *p
	wanted.IDs = ids
	for l, err := range wanted.Find(ctx, stores) {
		if err != nil {
			failed = errors.Join(failed, err)
		} else if slices.Contains(ids, l.ID) {
			byID[l.ID] = l
		}
	}
	found := make([]StoredLetter, len(ids))
	for i, id := range ids {
		l, ok := byID[id]
		if !ok {
			return nil, errors.Join(fmt.Errorf("no dead letter %s: deadletters list shows all", id), failed)
		}
		found[i] = l
	}
	return found, nil
}

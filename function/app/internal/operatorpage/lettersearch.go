package operatorpage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/page"
	"halley/trigger"
)

// Bounds of a search of the page, over all functions.
const (
	maxSearched   = 50_000 // records that the stores read
	searchTimeout = 5 * time.Second
)

// searchDeadLetters is SearchDeadLetters of [page.Source].
func (o *Operator) searchDeadLetters(ctx context.Context, kind trigger.RecordKind, wanted page.Selection, visit func(trigger.DeadLetter, error) bool) (searched int, stopped bool) {
	bounded, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	s := letterSearch{wanted: wanted, visit: visit}
	for _, f := range o.settings.Functions {
		if !f.DeadLetters.Row().Keeps || wanted.Function != "" && wanted.Function != f.Name {
			continue
		}
		store, _, err := o.store(f.Name)
		if err == nil {
			err = s.searchStore(bounded, store, kind)
		}
		if s.stopped {
			break
		}
		if err != nil && !visit(trigger.DeadLetter{}, fmt.Errorf("dead letters of %s: %w", f.Name, err)) {
			return s.searched, true
		}
	}
	return s.searched, s.stopped
}

// letterSearch is a search of the stores of several functions.
type letterSearch struct {
	wanted   page.Selection
	visit    func(trigger.DeadLetter, error) bool
	searched int
	stopped  bool // at a bound, or by visit
}

// searchStore searches one store. The store itself selects the range, and a key that is
// given whole.
func (s *letterSearch) searchStore(ctx context.Context, store operate.Store, kind trigger.RecordKind) error {
	q := trigger.DeadLetterQuery{Source: store.Source, Kind: kind, Range: s.wanted.Range, NewestFirst: true, Limit: operate.LettersOfPage}
	if operate.IsJSONArray(s.wanted.Key) {
		q.Key = s.wanted.Key
	}
	for {
		found, err := store.Query(ctx, q)
		if err != nil {
			s.stopped = errors.Is(ctx.Err(), context.DeadlineExceeded)
			return err
		}
		s.searched += found.Searched
		for _, d := range found.Records {
			if s.wanted.Wants(d) && !s.visit(d, nil) {
				s.stopped = true
				return nil
			}
		}
		for _, damage := range found.Damaged {
			if !s.visit(trigger.DeadLetter{}, damage) {
				s.stopped = true
				return nil
			}
		}
		if found.Cursor == "" {
			return nil
		}
		if s.searched >= maxSearched || ctx.Err() != nil {
			s.stopped = true
			return nil
		}
		if found.Cursor == q.Cursor {
			return errors.New("the store gives the same page again")
		}
		q.Cursor = found.Cursor
	}
}

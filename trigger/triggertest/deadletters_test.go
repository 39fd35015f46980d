package triggertest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"unicode/utf8"

	"halley/trigger"
	"halley/trigger/triggertest"
)

// ownStore is a user's dead letter store: a table in memory. mu guards it.
type ownStore struct {
	mu    sync.Mutex
	table map[rowKey]trigger.DeadLetter
}

// rowKey is the primary key of the table.
type rowKey struct {
	source trigger.DeadLetterSource
	id     string
}

func (s *ownStore) Put(ctx context.Context, d trigger.DeadLetter) error {
	if err := errors.Join(ctx.Err(), d.CheckForm()); err != nil {
		return err
	}
	if d.ID == "" || !utf8.ValidString(d.ID+d.Function) {
		return fmt.Errorf("cannot store dead letter %q of %q", d.ID, d.Function)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.table[rowKey{d.Source(), d.ID}]; !ok {
		s.table[rowKey{d.Source(), d.ID}] = d
	}
	return nil
}

func (s *ownStore) Query(ctx context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	if err := ctx.Err(); err != nil {
		return trigger.DeadLetterPage{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return trigger.SelectDeadLetters(maps.Values(s.table), q)
}

func (s *ownStore) Delete(ctx context.Context, d trigger.DeadLetter) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.table, rowKey{d.Source(), d.ID})
	return nil
}

func (s *ownStore) Holds(ctx context.Context, source trigger.DeadLetterSource, key string) (bool, error) {
	q := trigger.DeadLetterQuery{Source: source, Kind: trigger.RecordDead, Limit: 1}
	if key == "" {
		return false, ctx.Err()
	}
	q.Key = key
	page, err := s.Query(ctx, q)
	return len(page.Records) > 0, err
}

func TestOwnStoreKeepsTheContract(t *testing.T) {
	s := &ownStore{table: map[rowKey]trigger.DeadLetter{}}
	change := func(name string, do func(*trigger.DeadLetter), says string) triggertest.DeadLetterDamage {
		return triggertest.DeadLetterDamage{Name: name, Do: func(_ *testing.T, d trigger.DeadLetter) string {
			do(&d)
			s.table[rowKey{d.Source(), d.ID}] = d
			return says
		}}
	}
	triggertest.TestDeadLetters(t, func(*testing.T) trigger.DeadLetters { return s },
		change("version", func(d *trigger.DeadLetter) { d.Version++ }, "use a newer Halley"),
		change("no version", func(d *trigger.DeadLetter) { d.Version = 0 }, "no version"),
		change("kind", func(d *trigger.DeadLetter) { d.Kind = "other" }, `kind is "other"`))
}

// A store of your own runs the tests of the stores of package deadletter.
func ExampleTestDeadLetters() {
	testOwnStore := func(t *testing.T) { // in a file of tests: func TestOwnStore(t *testing.T)
		table := map[rowKey]trigger.DeadLetter{}
		triggertest.TestDeadLetters(t, func(*testing.T) trigger.DeadLetters { return &ownStore{table: table} })
	}
	_ = testOwnStore
}

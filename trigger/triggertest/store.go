package triggertest

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"halley/trigger"
)

// memoryStore is a dead letter store in memory. mu guards its list.
type memoryStore struct {
	mu          sync.Mutex
	deadLetters []trigger.DeadLetter
}

func (s *memoryStore) Put(_ context.Context, d trigger.DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.deadLetters, sameAs(d)) {
		s.deadLetters = append(s.deadLetters, d)
	}
	return nil
}

func (s *memoryStore) List(_ context.Context, of trigger.DeadLetterSource) iter.Seq2[trigger.DeadLetter, error] {
	return func(yield func(trigger.DeadLetter, error) bool) {
		for _, d := range s.sorted() {
			if d.Source() == of && !yield(d, nil) {
				return
			}
		}
	}
}

func (s *memoryStore) Postponed(ctx context.Context, of trigger.DeadLetterSource, key string) iter.Seq2[trigger.DeadLetter, error] {
	return func(yield func(trigger.DeadLetter, error) bool) {
		for d := range s.List(ctx, of) {
			if d.IsPostponed() && (key == "" || d.Key == key) && !yield(d, nil) {
				return
			}
		}
	}
}

func (s *memoryStore) Delete(_ context.Context, d trigger.DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadLetters = slices.DeleteFunc(s.deadLetters, sameAs(d))
	return nil
}

func (s *memoryStore) Holds(_ context.Context, of trigger.DeadLetterSource, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.deadLetters, func(d trigger.DeadLetter) bool { return d.Source() == of && d.Key == key && !d.IsPostponed() }), nil
}

// sorted returns the dead letters, oldest first.
func (s *memoryStore) sorted() []trigger.DeadLetter {
	s.mu.Lock()
	defer s.mu.Unlock()
	sorted := slices.Clone(s.deadLetters)
	slices.SortStableFunc(sorted, func(a, b trigger.DeadLetter) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Range, b.Range), cmp.Compare(a.LSN, b.LSN))
	})
	return sorted
}

func sameAs(d trigger.DeadLetter) func(trigger.DeadLetter) bool {
	return func(o trigger.DeadLetter) bool { return o.ID == d.ID && o.Source() == d.Source() }
}

package triggertest

import (
	"cmp"
	"context"
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

func (s *memoryStore) Query(_ context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return trigger.SelectDeadLetters(slices.Values(s.deadLetters), q)
}

func (s *memoryStore) Delete(_ context.Context, d trigger.DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadLetters = slices.DeleteFunc(s.deadLetters, sameAs(d))
	return nil
}

func (s *memoryStore) Holds(_ context.Context, source trigger.DeadLetterSource, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.deadLetters, func(d trigger.DeadLetter) bool { return d.Source() == source && d.Key == key && !d.IsPostponed() }), nil
}

// all returns the records of both kinds, in the order of their places.
func (s *memoryStore) all() []trigger.DeadLetter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.deadLetters)
	slices.SortStableFunc(all, func(a, b trigger.DeadLetter) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Order, b.Order), cmp.Compare(a.Range, b.Range), cmp.Compare(a.LSN, b.LSN))
	})
	return all
}

func sameAs(d trigger.DeadLetter) func(trigger.DeadLetter) bool {
	return func(o trigger.DeadLetter) bool { return o.ID == d.ID && o.Source() == d.Source() }
}

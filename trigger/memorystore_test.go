package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"halley/trigger/internal/backoff"
)

// memoryStore is a dead letter store in memory.
type memoryStore struct {
	mu          sync.Mutex
	deadLetters []DeadLetter
	putError    error // returned by Put
	putCalls    int
}

func (s *memoryStore) Put(_ context.Context, d DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putCalls++
	if s.putError != nil {
		return s.putError
	}
	if !slices.ContainsFunc(s.deadLetters, func(o DeadLetter) bool { return o.ID == d.ID }) {
		s.deadLetters = append(s.deadLetters, d)
	}
	return nil
}

// sorted returns the dead letters in the order of a list.
func (s *memoryStore) sorted() []DeadLetter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.deadLetters)
	slices.SortStableFunc(all, func(a, b DeadLetter) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Range, b.Range), cmp.Compare(a.LSN, b.LSN))
	})
	return all
}

func (s *memoryStore) Postponed(_ context.Context, of DeadLetterSource, key string) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for _, d := range s.sorted() {
			if d.Source() == of && d.IsPostponed() && (key == "" || d.Key == key) && !yield(d, nil) {
				return
			}
		}
	}
}

func (s *memoryStore) List(_ context.Context, of DeadLetterSource) iter.Seq2[DeadLetter, error] {
	all := s.sorted()
	return func(yield func(DeadLetter, error) bool) {
		for _, d := range all {
			if d.Source() == of && !yield(d, nil) {
				return
			}
		}
	}
}

func (s *memoryStore) Delete(_ context.Context, d DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadLetters = slices.DeleteFunc(s.deadLetters, func(o DeadLetter) bool { return o.ID == d.ID })
	return nil
}

func (s *memoryStore) Holds(_ context.Context, of DeadLetterSource, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.deadLetters, func(o DeadLetter) bool { return o.Source() == of && o.Key == key && !o.IsPostponed() }), nil
}

// documentIDs returns the ids of the dead-lettered documents, oldest first.
func (s *memoryStore) documentIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, d := range s.deadLetters {
		ids = append(ids, d.DocumentID)
	}
	return ids
}

// withStore sets the dead letter store of a function.
func withStore(s *memoryStore, more ...func(*Function)) func(*Function, *Options) {
	return func(f *Function, _ *Options) {
		f.DeadLetters = s
		for _, m := range more {
			m(f)
		}
	}
}

var errPoison = errors.New("poison")

// failOnPoison wraps a handler so that it fails on documents whose id contains "poison".
func failOnPoison(next Handler) Handler {
	return func(ctx context.Context, b Batch) error {
		for _, c := range b.Changes {
			if strings.Contains(c.ID(), "poison") {
				return fmt.Errorf("cannot take %s: %w", c.ID(), errPoison)
			}
		}
		return next(ctx, b)
	}
}

// damagedStore is a store with one unreadable dead letter, which has the given key.
type damagedStore struct {
	memoryStore
	key string
}

func (s *damagedStore) Holds(ctx context.Context, of DeadLetterSource, key string) (bool, error) {
	holds, err := s.memoryStore.Holds(ctx, of, key)
	return holds || key == s.key, err
}

func (s *damagedStore) List(ctx context.Context, of DeadLetterSource) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for d, err := range s.memoryStore.List(ctx, of) {
			if !yield(d, err) {
				return
			}
		}
		yield(DeadLetter{}, fmt.Errorf("blob x: %w", ErrDamaged))
	}
}

// hangingStore does not answer the first List.
type hangingStore struct {
	memoryStore
	hung atomic.Bool
}

func (s *hangingStore) List(ctx context.Context, of DeadLetterSource) iter.Seq2[DeadLetter, error] {
	if s.hung.Swap(true) {
		return s.memoryStore.List(ctx, of)
	}
	return func(yield func(DeadLetter, error) bool) {
		<-ctx.Done()
		yield(DeadLetter{}, context.Cause(ctx))
	}
}

// laggingStore is a store whose Holds sees a dead letter only 20 ms after Put.
type laggingStore struct {
	memoryStore
	lastPut time.Time
}

func (s *laggingStore) Put(ctx context.Context, d DeadLetter) error {
	s.lastPut = time.Now()
	return s.memoryStore.Put(ctx, d)
}

func (s *laggingStore) Holds(ctx context.Context, of DeadLetterSource, key string) (bool, error) {
	if time.Since(s.lastPut) < 20*time.Millisecond { // a replica that is 20 ms behind
		return false, nil
	}
	return s.memoryStore.Holds(ctx, of, key)
}

// slowStore answers Holds only after the trust in a lease has ended.
type slowStore struct {
	memoryStore
	onHolds func()
}

func (s *slowStore) Holds(context.Context, DeadLetterSource, string) (bool, error) {
	s.onHolds()
	time.Sleep(58 * time.Second)
	return false, nil
}

// countingStore counts the lists of a store and the dead letters that they load. Each
// dead letter takes a time to load.
type countingStore struct {
	memoryStore
	loadTime     time.Duration
	lists, loads atomic.Int64
}

func (s *countingStore) List(ctx context.Context, of DeadLetterSource) iter.Seq2[DeadLetter, error] {
	s.lists.Add(1)
	all := s.memoryStore.List(ctx, of)
	return func(yield func(DeadLetter, error) bool) {
		for d := range all {
			if err := backoff.Sleep(ctx, s.loadTime); err != nil {
				yield(DeadLetter{}, err)
				return
			}
			s.loads.Add(1)
			if !yield(d, nil) {
				return
			}
		}
	}
}

// withLetters adds dead letters, each with a key of its own.
func (s *countingStore) withLetters(w *world, n int) *countingStore {
	of := w.source()
	for i := range n {
		s.deadLetters = append(s.deadLetters, DeadLetter{
			ID: fmt.Sprint("letter ", i), Function: of.Function, Account: of.Account, Database: of.Database, Container: of.Container,
			Key: fmt.Sprintf(`["gone %d"]`, i), LSN: 1, Time: time.Now(),
		})
	}
	return s
}

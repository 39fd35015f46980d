package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

func (s *memoryStore) Query(_ context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SelectDeadLetters(slices.Values(s.deadLetters), q)
}

// all returns the records of both kinds in the order of their places.
func (s *memoryStore) all() []DeadLetter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.deadLetters)
	slices.SortStableFunc(all, func(a, b DeadLetter) int { return cmp.Or(cmp.Compare(a.Order, b.Order), a.Time.Compare(b.Time)) })
	return all
}

func (s *memoryStore) Delete(_ context.Context, d DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadLetters = slices.DeleteFunc(s.deadLetters, func(o DeadLetter) bool { return o.ID == d.ID })
	return nil
}

func (s *memoryStore) Holds(_ context.Context, source DeadLetterSource, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.deadLetters, func(o DeadLetter) bool { return o.Source() == source && o.Key == key && !o.IsPostponed() }), nil
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
func withStore(s *memoryStore, extra ...func(*Function)) func(*Function, *Options) {
	return func(f *Function, _ *Options) {
		f.DeadLetters = s
		for _, m := range extra {
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

func (s *damagedStore) Holds(ctx context.Context, source DeadLetterSource, key string) (bool, error) {
	holds, err := s.memoryStore.Holds(ctx, source, key)
	return holds || key == s.key, err
}

func (s *damagedStore) Query(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	page, err := s.memoryStore.Query(ctx, q)
	if q.Cursor == "" {
		page.Damaged = append(page.Damaged, fmt.Errorf("blob x: %w", ErrDamaged))
	}
	return page, err
}

// hangingStore does not answer the first Query.
type hangingStore struct {
	memoryStore
	hung atomic.Bool
}

func (s *hangingStore) Query(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	if s.hung.Swap(true) {
		return s.memoryStore.Query(ctx, q)
	}
	<-ctx.Done()
	return DeadLetterPage{}, context.Cause(ctx)
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

func (s *laggingStore) Holds(ctx context.Context, source DeadLetterSource, key string) (bool, error) {
	if time.Since(s.lastPut) < 20*time.Millisecond { // a replica that is 20 ms behind
		return false, nil
	}
	return s.memoryStore.Holds(ctx, source, key)
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

func (s *countingStore) Query(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	if q.Cursor == "" && q.Kind == RecordDead {
		s.lists.Add(1)
	}
	q.Limit = 2 // so that a page takes less than a minute
	page, err := s.memoryStore.Query(ctx, q)
	for range page.Records {
		if err := backoff.Sleep(ctx, s.loadTime); err != nil {
			return DeadLetterPage{}, err
		}
		s.loads.Add(1)
	}
	return page, err
}

// withLetters adds dead letters, each with a key of its own.
func (s *countingStore) withLetters(w *world, n int) *countingStore {
	source := w.source()
	for i := range n {
		s.deadLetters = append(s.deadLetters, DeadLetter{
			Version: DeadLetterVersion, Kind: RecordDead, ID: fmt.Sprint("letter ", i), Function: source.Function, Account: source.Account, Database: source.Database, Container: source.Container,
			Key: fmt.Sprintf(`["gone %d"]`, i), LSN: 1, Time: time.Now(),
		})
	}
	return s
}

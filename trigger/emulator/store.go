package emulator

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// store keeps an account in one bbolt file. Writers queue records while they hold
// the lock of the state behind them, and get rising tickets. When a caller waits
// for a ticket, it commits the whole queue in one transaction, or waits if another
// caller is committing: many writers share one sync of the disk, and the store
// needs no goroutine. A nil store keeps nothing.
type store struct {
	db *bolt.DB

	mu      sync.Mutex
	queue   []record
	ticket  uint64        // of the newest record in queue
	durable uint64        // all tickets up to here are on disk
	busy    chan struct{} // closed when the running commit ends; nil if none runs
	err     error         // of the first commit that failed; ends the store
}

// record is one key of one bucket to put, or to delete if value is nil. If key is
// nil, the whole bucket is deleted.
type record struct {
	bucket     string
	key, value []byte
}

// openTimeout is how long another process may hold the file.
const openTimeout = time.Second

func openStore(directory string) (*store, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	options := &bolt.Options{Timeout: openTimeout, FreelistType: bolt.FreelistMapType, NoFreelistSync: true}
	db, err := bolt.Open(filepath.Join(directory, "account.db"), 0o600, options)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, errors.New("the directory is in use by another emulator: end it or choose another directory")
	}
	if err != nil {
		return nil, err
	}
	return &store{db: db}, nil
}

// enqueue adds records and returns the ticket to wait for. It does not block.
func (s *store) enqueue(records ...record) uint64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, records...)
	s.ticket++
	return s.ticket
}

// wait returns when all records up to ticket are on disk, or with the error of the
// first commit that failed.
func (s *store) wait(ticket uint64) error {
	if s == nil {
		return nil
	}
	for {
		s.mu.Lock()
		switch {
		case s.err != nil || s.durable >= ticket:
			defer s.mu.Unlock()
			return s.err
		case s.busy != nil:
			busy := s.busy
			s.mu.Unlock()
			<-busy
		default:
			s.commit() // unlocks
		}
	}
}

// commit writes the queue. The caller holds mu, which is released meanwhile.
func (s *store) commit() {
	queue, ticket, busy := s.queue, s.ticket, make(chan struct{})
	s.queue, s.busy = nil, busy
	s.mu.Unlock()
	err := s.db.Update(func(tx *bolt.Tx) error { return put(tx, queue) })
	s.mu.Lock()
	s.durable, s.err, s.busy = ticket, err, nil
	s.mu.Unlock()
	close(busy)
}

func put(tx *bolt.Tx, records []record) error {
	for _, r := range records {
		if err := r.put(tx); err != nil {
			return err
		}
	}
	return nil
}

func (r record) put(tx *bolt.Tx) error {
	if r.key == nil {
		err := tx.DeleteBucket([]byte(r.bucket))
		if errors.Is(err, bolterrors.ErrBucketNotFound) {
			return nil
		}
		return err
	}
	bucket, err := tx.CreateBucketIfNotExists([]byte(r.bucket))
	switch {
	case err != nil:
		return err
	case r.value == nil:
		return bucket.Delete(r.key)
	}
	return bucket.Put(r.key, r.value)
}

// close commits the queue and closes the file.
func (s *store) close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	ticket := s.ticket
	s.mu.Unlock()
	return errors.Join(s.wait(ticket), s.db.Close())
}

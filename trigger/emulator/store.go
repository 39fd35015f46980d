package emulator

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
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
//
// If a commit fails, as on a full disk, the store gives up its reserve and commits
// again, so that all that readers may have seen is on disk. Then it refuses writes
// until it can write its reserve again; reads continue.
type store struct {
	directory string
	log       *slog.Logger
	db        *bolt.DB
	update    func(func(*bolt.Tx) error) error // db.Update, or a failing disk in tests

	mu      sync.Mutex
	queue   []record
	ticket  uint64        // of the newest record in queue
	durable uint64        // all tickets up to here are on disk
	busy    chan struct{} // closed when the running commit ends; nil if none runs
	failure error         // of the last commit or reserve; nil while writes are possible
	retry   time.Time     // before which failure is the answer to writes
}

// record is one key of one bucket to put, or to delete if value is nil. If key is
// nil, the whole bucket is deleted.
type record struct {
	bucket     string
	key, value []byte
}

const (
	// openTimeout is how long another process may hold the file.
	openTimeout = time.Second

	// reserveBytes is the size of the file that makes room for a last commit on a full
	// disk: more than requests that are under way write.
	reserveBytes = 4 << 20

	// retryAfter is how long a store waits between attempts to write again.
	retryAfter = time.Second
)

const (
	dataFile    = "account.db"
	reserveFile = "reserve"
)

func boltOptions() *bolt.Options {
	return &bolt.Options{Timeout: openTimeout, FreelistType: bolt.FreelistMapType, NoFreelistSync: true}
}

func openStore(directory string, log *slog.Logger) (*store, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(directory, dataFile)
	if _, err := checkData(file, nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	db, err := bolt.Open(file, 0o600, boltOptions())
	if err != nil {
		return nil, openError(file, err)
	}
	s := &store{directory: directory, log: log, db: db, update: db.Update}
	if err := s.makeReserve(); err != nil {
		s.fail(err)
	}
	return s, nil
}

// checkData fails if the file of an account is in use or damaged. It returns the number
// of pages that hold data, and calls found with each key and value unless it is nil.
func checkData(file string, found func(bucket string, key, value []byte) error) (pages int, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	if info.Size() == 0 {
		return 0, fmt.Errorf("%s is empty, which no account is: restore it from a copy, or remove it to begin with an empty account", file)
	}
	options := boltOptions()
	options.ReadOnly = true // locks the file, and reads the meta pages only
	db, err := bolt.Open(file, 0o600, options)
	if err != nil {
		return 0, openError(file, err)
	}
	f, err := os.Open(file)
	if err != nil {
		return 0, errors.Join(err, db.Close())
	}
	pages, err = checkPages(f, found)
	return pages, errors.Join(err, f.Close(), db.Close())
}

func openError(file string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return errors.New("the directory is in use by another emulator: end it or choose another directory")
	}
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch) {
		return &damage{file, 0, "the file is not that of an account (" + err.Error() + ")"}
	}
	return err
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

// wait returns when all records up to ticket are on disk, or with the error of a commit
// that failed.
func (s *store) wait(ticket uint64) error {
	if s == nil {
		return nil
	}
	for {
		s.mu.Lock()
		switch {
		case s.durable >= ticket:
			s.mu.Unlock()
			return nil
		case s.failure != nil && time.Now().Before(s.retry):
			defer s.mu.Unlock()
			return s.failure
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
	write := func() error { return s.update(func(tx *bolt.Tx) error { return put(tx, queue) }) }
	failure := write()
	err := failure
	if failure != nil && s.dropReserve() {
		err = write()
	}
	s.mu.Lock()
	if s.busy = nil; err == nil {
		s.durable = ticket
	} else {
		s.queue = append(queue, s.queue...)
	}
	if failure != nil {
		s.fail(failure)
	}
	s.mu.Unlock()
	close(busy)
}

// fail refuses writes for a while. The caller holds mu, or has the store for itself.
func (s *store) fail(err error) {
	if s.failure == nil {
		s.log.Error("emulator data cannot be written: writes are refused until there is room, reads continue", "directory", s.directory, "error", err)
	}
	s.failure, s.retry = err, time.Now().Add(retryAfter)
}

// writable returns an error if the disk takes no writes. It tries again from time to
// time.
func (s *store) writable() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	if s.failure == nil {
		s.mu.Unlock()
		return nil
	}
	if time.Now().Before(s.retry) {
		defer s.mu.Unlock()
		return s.refusal()
	}
	s.retry = time.Now().Add(retryAfter) // only this caller tries
	ticket := s.ticket
	s.mu.Unlock()
	err := s.makeReserve()
	if err == nil {
		err = s.recommit(ticket)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.fail(err)
		return s.refusal()
	}
	if s.failure != nil {
		s.log.Info("emulator data can be written again: writes are accepted", "directory", s.directory)
	}
	s.failure = nil
	return nil
}

// recommit writes what a failed commit has left, if it has.
func (s *store) recommit(ticket uint64) error {
	s.mu.Lock()
	if s.durable >= ticket || s.busy != nil {
		s.mu.Unlock()
		return nil
	}
	oldDurable := s.durable
	s.commit() // unlocks
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.durable == oldDurable {
		return s.failure
	}
	return nil
}

// refusal is the answer to writes. The caller holds mu.
func (s *store) refusal() error {
	return fail(http.StatusServiceUnavailable, 0, "The emulator cannot write its data: %v. Reads continue; writes resume when there is room in %s.", s.failure, s.directory)
}

// failing reports whether the disk takes no writes.
func (s *store) failing() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure != nil
}

// makeReserve writes the reserve, if it is missing or not whole.
func (s *store) makeReserve() error {
	file := filepath.Join(s.directory, reserveFile)
	if info, err := os.Stat(file); err == nil && info.Size() == reserveBytes {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, reserveBytes))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// dropReserve makes room for a commit. It returns false if there is no reserve.
func (s *store) dropReserve() bool { return os.Remove(filepath.Join(s.directory, reserveFile)) == nil }

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
	s.retry = time.Time{} // once more, whatever failed before
	s.mu.Unlock()
	return errors.Join(s.wait(ticket), s.db.Close())
}

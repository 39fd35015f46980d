package deadletter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"halley/trigger"
	"halley/trigger/deadletter/internal/record"
)

// DirectoryOptions are the options of [NewDirectory]. The zero value of each
// field means its default.
type DirectoryOptions struct {
	// Report is called with a [DamageError] for each damaged part of a file
	// when it is found, and with the error of a failed compaction. Query returns
	// the damage in any case. Report must not use the store.
	Report func(error)
	// CompactBytes is how many bytes of a file must belong to deleted dead
	// letters before the file is rewritten without them. They must also exceed
	// the bytes of the others. The default is 1 MiB.
	CompactBytes int64
}

// Directory stores dead letters in files of a directory, one for each function.
// Several processes on one machine may share it. The disk should be local,
// because Directory relies on file locks, rename and fsync.
//
// Files are append-only and consist of frames with lengths and checksums. If a
// crash leaves an incomplete frame or the disk loses data, Directory reports
// and skips that part; a compaction moves it to a file of the same name with
// the suffix .damaged, for an operator to inspect. Put returns after fsync. If
// the disk is full, Put returns an error and leaves the file as it was.
//
// Dead letters contain documents of users, so Directory refuses to work in a
// directory that others could prepare or change. The group and others must not
// have write permission for it, with or without the sticky bit, because they could
// create files under the names that the store uses. A directory above it may be
// writable by all only with the sticky bit, as /tmp is. Windows has no such bits:
// there, the access control list is not checked. No symbolic link is followed,
// neither in the path nor for a file; this is checked again before each use.
//
// Each dead letter uses about 200 bytes of memory. A directory cannot query: a page reads at
// most 1,000 records, or 8 MB, or for 20 seconds, and a query that selects by error reads all
// that its other filters leave. The file of a later version of Halley can be shared: its
// records count as damaged, and are kept.
type Directory struct {
	path    string
	options DirectoryOptions
	search  *record.Search

	mu       sync.Mutex // guards journals
	journals map[string]*journal
}

// NewDirectory returns a store in a directory, which it creates with permissions
// for the owner alone if it does not exist.
func NewDirectory(path string, opts *DirectoryOptions) (*Directory, error) {
	d := &Directory{journals: map[string]*journal{}, search: record.NewSearch(record.DefaultWindow)}
	if opts != nil {
		d.options = *opts
	}
	if d.options.CompactBytes < 0 {
		return nil, errors.New("dead letter directory: option CompactBytes is negative")
	}
	if d.options.CompactBytes == 0 {
		d.options.CompactBytes = 1 << 20
	}
	if path == "" {
		return nil, errors.New("dead letter directory: no path given")
	}
	var err error
	if d.path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("dead letter directory %q: %w", path, err)
	}
	if err := checkDirectory(d.path); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(d.path, 0o700); err != nil {
			return nil, fmt.Errorf("dead letter directory: %w", err)
		}
	}
	if err := checkDirectory(d.path); err != nil {
		return nil, fmt.Errorf("dead letter directory: %w", err)
	}
	if err := syncDirectory(filepath.Dir(d.path)); err != nil {
		return nil, fmt.Errorf("dead letter directory: %w", err)
	}
	return d, nil
}

// Put appends the dead letter and returns after fsync.
func (d *Directory) Put(ctx context.Context, l trigger.DeadLetter) error {
	if err := record.Check(l); err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	err := d.journal(l.Source()).withLock(ctx, func(j *journal) error { return j.put(l) })
	if err != nil {
		return fmt.Errorf("store dead letter %q: %w", l.ID, err)
	}
	return nil
}

// Delete appends a frame that marks the dead letter as deleted, and compacts
// the file if that is worthwhile.
func (d *Directory) Delete(ctx context.Context, l trigger.DeadLetter) error {
	err := d.journal(l.Source()).withLock(ctx, func(j *journal) error {
		if err := j.remove(l.ID); err != nil {
			return err
		}
		if !j.needsCompaction(d.options.CompactBytes) {
			return nil
		}
		if err := j.compact(); err != nil && d.options.Report != nil {
			d.options.Report(fmt.Errorf("compact %s: %w", j.path, err)) // the dead letter is deleted nevertheless
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete dead letter %q: %w", l.ID, err)
	}
	return nil
}

// Holds looks up the key in memory, after reading the frames that other
// processes have appended. The keys in a damaged part of a file are unknown and
// do not count.
func (d *Directory) Holds(ctx context.Context, source trigger.DeadLetterSource, key string) (holds bool, err error) {
	err = d.journal(source).withLock(ctx, func(j *journal) error {
		holds = j.keys[record.Digest(key)] > 0
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look for dead letters of key %s: %w", key, err)
	}
	return holds, nil
}

// Query selects by all but the error in memory, and reads the records that are left. The
// damaged parts of a file may be of any record: each is reported with the first page.
func (d *Directory) Query(ctx context.Context, q trigger.DeadLetterQuery) (page trigger.DeadLetterPage, err error) {
	var w *record.Window
	var s *snapshot
	err = d.journal(q.Source).withLock(ctx, func(j *journal) (err error) {
		if w, err = d.search.Window(q, j.scan(q)); err != nil {
			return err
		}
		s, err = j.snapshot(w.Positions())
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list dead letters of %v: %w", q.Source, err)
	}
	defer s.close()
	if page, err = w.Page(func(p record.Position) (trigger.DeadLetter, bool, error) { return s.read(ctx, p.At) }); err != nil {
		return page, fmt.Errorf("list dead letters of %v: %w", q.Source, err)
	}
	if q.Cursor == "" {
		page.Damaged = append(page.Damaged, s.damage...)
	}
	for i, damage := range page.Damaged {
		page.Damaged[i] = fmt.Errorf("list dead letters of %v: %w", q.Source, damage)
	}
	return page, nil
}

func (d *Directory) journal(source trigger.DeadLetterSource) *journal {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := record.SourceName(source)
	j := d.journals[name]
	if j == nil {
		j = newJournal(filepath.Join(d.path, name+".letters"), source, d.options.Report)
		d.journals[name] = j
	}
	return j
}

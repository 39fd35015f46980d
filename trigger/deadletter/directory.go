package deadletter

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	// when it is found, and with the error of a failed compaction. List returns
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
// Each dead letter uses about 200 bytes of memory.
type Directory struct {
	path    string
	options DirectoryOptions

	mu       sync.Mutex // guards journals
	journals map[string]*journal
}

// NewDirectory returns a store in a directory, which it creates with permissions
// for the owner alone if it does not exist.
func NewDirectory(path string, opts *DirectoryOptions) (*Directory, error) {
	d := &Directory{journals: map[string]*journal{}}
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
func (d *Directory) Holds(ctx context.Context, of trigger.DeadLetterSource, key string) (holds bool, err error) {
	err = d.journal(of).withLock(ctx, func(j *journal) error {
		holds = j.keys[record.Digest(key)] > 0
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look for dead letters of key %s: %w", key, err)
	}
	return holds, nil
}

// List yields the dead letters that exist when it begins, and then an error for
// each damaged part of the file.
func (d *Directory) List(ctx context.Context, of trigger.DeadLetterSource) iter.Seq2[trigger.DeadLetter, error] {
	return d.list(ctx, of, func(entry) bool { return true })
}

// Postponed yields the postponed changes that exist when it begins, and the damage as List
// does.
func (d *Directory) Postponed(ctx context.Context, of trigger.DeadLetterSource, key string) iter.Seq2[trigger.DeadLetter, error] {
	digest := record.Digest(key)
	return d.list(ctx, of, func(e entry) bool { return e.postponed && (key == "" || e.key == digest) })
}

func (d *Directory) list(ctx context.Context, of trigger.DeadLetterSource, wanted func(entry) bool) iter.Seq2[trigger.DeadLetter, error] {
	return func(yield func(trigger.DeadLetter, error) bool) {
		var s *snapshot
		err := d.journal(of).withLock(ctx, func(j *journal) (err error) {
			s, err = j.snapshot(wanted)
			return err
		})
		if err != nil {
			yield(trigger.DeadLetter{}, fmt.Errorf("list dead letters of %v: %w", of, err))
			return
		}
		defer s.close()
		for l, err := range s.deadLetters(ctx) {
			if err != nil {
				err = fmt.Errorf("list dead letters of %v: %w", of, err)
			}
			if !yield(l, err) || err != nil && !isDamage(err) {
				return
			}
		}
		for _, damage := range s.damage {
			if !yield(trigger.DeadLetter{}, fmt.Errorf("list dead letters of %v: %w", of, damage)) {
				return
			}
		}
	}
}

func (d *Directory) journal(of trigger.DeadLetterSource) *journal {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := record.SourceName(of)
	j := d.journals[name]
	if j == nil {
		j = newJournal(filepath.Join(d.path, name+".letters"), of, d.options.Report)
		d.journals[name] = j
	}
	return j
}

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
)

// DirectoryOptions are the options of [NewDirectory]; the zero value of each
// field means the default that it names.
type DirectoryOptions struct {
	// Report is called with each damaged part of a file when it is found, a
	// [DamageError], and with a compaction that failed. It is a notice:
	// List yields the damage at its end in any case. It must not use the store.
	Report func(error)
	// CompactBytes is how much of a file must be dead before it is written
	// anew without what was deleted; it must be more than what is alive, too.
	// By default 1 MiB.
	CompactBytes int64
}

// Directory keeps letters in files of a directory, one for each function.
// Several processes on one machine may share it; the disk should be a local
// one, for it relies on file locks, on rename and on fsync.
//
// A file is only ever appended to, in frames with lengths and checksums. What a
// crash left half written, or a disk lost, is reported and skipped; when the
// file is compacted it goes to a file of the same name and .damaged, for people
// to look at. A Put returns after fsync; a full disk is its error, and leaves
// the file as it was.
//
// Some 200 bytes are kept in memory for each letter.
type Directory struct {
	path    string
	options DirectoryOptions

	mu       sync.Mutex
	journals map[string]*journal
}

// NewDirectory makes a store of a directory, and the directory where it is not
// there.
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
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return nil, fmt.Errorf("dead letter directory: %w", err)
	}
	if err := syncDirectory(filepath.Dir(d.path)); err != nil {
		return nil, fmt.Errorf("dead letter directory: %w", err)
	}
	return d, nil
}

// Put appends the letter and waits until the disk has it.
func (d *Directory) Put(ctx context.Context, l trigger.DeadLetter) error {
	if err := check(l); err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	err := d.journal(l.Function).locked(ctx, func(j *journal) error { return j.put(l) })
	if err != nil {
		return fmt.Errorf("store dead letter %q: %w", l.ID, err)
	}
	return nil
}

// Delete appends that the letter is no more.
func (d *Directory) Delete(ctx context.Context, l trigger.DeadLetter) error {
	err := d.journal(l.Function).locked(ctx, func(j *journal) error {
		if err := j.remove(l.ID); err != nil {
			return err
		}
		if !j.mostlyDead(d.options.CompactBytes) {
			return nil
		}
		if err := j.compact(); err != nil && d.options.Report != nil {
			d.options.Report(fmt.Errorf("compact %s: %w", j.path, err)) // the letter is deleted all the same
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete dead letter %q: %w", l.ID, err)
	}
	return nil
}

// Holds looks in memory, after it has read what other processes appended. Of a
// damaged part of the file no key is known, so it counts for none.
func (d *Directory) Holds(ctx context.Context, function, key string) (holds bool, err error) {
	err = d.journal(function).locked(ctx, func(j *journal) error {
		holds = j.keys[digest(key)] > 0
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look for dead letters of key %s: %w", key, err)
	}
	return holds, nil
}

// List yields the letters that are there when it begins, and then an error for
// each damaged part of the file.
func (d *Directory) List(ctx context.Context, function string) iter.Seq2[trigger.DeadLetter, error] {
	return func(yield func(trigger.DeadLetter, error) bool) {
		var s *snapshot
		err := d.journal(function).locked(ctx, func(j *journal) (err error) {
			s, err = j.snapshot()
			return err
		})
		if err != nil {
			yield(trigger.DeadLetter{}, fmt.Errorf("list dead letters of function %q: %w", function, err))
			return
		}
		defer s.close()
		for l, err := range s.letters(ctx) {
			if err != nil {
				err = fmt.Errorf("list dead letters of function %q: %w", function, err)
			}
			if !yield(l, err) || err != nil && !isDamage(err) {
				return
			}
		}
		for _, damage := range s.damage {
			if !yield(trigger.DeadLetter{}, fmt.Errorf("list dead letters of function %q: %w", function, damage)) {
				return
			}
		}
	}
}

func (d *Directory) journal(function string) *journal {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.journals[function]
	if j == nil {
		j = newJournal(filepath.Join(d.path, readable(function)+".letters"), function, d.options.Report)
		d.journals[function] = j
	}
	return j
}

package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Store keeps blobs. Names have slashes, and a blob never changes.
type Store interface {
	// Create stores a blob as a whole, or not at all. If one of that name exists, it
	// stays, and existed is true.
	Create(ctx context.Context, name string, body []byte, contentType string) (existed bool, err error)
	// List goes through the names with a prefix, sorted.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Read returns a blob.
	Read(ctx context.Context, name string) ([]byte, error)
	// Delete removes a blob, if it exists.
	Delete(ctx context.Context, name string) error
}

// Directory is a store of files. Several processes may use it. Files that are being written
// are in its directory .drafts, which readers such as Spark leave out. What killed hosts have
// left there is removed by later calls of Create, an hour after it was written.
type Directory string

// draftAge is the age of drafts that are removed. If the host of one is alive, its call fails
// and is repeated.
const draftAge = time.Hour

// Create writes a draft, and links it in its place: a link does not replace a file that
// exists.
func (d Directory) Create(_ context.Context, name string, body []byte, _ string) (existed bool, err error) {
	target := d.path(name)
	if _, err := os.Stat(target); err == nil {
		return true, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return false, err
	}
	draft, err := d.draft()
	if err != nil {
		return false, err
	}
	defer os.Remove(draft.Name())
	if _, err = draft.Write(body); err == nil {
		err = errors.Join(draft.Sync(), d.removeDrafts(draft))
	}
	if err := errors.Join(err, draft.Close()); err != nil {
		return false, fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Chmod(draft.Name(), 0o644); err != nil {
		return false, err
	}
	err = os.Link(draft.Name(), target)
	if errors.Is(err, fs.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("publish %s: %w", name, err)
	}
	return false, syncDirectory(filepath.Dir(target))
}

// draft creates a file of a name of its own.
func (d Directory) draft() (*os.File, error) {
	drafts := d.path(".drafts")
	if err := os.MkdirAll(drafts, 0o755); err != nil {
		return nil, err
	}
	return os.CreateTemp(drafts, "*")
}

// removeDrafts removes the drafts that are much older than a fresh one, by the clock of the
// file system.
func (d Directory) removeDrafts(fresh *os.File) error {
	now, err := fresh.Stat()
	if err != nil {
		return err
	}
	drafts, err := os.ReadDir(filepath.Dir(fresh.Name()))
	for _, draft := range drafts {
		info, gone := draft.Info()
		if gone == nil && now.ModTime().Sub(info.ModTime()) > draftAge {
			_ = os.Remove(d.path(".drafts/" + draft.Name())) // another host may have removed it
		}
	}
	return err
}

// syncDirectory makes the entries of a directory durable. Windows does not offer that.
func syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (d Directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// List reads the names into memory.
func (d Directory) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var names []string
		err := filepath.WalkDir(string(d), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != string(d) {
				return fs.SkipDir
			}
			within, err := filepath.Rel(string(d), path)
			name := filepath.ToSlash(within)
			if err == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
			return errors.Join(err, ctx.Err())
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield("", fmt.Errorf("list %s: %w", d, err))
			return
		}
		slices.Sort(names)
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Read implements Store.
func (d Directory) Read(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(d.path(name))
}

// Delete implements Store.
func (d Directory) Delete(_ context.Context, name string) error {
	if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

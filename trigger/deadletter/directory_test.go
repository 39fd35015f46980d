package deadletter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger"
	"halley/trigger/deadletter/internal/record"
	"halley/trigger/triggertest"
)

func newDirectory(t testing.TB, path string, opts *DirectoryOptions) *Directory {
	t.Helper()
	d, err := NewDirectory(path, opts)
	must(t, err)
	return d
}

func TestDirectoryContract(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	triggertest.TestDeadLetters(t, func(t *testing.T) trigger.DeadLetters {
		return newDirectory(t, path, &DirectoryOptions{CompactBytes: 1, Report: func(error) {}})
	}, spoiling{Name: "version", KeepsKey: true, Do: func(t *testing.T, d trigger.DeadLetter) string {
		writeLater(t, path, d)
		return "use a newer Halley"
	}}, spoiling{Name: "byte", Do: func(t *testing.T, d trigger.DeadLetter) string {
		file := filepath.Join(path, record.SourceName(d.Source())+".letters")
		b := read(t, file)
		b[bytes.Index(b, []byte(d.Error))] ^= 0x20
		must(t, os.WriteFile(file, b, 0o600))
		return file
	}})
	entries, err := os.ReadDir(filepath.Join(path, "..", "..", "..", ".."))
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != "made" {
		t.Errorf("a function's name left the directory: %v", entries)
	}
	files, err := os.ReadDir(path)
	must(t, err)
	for _, f := range files {
		info, err := f.Info()
		must(t, err)
		if strings.Trim(f.Name(), "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || len(f.Name()) > 100 || info.Mode().Perm() != 0o600 {
			t.Errorf("file %s, mode %s", f.Name(), info.Mode())
		}
	}
}

func TestDirectoryOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for name, open := range map[string]func() error{
		"no path":      func() error { _, err := NewDirectory("", nil); return err },
		"a file":       func() error { _, err := NewDirectory(file, nil); return err },
		"CompactBytes": func() error { _, err := NewDirectory(t.TempDir(), &DirectoryOptions{CompactBytes: -1}); return err },
	} {
		if open() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// fileOf returns the path of the file of function f.
func fileOf(path string) string { return filepath.Join(path, record.SourceName(of("f"))+".letters") }

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

// survey returns the IDs of the intact dead letters and the number of damaged
// ones.
func survey(t *testing.T, s trigger.DeadLetters) (intact []string, damaged int) {
	t.Helper()
	for d, err := range trigger.AllDeadLetters(t.Context(), s, dead("f")) {
		switch {
		case err == nil:
			intact = append(intact, d.ID)
		case isDamage(err):
			damaged++
		default:
			t.Fatal(err)
		}
	}
	return intact, damaged
}

// A crash may leave any part of the last frame. Then that dead letter is not
// stored, and later calls of Put succeed.
func TestIncompleteFramesAreSkipped(t *testing.T) {
	path := t.TempDir()
	s := newDirectory(t, path, nil)
	must(t, s.Put(t.Context(), letter("f", "a")))
	oldFile := read(t, fileOf(path))
	must(t, s.Put(t.Context(), letter("f", "b")))
	put := read(t, fileOf(path))
	must(t, s.Delete(t.Context(), letter("f", "a")))
	deleted := read(t, fileOf(path))
	edges := []int{len(oldFile) - 1, len(oldFile), len(put) - 1, len(put), len(deleted) - 1, len(deleted)}
	for length := len(oldFile) - 20; length <= len(deleted); length++ {
		torn := t.TempDir()
		must(t, os.WriteFile(fileOf(torn), deleted[:length], 0o600))
		s := newDirectory(t, torn, nil)
		var want []string
		if length >= len(oldFile)-1 && length < len(deleted)-1 {
			want = append(want, "a")
		}
		if length >= len(put)-1 {
			want = append(want, "b")
		}
		intact, damaged := survey(t, s)
		if fmt.Sprint(intact) != fmt.Sprint(want) || (damaged == 0) != slices.Contains(edges, length) {
			t.Fatalf("torn at %d: dead letters %v, want %v; %d damaged", length, intact, want, damaged)
		}
		must(t, s.Put(t.Context(), letter("f", "b")))
		must(t, s.Put(t.Context(), letter("f", "c")))
		if !slices.Contains(want, "b") {
			want = append(want, "b")
		}
		reread, _ := survey(t, newDirectory(t, torn, nil))
		if fmt.Sprint(reread) != fmt.Sprint(append(want, "c")) {
			t.Fatalf("torn at %d, then b and c: dead letters %v", length, reread)
		}
	}
}

func TestDamageIsReportedAndKept(t *testing.T) {
	path := t.TempDir()
	var reports []error
	opts := &DirectoryOptions{CompactBytes: 1, Report: func(err error) { reports = append(reports, err) }}
	s := newDirectory(t, path, opts)
	for _, id := range []string{"a", "b", "c"} {
		must(t, s.Put(t.Context(), letter("f", id)))
	}
	b := read(t, fileOf(path))
	i := bytes.Index(b, []byte(`\"id\":\"b\"`))
	b[i] ^= 0x20
	must(t, os.WriteFile(fileOf(path), b, 0o600))
	s = newDirectory(t, path, opts)
	if intact, damaged := survey(t, s); fmt.Sprint(intact) != "[a c]" || damaged != 1 {
		t.Errorf("dead letters %v, %d damaged", intact, damaged)
	}
	if len(reports) != 1 || !isDamage(reports[0]) || !strings.Contains(reports[0].Error(), fileOf(path)) {
		t.Errorf("reports %v", reports)
	}
	intact, damaged := survey(t, newDirectory(t, path, nil))
	if len(intact) != 2 || damaged != 1 {
		t.Errorf("without a reporter: dead letters %v, %d damaged", intact, damaged)
	}
	must(t, s.Delete(t.Context(), letter("f", "a"))) // and now most is dead
	same(t, ids(list(t, s, "f")), []string{"c"})
	if kept := read(t, fileOf(path)+".damaged"); !bytes.Contains(b, kept) || !bytes.Contains(kept, []byte(`b\"}`)) {
		t.Errorf("kept of the damage: %q", kept)
	}
	if intact, damaged := survey(t, newDirectory(t, path, nil)); len(intact) != 1 || damaged != 0 {
		t.Errorf("after compaction: dead letters %v, %d damaged", intact, damaged)
	}
}

// writeLater replaces a dead letter by one of a later version, as another process writes it.
func writeLater(t *testing.T, path string, d trigger.DeadLetter) {
	t.Helper()
	j := newDirectory(t, path, nil).journal(d.Source())
	must(t, j.withLock(t.Context(), func(j *journal) error {
		payload, err := record.Marshal(map[string]any{
			"version": trigger.DeadLetterVersion + 1, "id": d.ID, "function": d.Function, "account": d.Account, "database": d.Database, "container": d.Container,
			"key": d.Key, "lsn": "in another form",
		})
		must(t, err)
		return errors.Join(j.remove(d.ID), j.append(frameDeadLetter, payload))
	}))
}

// A directory may be shared with a later version of Halley: a compaction keeps its records.
func TestCompactionKeepsRecordsOfALaterVersion(t *testing.T) {
	path := t.TempDir()
	later := letter("f", "later")
	must(t, newDirectory(t, path, nil).Put(t.Context(), later))
	writeLater(t, path, later)
	var reports []error
	s := newDirectory(t, path, &DirectoryOptions{CompactBytes: 1, Report: func(err error) { reports = append(reports, err) }})
	must(t, s.Put(t.Context(), letter("f", "a")))
	oldSize := len(read(t, fileOf(path)))
	must(t, s.Delete(t.Context(), letter("f", "a")))
	if now := len(read(t, fileOf(path))); now >= oldSize {
		t.Errorf("the file of %d bytes has %d, and was not compacted", oldSize, now)
	}
	if intact, damaged := survey(t, newDirectory(t, path, nil)); len(intact) != 0 || damaged != 1 {
		t.Errorf("dead letters %v, %d damaged", intact, damaged)
	}
	if len(reports) == 0 || !isDamage(reports[0]) {
		t.Errorf("reports %v", reports)
	}
	must(t, s.Put(t.Context(), later)) // it is there, though this version cannot read it
	must(t, s.Delete(t.Context(), later))
	if intact, damaged := survey(t, newDirectory(t, path, nil)); len(intact)+damaged != 0 {
		t.Errorf("dead letters %v, %d damaged", intact, damaged)
	}
}

// A dead letter in the file of another function is damage, because files were
// mixed up.
func TestDeadLettersOfAnotherFunctionAreDamage(t *testing.T) {
	path := t.TempDir()
	must(t, newDirectory(t, path, nil).Put(t.Context(), letter("g", "a")))
	must(t, os.Rename(filepath.Join(path, record.SourceName(of("g"))+".letters"), fileOf(path)))
	if intact, damaged := survey(t, newDirectory(t, path, nil)); len(intact) != 0 || damaged != 1 {
		t.Errorf("dead letters %v, %d damaged", intact, damaged)
	}
}

func TestCompactionKeepsDeadLetters(t *testing.T) {
	path := t.TempDir()
	s, other := newDirectory(t, path, &DirectoryOptions{CompactBytes: 4000}), newDirectory(t, path, nil)
	for i := range 40 {
		d := letter("f", fmt.Sprintf("%02d", i))
		d.LSN = int64(i)
		must(t, s.Put(t.Context(), d))
	}
	full := len(read(t, fileOf(path)))
	all := list(t, other, "f")
	q := dead("f")
	q.Limit = 10
	var pages []string // the first is of the old file, the others come after it was replaced
	for d, err := range trigger.AllDeadLetters(t.Context(), other, q) {
		must(t, err)
		if pages = append(pages, d.ID); len(pages) == 1 {
			for _, d := range all[:35] {
				must(t, s.Delete(t.Context(), d))
			}
		}
	}
	same(t, pages, append(ids(all[:10]), ids(all[35:])...))
	if now := len(read(t, fileOf(path))); now > full/3 {
		t.Errorf("file of %d bytes has %d after most is deleted", full, now)
	}
	want := []string{"35", "36", "37", "38", "39"}
	for _, s := range []trigger.DeadLetters{s, other, newDirectory(t, path, nil)} {
		same(t, ids(list(t, s, "f")), want)
	}
	must(t, other.Put(t.Context(), letter("f", "00")))
	same(t, len(list(t, s, "f")), 6)
}

// Until the rename, the old file is valid.
func TestCrashDuringCompactionKeepsOldFile(t *testing.T) {
	path := t.TempDir()
	s := newDirectory(t, path, &DirectoryOptions{CompactBytes: 1})
	for _, id := range []string{"a", "b", "c"} {
		must(t, s.Put(t.Context(), letter("f", id)))
	}
	half := read(t, fileOf(path))
	must(t, os.WriteFile(fileOf(path)+".new", half[:len(half)/2], 0o600))
	same(t, ids(list(t, newDirectory(t, path, nil), "f")), []string{"a", "b", "c"})
	must(t, s.Delete(t.Context(), letter("f", "a")))
	must(t, s.Delete(t.Context(), letter("f", "b")))
	same(t, ids(list(t, newDirectory(t, path, nil), "f")), []string{"c"})
	if _, err := os.Stat(fileOf(path) + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the half-written file is there: %v", err)
	}
}

func TestFailedCompactionIsReported(t *testing.T) {
	path := t.TempDir()
	var reports []error
	s := newDirectory(t, path, &DirectoryOptions{CompactBytes: 1, Report: func(err error) { reports = append(reports, err) }})
	must(t, s.Put(t.Context(), letter("f", "a")))
	must(t, os.Mkdir(fileOf(path)+".new", 0o700)) // in the way
	must(t, s.Delete(t.Context(), letter("f", "a")))
	if len(reports) != 1 || !strings.Contains(reports[0].Error(), "compact") {
		t.Errorf("reports %v", reports)
	}
	same(t, ids(list(t, newDirectory(t, path, nil), "f")), []string{})
}

// A store waits for the lock, but not past the end of its context.
func TestLockWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		unlock, err := lockFile(t.Context(), fileOf(path)+".lock")
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := newDirectory(t, path, nil)
		if err := s.Put(ctx, letter("f", "a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("put: %v", err)
		}
		put := make(chan error, 1)
		go func() { put <- s.Put(t.Context(), letter("f", "a")) }()
		time.Sleep(time.Minute)
		select {
		case err := <-put:
			t.Errorf("put while locked: %v", err)
		default:
		}
		unlock()
		must(t, <-put)
	})
}

// Several processes put, delete and compact in one directory at the same time.
func TestSharedByProcesses(t *testing.T) {
	if path, ok := os.LookupEnv("HALLEY_TEST_SHARED"); ok {
		share(t, path)
		return
	}
	path := t.TempDir()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			p := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSharedByProcesses$")
			p.Env = append(os.Environ(), "HALLEY_TEST_SHARED="+path)
			if out, err := p.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	intact, damaged := survey(t, newDirectory(t, path, nil))
	if len(intact) != 20+3*10 || damaged != 0 {
		t.Errorf("%d dead letters, want 50; %d damaged", len(intact), damaged)
	}
}

func share(t *testing.T, path string) {
	s := newDirectory(t, path, &DirectoryOptions{CompactBytes: 1})
	for i := range 20 {
		mine := letter("f", fmt.Sprint(os.Getpid(), " ", i))
		must(t, s.Put(t.Context(), mine))
		must(t, s.Put(t.Context(), letter("f", fmt.Sprint("common ", i))))
		if i%2 == 0 {
			must(t, s.Delete(t.Context(), mine))
		}
	}
}

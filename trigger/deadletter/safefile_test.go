//go:build unix && !solaris && !aix

package deadletter

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"halley/trigger"
)

// tempDir returns a directory whose path has no links.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(dir, 0o700))
	return dir
}

func TestDirectoryOfOthersIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string) (path string)
		says    string // "": accepted
	}{
		"own":             {func(_ *testing.T, dir string) string { return dir }, ""},
		"new":             {func(_ *testing.T, dir string) string { return filepath.Join(dir, "a", "b") }, ""},
		"readable by all": {func(t *testing.T, dir string) string { return mode(t, dir, 0o755) }, ""},
		"group writes":    {func(t *testing.T, dir string) string { return mode(t, dir, 0o770) }, "chmod go-w"},
		"others write":    {func(t *testing.T, dir string) string { return mode(t, dir, 0o702) }, "chmod go-w"},
		"sticky":          {func(t *testing.T, dir string) string { return mode(t, dir, 0o777|os.ModeSticky) }, "chmod go-w"},
		"parent of all":   {func(t *testing.T, dir string) string { return filepath.Join(mode(t, dir, 0o777), "letters") }, "chmod o-w"},
		"parent of all, sticky": {func(t *testing.T, dir string) string {
			return filepath.Join(mode(t, dir, 0o777|os.ModeSticky), "letters")
		}, ""},
		"parent of group": {func(t *testing.T, dir string) string { return filepath.Join(mode(t, dir, 0o770), "letters") }, ""},
		"link":            {func(t *testing.T, dir string) string { return link(t, dir) }, "name the directory itself, "},
		"link above":      {func(t *testing.T, dir string) string { return filepath.Join(link(t, dir), "new", "letters") }, "links are not followed"},
		"dangling link": {func(t *testing.T, dir string) string {
			must(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "l")))
			return filepath.Join(dir, "l")
		}, "without links"},
		"file": {func(t *testing.T, dir string) string {
			must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
			return filepath.Join(dir, "f")
		}, "is not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			path := test.prepare(t, tempDir(t))
			_, err := NewDirectory(path, nil)
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error is %v, want %q", err, test.says)
			}
			if _, err := os.Lstat(filepath.Join(path, "new")); err == nil {
				t.Error("a directory was created behind a link")
			}
		})
	}
}

func mode(t *testing.T, dir string, m os.FileMode) string {
	t.Helper()
	must(t, os.Chmod(dir, m))
	return dir
}

// link returns a link to a directory in dir.
func link(t *testing.T, dir string) string {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(dir, "target"), 0o700))
	must(t, os.Symlink(filepath.Join(dir, "target"), filepath.Join(dir, "link")))
	return filepath.Join(dir, "link")
}

// TestLinksInDirectoryAreNotFollowed plants a link, or another special file, under
// each name that the store uses.
func TestLinksInDirectoryAreNotFollowed(t *testing.T) {
	d := trigger.DeadLetter{Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead, ID: "1", Function: "f", Account: of("f").Account, Database: of("f").Database, Container: of("f").Container, Key: `["k"]`, Document: []byte(`{}`), Time: time.Now()}
	for _, suffix := range []string{"", ".lock", ".new", ".damaged"} {
		for kind, plant := range map[string]func(victim, path string) error{
			"link":     os.Symlink,
			"dangling": func(_, path string) error { return os.Symlink(path+".target", path) },
			"pipe":     func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
		} {
			t.Run(kind+suffix, func(t *testing.T) {
				dir, victim := tempDir(t), filepath.Join(tempDir(t), "victim")
				must(t, os.WriteFile(victim, []byte("precious"), 0o600))
				var reported error
				store, err := NewDirectory(dir, &DirectoryOptions{CompactBytes: 1, Report: func(err error) { reported = errors.Join(reported, err) }})
				must(t, err)
				path := fileOf(dir)
				must(t, plant(victim, path+suffix))
				if suffix == ".damaged" {
					must(t, os.WriteFile(path, []byte("damage\n"), 0o600))
				}
				failed := errors.Join(store.Put(t.Context(), d), store.Delete(t.Context(), d), reported)
				for _, err := range trigger.AllDeadLetters(t.Context(), store, dead("f")) {
					failed = errors.Join(failed, err)
				}
				if failed == nil || !strings.Contains(failed.Error(), "is a symbolic link or another special file: remove it") {
					t.Errorf("error is %v", failed)
				}
				if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
					t.Errorf("the file outside is %q, %v", b, err)
				}
				if _, err := os.Lstat(path + suffix + ".target"); err == nil {
					t.Error("the target of a dangling link was created")
				}
			})
		}
	}
}

// TestDirectoryIsCheckedBeforeEachUse: the directory may be replaced by a link
// while the store is open.
func TestDirectoryIsCheckedBeforeEachUse(t *testing.T) {
	dir := filepath.Join(tempDir(t), "letters")
	store, err := NewDirectory(dir, nil)
	must(t, err)
	d := trigger.DeadLetter{Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead, ID: "1", Function: "f", Account: of("f").Account, Database: of("f").Database, Container: of("f").Container, Key: `["k"]`, Document: []byte(`{}`), Time: time.Now()}
	must(t, store.Put(t.Context(), d))
	other := tempDir(t)
	must(t, os.Rename(dir, dir+".old"))
	must(t, os.Symlink(other, dir))
	d.ID = "2"
	if err := store.Put(t.Context(), d); err == nil || !strings.Contains(err.Error(), "links are not followed") {
		t.Errorf("error is %v", err)
	}
	if entries, err := os.ReadDir(other); err != nil || len(entries) > 0 {
		t.Errorf("files in the other directory: %v, %v", entries, err)
	}
}

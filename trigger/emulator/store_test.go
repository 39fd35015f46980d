package emulator

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
)

// logBuffer collects log lines.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newLog() (*slog.Logger, *logBuffer) {
	b := &logBuffer{}
	return slog.New(slog.NewTextHandler(b, nil)), b
}

// TestReadsContinueOnAFullDisk fails commits as a full disk does: with the first one
// the reserve makes room, later ones have none.
func TestReadsContinueOnAFullDisk(t *testing.T) {
	for _, reserve := range []bool{true, false} {
		t.Run(fmt.Sprintf("reserve helps %v", reserve), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				log, told := newLog()
				opts := &Options{Data: dir, Log: log}
				c, a := newItems(t, 1, opts)
				c.expect("200", "PUT", "/dbs/db/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":2}`)
				c.create("a", "k")
				full, write := true, a.store.update
				a.store.update = func(fn func(*bolt.Tx) error) error {
					if _, err := os.Stat(filepath.Join(dir, reserveFile)); full && (err == nil || !reserve) {
						return syscall.ENOSPC
					}
					return write(fn)
				}
				c.expect(map[bool]string{true: "201", false: "503"}[reserve], "POST", items, doc("b", "k"), pk("k")...)
				if err := os.WriteFile(filepath.Join(dir, reserveFile), make([]byte, reserveBytes), 0o600); err != nil {
					t.Fatal(err) // else the next attempt would have room
				}
				refused := c.expect("503", "POST", items, doc("c", "k"), pk("k")...)
				if !strings.Contains(refused.body, "writes resume when there is room") || !strings.Contains(refused.body, "no space left") {
					t.Errorf("refused with %s", refused.body)
				}
				time.Sleep(3 * time.Second) // of the bubble: a and b expire
				if reserve {
					c.expect("200", "GET", items+"/a", "", pk("k")...)
					c.query(ask("SELECT * FROM c"))
				}
				if _, err := a.Split("db", "c", "0"); err == nil && !reserve {
					t.Error("a range was split on a full disk")
				}
				full = false
				time.Sleep(2 * retryAfter)
				c.expect("201", "POST", items, doc("d", "k"), pk("k")...)
				c.expect("404", "GET", items+"/a", "", pk("k")...)
				if log := told.String(); strings.Count(log, "writes are refused") != strings.Count(log, "writes are accepted") || !strings.Contains(log, "no space left") {
					t.Errorf("the log is %s", log)
				}
				c, _ = reopen(t, a, opts)
				c.expect("200", "GET", items+"/d", "", pk("k")...)
			})
		})
	}
}

// soundData is the file of an account with a few hundred items.
func soundData(t *testing.T) []byte {
	dir := t.TempDir()
	c, a := newItems(t, 2, &Options{Data: dir})
	var operations []string
	for i := range 100 {
		operations = append(operations, fmt.Sprintf(`{"operationType":"Create","resourceBody":{"id":"%d","pk":"k","text":%q}}`, i, strings.Repeat("x", 300)))
	}
	c.expect("200", "POST", items, "["+strings.Join(operations, ",")+"]", with(pk("k"), "x-ms-cosmos-is-batch-request", "true")...)
	c.expect("201", "POST", items, fmt.Sprintf(`{"id":"large","pk":"k","text":%q}`, strings.Repeat("x", 30_000)), pk("k")...)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheckOfSoundData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, dataFile), soundData(t), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := CheckData(dir)
	if err != nil || report.Items != 101 || report.Containers != 1 || report.Databases != 1 || report.Pages < 10 {
		t.Errorf("%+v, %v", report, err)
	}
	newClient(t, &Options{Data: dir})
	if _, err := CheckData(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("while the account is open: %v", err)
	}
	if _, err := CheckData(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestDamagedPagesAreNamed damages each page in several ways. Either the page holds no
// data, or both opening and checking name it.
func TestDamagedPagesAreNamed(t *testing.T) {
	sound, size, named := soundData(t), os.Getpagesize(), 0
	for page := 0; page < min(len(sound)/size, 30); page++ {
		for way, damageAt := range map[string]func(b []byte){
			"zero":    func(b []byte) { clear(b) },
			"noise":   func(b []byte) { copy(b, bytes.Repeat([]byte{0xa5}, len(b))) },
			"number":  func(b []byte) { b[0]++ },
			"count":   func(b []byte) { b[10], b[11] = 0xff, 0xff },
			"element": func(b []byte) { copy(b[pageHeader:], bytes.Repeat([]byte{0x7f}, 3*element)) },
		} {
			dir := t.TempDir()
			damaged := bytes.Clone(sound)
			damageAt(damaged[page*size : (page+1)*size])
			if err := os.WriteFile(filepath.Join(dir, dataFile), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			_, checked := CheckData(dir)
			a, opened := New(&Options{Data: dir})
			if opened == nil {
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			}
			var d *damage
			if errors.As(opened, &d) {
				named++
				if text := opened.Error(); d.page > 1 && d.page != uint64(page) || !strings.Contains(text, filepath.Join(dir, dataFile)) || !strings.Contains(text, "Restore the file") {
					t.Errorf("page %d, %s: %v", page, way, opened)
				}
			}
			if opened != nil && checked == nil {
				t.Errorf("page %d, %s: opening fails with %v, and the check does not", page, way, opened)
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d damages were found", named)
	}
}

func TestTruncatedDataAreNotAnEmptyAccount(t *testing.T) {
	sound := soundData(t)
	for length, says := range map[int]string{0: "is empty", 100: "account.db", 2 * os.Getpagesize(): "account.db", len(sound) / 3: "is damaged"} {
		dir := t.TempDir()
		file := filepath.Join(dir, dataFile)
		if err := os.WriteFile(file, sound[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(&Options{Data: dir}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%d bytes: %v", length, err)
		}
		if _, err := CheckData(dir); err == nil {
			t.Errorf("%d bytes pass the check", length)
		}
		if contents, err := os.ReadFile(file); err != nil || len(contents) != length {
			t.Errorf("%d bytes became %d, %v", length, len(contents), err)
		}
	}
}

package emulator

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFullFileSystem fills a small file system, for which it needs the right to mount.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("mounting a file system of 24 MB: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	log, told := newLog()
	data := filepath.Join(dir, "data")
	c, a := newItems(t, 1, &Options{Data: data, Log: log})
	written := map[string]bool{}
	write := func(id string) int {
		got := c.send("POST", items, fmt.Sprintf(`{"id":%q,"pk":"k","text":%q}`, id, strings.Repeat("x", 200_000)), pk("k")...)
		if got.status == 201 {
			written[id] = true
		}
		return got.status
	}
	n := 0
	for ; n < 200 && write(fmt.Sprint(n)) == 201; n++ {
	}
	if n == 200 || !strings.Contains(told.String(), "writes are refused") {
		t.Fatalf("%d writes of 200 KB went into 24 MB; the log is %s", n, told)
	}
	for id := range written {
		c.expect("200", "GET", items+"/"+id, "", pk("k")...)
	}
	if got := c.query(ask("SELECT VALUE c.id FROM c")); len(ofValues(got)) != len(written) {
		t.Errorf("a query finds %v of %d", got, len(written))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	c, _ = newClient(t, &Options{Data: data, Log: log})
	if got := write("after"); got != 201 {
		t.Errorf("with room again: %d", got)
	}
	for id := range written {
		c.expect("200", "GET", items+"/"+id, "", pk("k")...)
	}
}

//go:build linux

package deadletter

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// A full disk accepts only a part of a frame, or nothing. Put fails, earlier
// dead letters stay, and with free space Put succeeds again.
func TestFullDiskKeepsEarlierDeadLetters(t *testing.T) {
	if path, ok := os.LookupEnv("HALLEY_TEST_FULL"); ok {
		fillDisk(t, path)
		return
	}
	p := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	p.Env = append(os.Environ(), "HALLEY_TEST_FULL="+t.TempDir())
	if out, err := p.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// fillDisk runs in a process with a limit on file size: the kernel writes up to
// the limit and then fails, as on a full disk.
func fillDisk(t *testing.T, path string) {
	signal.Ignore(syscall.SIGXFSZ)
	s := newDirectory(t, path, nil)
	must(t, s.Put(t.Context(), letter("f", "a")))
	oldFile := read(t, fileOf(path))
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	room := limit
	for extra := range 250 {
		limit.Cur = uint64(len(oldFile) + extra)
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
		err := s.Put(t.Context(), letter("f", "b"))
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room))
		if err == nil {
			t.Fatalf("stored with room for %d bytes", extra)
		}
		if !bytes.Equal(read(t, fileOf(path)), oldFile) {
			t.Fatalf("with room for %d bytes the file has changed", extra)
		}
	}
	must(t, s.Put(t.Context(), letter("f", "b")))
	if intact, damaged := survey(t, newDirectory(t, path, nil)); fmt.Sprint(intact) != "[a b]" || damaged != 0 {
		t.Errorf("dead letters %v, %d damaged", intact, damaged)
	}
}

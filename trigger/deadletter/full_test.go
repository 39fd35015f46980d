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

// A disk that is full takes a part of a letter or nothing. The Put fails, the
// letters before it stay, and with room again all goes on.
func TestFullDisk(t *testing.T) {
	if path, ok := os.LookupEnv("HALLEY_TEST_FULL"); ok {
		fillDisk(t, path)
		return
	}
	p := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$")
	p.Env = append(os.Environ(), "HALLEY_TEST_FULL="+t.TempDir())
	if out, err := p.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// fillDisk runs in a process whose files cannot grow past a size: the kernel
// writes what fits, and then fails as on a full disk.
func fillDisk(t *testing.T, path string) {
	signal.Ignore(syscall.SIGXFSZ)
	s := newDirectory(t, path, nil)
	must(t, s.Put(t.Context(), sample("f", "a")))
	before := read(t, fileOf(path))
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	room := limit
	for more := range 250 {
		limit.Cur = uint64(len(before) + more)
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
		err := s.Put(t.Context(), sample("f", "b"))
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room))
		if err == nil {
			t.Fatalf("stored with room for %d bytes", more)
		}
		if !bytes.Equal(read(t, fileOf(path)), before) {
			t.Fatalf("with room for %d bytes the file has changed", more)
		}
	}
	must(t, s.Put(t.Context(), sample("f", "b")))
	if whole, damaged := survey(t, newDirectory(t, path, nil)); fmt.Sprint(whole) != "[a b]" || damaged != 0 {
		t.Errorf("letters %v, %d damaged", whole, damaged)
	}
}

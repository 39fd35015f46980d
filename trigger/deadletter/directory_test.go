package deadletter

import (
	"testing"

	"halley/trigger"
)

func newDirectory(t testing.TB, path string, opts *DirectoryOptions) *Directory {
	t.Helper()
	d, err := NewDirectory(path, opts)
	must(t, err)
	return d
}

func TestDirectoryContract(t *testing.T) {
	path := t.TempDir()
	contract(t, func(t *testing.T) trigger.DeadLetters { return newDirectory(t, path, nil) })
}

package model

import (
	"os"
	"runtime/debug"
	"testing"

	"halley/tests/long"
)

// A search holds all states that it has seen: more memory saves collections. All searches
// have too many states for that.
func TestMain(m *testing.M) {
	if !long.All() {
		debug.SetGCPercent(800)
	}
	os.Exit(m.Run())
}

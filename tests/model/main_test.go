package model

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// A search holds all states that it has seen: more memory saves collections. The larger worlds
// have too many states for that.
func TestMain(m *testing.M) {
	flag.Parse()
	if !*larger {
		debug.SetGCPercent(800)
	}
	os.Exit(m.Run())
}

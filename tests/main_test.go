// Package tests drives the built binary from outside: processes on an account
// served over TCP, a stand-in Functions host, the Lambda Runtime API, kill -9.
// README.md describes each layer.
package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"halley/handlers/handlerstest/parallel"
)

// binaries are built once for all tests. If the tests run under the race detector,
// the processes do, too.
var binaries struct{ halley, recorder string }

func TestMain(m *testing.M) {
	parallel.AtOnce(max(8, runtime.GOMAXPROCS(0)))
	dir, err := os.MkdirTemp("", "halley-tests-")
	if err == nil {
		err = buildBinaries(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	if shopBuilt.Load() != nil {
		os.RemoveAll(*shopBuilt.Load())
	}
	os.Exit(code)
}

func buildBinaries(dir string) error {
	binaries.halley = filepath.Join(dir, "halley")
	binaries.recorder = filepath.Join(dir, "recorder")
	for path, source := range map[string]string{binaries.halley: "halley/function", binaries.recorder: "halley/tests/recorder"} {
		args := []string{"build", "-o", path}
		if raceEnabled {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, source)...).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", source, err, out)
		}
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"halley/tests/long"
)

// roleVariable has the test binary be the program halley, or its command test.
const roleVariable = "STANDALONE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "app":
		main()
	}
	if err := serveKit(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kitLanguages run testdata/kit in each language.
var kitLanguages = []struct{ name, interpreter, file string }{
	{"Python", "python3", "kit.py"},
	{"Node.js", "node", "kit.mjs"},
}

// placeHalley puts a program halley with a role into a directory that is first in PATH.
func placeHalley(t *testing.T, role string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=%s exec '%s' \"$@\"\n", roleVariable, role, self)
	if err := os.WriteFile(filepath.Join(dir, "halley"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	library, err := filepath.Abs("../../languages/python")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", library)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
}

// The kit of each language passes correct sinks, and finds the mistakes that
// [triggertest.Converges] finds in Go: those that need no fault inside of a call.
func TestKitFindsPlantedFaults(t *testing.T) {
	placeHalley(t, "kit")
	for _, l := range kitLanguages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(l.interpreter); err != nil {
				t.Skipf("%s is not installed: no sink in it to test", l.name)
			}
			for name, want := range map[string]string{
				"correct": "", "correct and asynchronous": "",
				"sum": "differ", "last delivery wins": "differ", "acknowledged before written": "differ",
				"deletes dropped": "the state after the plain run is wrong", "not fenced": "differ",
				"order across keys assumed": "differ", "positions remembered in the process": "differ",
				"position forgotten on delete": "differ", "fails on what it has": "duplicate key",
			} {
				if !long.Wanted() && name != "correct" && name != "sum" && name != "not fenced" {
					continue
				}
				out, err := exec.Command(l.interpreter, filepath.Join("testdata", l.file), name).CombinedOutput()
				said := string(out)
				switch {
				case err != nil:
					t.Errorf("%s: %v\n%s", name, err, said)
				case want == "" && said != "it converges\n":
					t.Errorf("%s is refused:\n%s", name, said)
				case want != "" && (!strings.Contains(said, want) || !strings.Contains(said, "repeat it with the seed ")):
					t.Errorf("%s: the kit says, without %q:\n%s", name, want, said)
				}
			}
		})
	}
}

// A sink that cannot be opened, or a scenario that does not exist, is told.
func TestKitTellsMistakesOfItsUser(t *testing.T) {
	for lines, want := range map[string]string{
		"":                           "halley test is started by converges of a library",
		"{\"partitionkeys\":\"\"}\n": `unknown field "partitionkeys"`,
	} {
		if err := serveKit(t.Context(), strings.NewReader(lines), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %s", lines, err, want)
		}
	}
	k := strings.Builder{}
	if err := serveKit(t.Context(), strings.NewReader("{}\n{\"error\":\"no database\"}\n"), &k); err != nil || !strings.Contains(k.String(), "open: no database") {
		t.Errorf("done is %s, %v", k.String(), err)
	}
}

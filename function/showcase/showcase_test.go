package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"halley/handlers/handlerstest/parallel"
	"halley/tests/long"
)

func TestMain(m *testing.M) {
	parallel.AtOnce(6)
	os.Exit(m.Run())
}

// cleanEnv removes the settings of the environment.
func cleanEnv(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "HALLEY_") {
			t.Setenv(name, "") // restores it afterwards
			os.Unsetenv(name)
		}
	}
}

// Each handler alone ends with a verdict that its sink holds what was written, while a
// range splits and two hosts share the work.
func TestEachHandler(t *testing.T) {
	duration, split := "1s", "300ms"
	if long.Wanted() { // before the environment is clean
		duration, split = "2s", "600ms"
	}
	servers := serversOfTests(t)
	for _, r := range rows() {
		t.Run(r.entry.Name, func(t *testing.T) {
			if r.needs == "" {
				t.Parallel()
			}
			useServer(t, r, servers)
			out := run(t, 0, "dev", "--handlers", r.entry.Name, "--for", duration, "--rate", "150", "--hosts", "2", "--split-after", split)
			if !strings.Contains(out, "every change was handled\n"+r.entry.Name+": ") {
				t.Errorf("no verdict:\n%s", out)
			}
		})
	}
}

// testServers are the variables with the servers of tests, by the setting that they fill.
var testServers = map[string]string{
	"HALLEY_VIEW_POSTGRES_URL": "HALLEY_TEST_POSTGRES_URL",
}

// useServer sets the server of a handler that needs a real one, which the other handlers
// refuse, or skips the test.
func useServer(t *testing.T, r row, servers map[string]string) {
	t.Helper()
	switch {
	case r.needs == "":
	case servers[r.needs] != "":
		t.Setenv(r.needs, servers[r.needs])
	case r.tag != "":
		t.Skipf("no server for handler %s: it runs with -tags %s", r.entry.Name, r.tag)
	default:
		t.Skipf("%s is not set: no server for handler %s", testServers[r.needs], r.entry.Name)
	}
}

// serversOfTests returns the servers of tests by the settings that they fill, and removes the
// settings of the environment.
func serversOfTests(t *testing.T) map[string]string {
	t.Helper()
	servers := map[string]string{}
	for setting, variable := range testServers {
		servers[setting] = os.Getenv(variable)
	}
	cleanEnv(t)
	return servers
}

func run(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := show(t.Context(), args, &out, &out); code != want {
		t.Errorf("exit code %d, want %d\n%s", code, want, out.String())
	}
	return out.String()
}

func TestWrongHandlers(t *testing.T) {
	cleanEnv(t)
	out := run(t, 1, "dev", "--handlers", "leaderboard,horoscope")
	if !strings.Contains(out, `no handler is called "horoscope": choose from leaderboard, push`) {
		t.Error(out)
	}
	for _, r := range rows() {
		if r.needs != "" {
			if out := run(t, 1, "dev", "--handlers="+r.entry.Name); !strings.Contains(out, "handler "+r.entry.Name+" needs a real server: set "+r.needs) {
				t.Error(out)
			}
		}
	}
}

// A sink that lacks a document makes the exit code 1.
func TestMissingDocumentIsNoticed(t *testing.T) {
	cleanEnv(t)
	t.Setenv("HALLEY_LEADERBOARD_KEY_PREFIX", "elsewhere:")
	out := run(t, 1, "dev", "--handlers", "leaderboard", "--for", "1s", "--json")
	if !strings.Contains(out, "leaderboard: NOT EQUAL: the board of ") {
		t.Error(out)
	}
}

// Every handler that a page shows is a row, and so is tested above.
func TestDocumentedHandlers(t *testing.T) {
	pages, err := filepath.Glob("../../docs/handlers/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range append(pages, "../../docs/handlers.md", "../../docs/use-cases.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range regexp.MustCompile(`showcase dev --handlers ([a-z,]+)`).FindAllStringSubmatch(string(text), -1) {
			for name := range strings.SplitSeq(shown[1], ",") {
				if !slices.ContainsFunc(rows(), func(r row) bool { return r.entry.Name == name }) {
					t.Errorf("%s shows a handler %s, which is not in the showcase", page, name)
				}
			}
		}
	}
}

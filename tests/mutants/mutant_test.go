package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// Every mutant fits the code as it is now, and leaves Go behind.
func TestEveryMutantApplies(t *testing.T) {
	names := map[string]bool{}
	for _, m := range all {
		if names[m.name] || strings.ToLower(m.name) != m.name || strings.Contains(m.name, " ") || m.breaks == "" || len(m.edits) == 0 {
			t.Errorf("mutant %q: its name is taken or no name, or it says too little", m.name)
		}
		names[m.name] = true
		before, after, err := m.change(root)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		for path := range after {
			if before[path] == after[path] {
				t.Errorf("%s leaves %s as it is", m.name, path)
			}
			if _, err := parser.ParseFile(token.NewFileSet(), path, after[path], 0); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
	}
	if len(all) < 25 {
		t.Errorf("%d mutants", len(all))
	}
}

func TestChangeFailsIfTextIsNotUnique(t *testing.T) {
	for _, e := range []edit{
		{"trigger/worker.go", "no such text", ""},
		{"trigger/worker.go", "return", ""},
		{"trigger/nowhere.go", "x", "y"},
	} {
		if _, _, err := (mutant{edits: []edit{e}}).change(root); err == nil {
			t.Errorf("%+v is made", e)
		}
	}
}

func TestPackagesAreListedOnce(t *testing.T) {
	m := mutant{edits: []edit{{file: "trigger/a.go"}, {file: "trigger/cosmos/b.go"}, {file: "trigger/c.go"}}}
	if got := fmt.Sprint(m.packages()); got != "[./trigger ./trigger/cosmos]" {
		t.Error(got)
	}
}

func TestUsersAreListedOnce(t *testing.T) {
	m := mutant{edits: []edit{{file: "trigger/internal/lease/a.go"}, {file: "trigger/internal/feed/b.go"}}}
	if got := fmt.Sprint(m.users()); got != "[./trigger]" {
		t.Error(got)
	}
	m.edits = append(m.edits, edit{file: "trigger/c.go"})
	if got := fmt.Sprint(m.users()); got != fmt.Sprint(slices.Concat([]string{"./trigger/triggertest", "./trigger/awslambda"}, appRooms)) {
		t.Error(got)
	}
}

func TestCheapLeavesOutSimulationAndProcesses(t *testing.T) {
	m := mutant{edits: []edit{{file: "trigger/internal/lease/a.go"}}}
	for cheap, want := range map[bool]string{true: "[package users]", false: "[package users simulation processes]"} {
		var names []string
		for _, l := range (&bench{cheap: cheap}).layers(m) {
			names = append(names, l.name)
		}
		if got := fmt.Sprint(names); got != want {
			t.Errorf("cheap %v: %s, want %s", cheap, got, want)
		}
	}
}

// A package that no longer exists would silently be left out of the layers.
func TestUsersExist(t *testing.T) {
	for p, of := range users {
		for _, dir := range append(of, p) {
			if tests, err := filepath.Glob(filepath.Join(root, dir, "*_test.go")); err != nil || len(tests) == 0 {
				t.Errorf("%s has no tests: %v", dir, err)
			}
		}
	}
}

func TestFailingNamesInnermostTest(t *testing.T) {
	for out, want := range map[string]string{
		"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0s)\n":           "TestA/b",
		"--- FAIL: TestA (0.1s)\n--- FAIL: TestB (0s)\n":                 "TestA",
		"panic: test timed out after 1m40s\n\ngoroutine 1\n":             "panic: test timed out after 1m40s",
		"ok\nfatal error: all goroutines are asleep - deadlock!\n\nmore": "fatal error: all goroutines are asleep - deadlock!",
		"exit status 2": "the tests failed without naming a test",
	} {
		if got := failing(out); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}

func TestChooseByName(t *testing.T) {
	if m, err := choose("^owner-by-name$"); err != nil || len(m) != 1 {
		t.Errorf("%v, %v", m, err)
	}
	for _, pattern := range []string{"^$", "("} {
		if _, err := choose(pattern); err == nil {
			t.Errorf("%q chooses something", pattern)
		}
	}
}

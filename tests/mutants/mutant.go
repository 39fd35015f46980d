package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one planted bug.
type mutant struct {
	name   string
	breaks string // the promise that no longer holds
	edits  []edit
}

// edit replaces old, which must stand in the file exactly once.
type edit struct{ file, old, new string }

// files are the contents of files by path.
type files map[string]string

func (f files) write() error {
	for path, text := range f {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// change returns the files under root that the mutant edits, before and after its
// edits. It fails if the code has changed and no longer has the text of an edit.
func (m mutant) change(root string) (before, after files, err error) {
	before, after = files{}, files{}
	for _, e := range m.edits {
		path := filepath.Join(root, e.file)
		if _, seen := before[path]; !seen {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, nil, err
			}
			before[path], after[path] = string(text), string(text)
		}
		if n := strings.Count(after[path], e.old); n != 1 {
			return nil, nil, fmt.Errorf("%s has %d places that read %q, want 1: bring the mutant up to date", e.file, n, e.old)
		}
		after[path] = strings.Replace(after[path], e.old, e.new, 1)
	}
	return before, after, nil
}

// packages returns the directories of the edited files, each once.
func (m mutant) packages() []string {
	var dirs []string
	seen := map[string]bool{}
	for _, e := range m.edits {
		if dir := "./" + filepath.Dir(e.file); !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// users are packages with quick tests that also run the packages they import, the
// cheapest first.
var users = map[string][]string{
	"./trigger/cosmos":            {"./trigger/internal/lease", "./trigger"},
	"./trigger/internal/lease":    {"./trigger"},
	"./trigger/internal/delivery": {"./trigger"},
	"./trigger/internal/feed":     {"./trigger"},
	"./trigger/leases":            slices.Concat([]string{"./trigger"}, appRooms),
	"./trigger/stall":             slices.Concat([]string{"./trigger"}, appRooms),
	"./trigger":                   slices.Concat([]string{"./trigger/triggertest", "./trigger/awslambda"}, appRooms),

	"./trigger/deadletter/internal/record": {"./trigger/deadletter"},
	"./function/app/internal/metrics":      appRooms,
	"./function/app/internal/page":         appRooms,
	"./function/app/internal/settings":     appRooms,
	"./function/app/internal/account":      appRooms,
	"./function/app/internal/hosting":      appRooms,
	"./function/app/internal/operate":      appRooms,
	"./function/app/internal/operatorpage": appRooms,
}

// appRooms are the rooms of function/app that run an app in their tests.
var appRooms = []string{
	"./function/app/internal/operatorpage", "./function/app/internal/hosting", "./function/app/internal/functions",
	"./function/app/internal/lambda", "./function/app", "./function/app/internal/command", "./function/app/internal/dev",
}

// users returns the users of the edited packages that are not edited themselves,
// each once.
func (m mutant) users() []string {
	var dirs []string
	edited := m.packages()
	for _, p := range edited {
		for _, user := range users[p] {
			if !slices.Contains(edited, user) && !slices.Contains(dirs, user) {
				dirs = append(dirs, user)
			}
		}
	}
	return dirs
}

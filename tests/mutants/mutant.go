package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one planted bug.
type mutant struct {
	name   string
	breaks string // the promise that no longer holds
	edits  []edit
}

// edit replaces text that is in its file once.
type edit struct{ file, old, new string }

// apply plants the mutant in a copy of the tree; undo takes it out again.
func (m mutant) apply(root string) (undo func() error, err error) {
	before := map[string][]byte{}
	undo = func() error {
		for path, text := range before {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	for _, e := range m.edits {
		path := filepath.Join(root, e.file)
		text, err := os.ReadFile(path)
		if err != nil {
			return undo, err
		}
		if _, seen := before[path]; !seen {
			before[path] = text
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return undo, fmt.Errorf("%s has %d places that read %q, want 1: bring the mutant up to date", e.file, n, e.old)
		}
		changed := strings.Replace(string(text), e.old, e.new, 1)
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			return undo, err
		}
	}
	return undo, nil
}

// packages are the directories that the mutant changes, each once.
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

//go:build ignore

// Rename gives the module in the current directory another path, and with it the modules
// below. Names that only begin like the module's path, such as a database, stay.
//
//	go run scripts/rename.go PATH
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("give the module's new path, such as github.com/owner/halley"))
	}
	changed, err := rename(os.Args[1])
	if err != nil {
		fail(err)
	}
	fmt.Printf("%d files name %s now; run scripts/check\n", changed, os.Args[1])
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "rename-module:", err)
	os.Exit(1)
}

// rename changes the path in go.mod and in all text files, and returns their number.
func rename(to string) (changed int, err error) {
	if err := module.CheckPath(to); err != nil {
		return 0, fmt.Errorf("%w: give the path of a repository, such as github.com/owner/halley", err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return 0, err
	}
	from := modfile.ModulePath(mod)
	if from == to {
		return 0, fmt.Errorf("the module is called %s already", to)
	}
	packages, err := topDirectories()
	if err != nil {
		return 0, err
	}
	// A package's path is preceded by a character that no path has, and its first
	// directory ends where a name ends.
	named := regexp.MustCompile(`(^|[^\w./-])` + regexp.QuoteMeta(from) + `/(` + strings.Join(packages, "|") + `)\b`)
	line := regexp.MustCompile(`(?m)^module\s+` + regexp.QuoteMeta(from) + `$`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == ".git" || name == "node_modules" || name == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		before, err := os.ReadFile(path)
		if err != nil || bytes.IndexByte(before, 0) >= 0 {
			return err
		}
		after := named.ReplaceAll(before, []byte("${1}"+to+"/${2}"))
		if path == "go.mod" {
			after = line.ReplaceAll(after, []byte("module "+to))
		}
		if d.Name() == "go.mod" && !bytes.Equal(before, after) {
			if after, err = sorted(path, after); err != nil {
				return err
			}
		}
		if filepath.Ext(path) == ".go" && !bytes.Equal(before, after) {
			if formatted, err := format.Source(after); err == nil { // imports are sorted by path
				after = formatted
			}
		}
		if bytes.Equal(before, after) {
			return nil
		}
		changed++
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(path, after, info.Mode().Perm())
	})
	return changed, err
}

// sorted orders the lines of a go.mod as the go command does.
func sorted(path string, text []byte) ([]byte, error) {
	mod, err := modfile.Parse(path, text, nil)
	if err != nil {
		return nil, err
	}
	mod.SortBlocks()
	return mod.Format()
}

// topDirectories lists the directories of the module that hold packages.
func topDirectories() (names []string, err error) {
	entries, err := os.ReadDir(".")
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "dist" {
			names = append(names, regexp.QuoteMeta(e.Name()))
		}
	}
	return names, err
}

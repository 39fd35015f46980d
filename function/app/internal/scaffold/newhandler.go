package scaffold

import (
	"context"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"halley/function/app/internal/packaging"
)

// Handler describes a new handler of an app.
type Handler struct {
	Name string // of the handler and its package: lower-case letters and digits
	Root string // directory of the app's main package
}

// handlerName is the rule of [halley/handlers.Entry].
var handlerName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// Create writes the handler's package and its test below Root, and adds a line to the
// list of the app's handlers. It returns the names of the files, relative to Root; the
// last is the changed one. An error names the fix; then nothing is written, unless
// writing itself failed.
func (h Handler) Create(ctx context.Context) (files []string, err error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	importPath, err := importPathOf(ctx, filepath.Join(h.Root, h.Name))
	if err != nil {
		return nil, err
	}
	v := handlerValues(h.Name)
	list, err := findList(h.Root)
	if err != nil {
		return nil, err
	}
	changed, err := list.add(h.Name, v["Summary"], importPath)
	if err != nil {
		return nil, err
	}
	written, err := render("handler", v)
	if err != nil {
		return nil, err
	}
	if err := writeNew(h.Root, written); err != nil {
		return nil, err
	}
	for name := range written {
		files = append(files, name)
	}
	slices.Sort(files)
	return append(files, filepath.Base(list.file)), os.WriteFile(list.file, changed, 0o644)
}

// check refuses names that cannot be a package of the app.
func (h Handler) check() error {
	if !handlerName.MatchString(h.Name) || token.IsKeyword(h.Name) || h.Name == "main" || h.Name == "init" {
		return fmt.Errorf("handler %q: write lower-case letters and digits, begin with a letter, and use no word of Go such as type", h.Name)
	}
	if slices.Contains(directories, h.Name) {
		return fmt.Errorf("%s is a directory of the app: choose another name for the handler", h.Name)
	}
	if executable, err := packaging.Executable(h.Root); err == nil && executable == h.Name {
		return fmt.Errorf("%s is the executable of the app: choose another name for the handler", h.Name)
	}
	if dir := filepath.Join(h.Root, h.Name); exists(dir) {
		return fmt.Errorf("%s exists already: choose another name for the handler", dir)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// importPathOf returns the import path of a directory, by the go.mod above it.
func importPathOf(ctx context.Context, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for root := filepath.Dir(dir); root != filepath.Dir(root); root = filepath.Dir(root) {
		file := filepath.Join(root, "go.mod")
		if !exists(file) {
			continue
		}
		mod, err := readModuleFile(ctx, file)
		if err != nil {
			return "", err
		}
		relative, err := filepath.Rel(root, dir)
		return path.Join(mod.Module.Path, filepath.ToSlash(relative)), err
	}
	return "", fmt.Errorf("no go.mod above %s: run the command in the directory of the app's main package", filepath.Dir(dir))
}

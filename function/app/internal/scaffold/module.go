package scaffold

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// goCommand runs the go command in a directory and returns its output. An error has the
// command's message.
func goCommand(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = errors.New(string(bytes.TrimSpace(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return out, nil
}

// module is a module in a version.
type module struct{ Path, Version string }

// moduleFile is a go.mod, as go mod edit -json prints it.
type moduleFile struct {
	Module  module
	Go      string
	Require []module
	Replace []struct{ Old, New module }
}

func readModuleFile(ctx context.Context, file string) (f moduleFile, err error) {
	out, err := goCommand(ctx, "", nil, "mod", "edit", "-json", file)
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	return f, err
}

// source is a directory with Halley's root module, which requires the modules that apps
// import and replaces them by directories below its own.
type source struct {
	dir  string
	mod  moduleFile
	sums []byte // its go.sum, which covers all modules of an app
}

// openSource reads Halley's root module in dir, or above the directory of function/app that
// the current module uses.
func openSource(ctx context.Context, dir string) (*source, error) {
	if dir == "" {
		out, err := goCommand(ctx, "", nil, "list", "-m", "-f", "{{.Dir}}", modulePath+appDir)
		if errors.Is(err, exec.ErrNotFound) {
			return nil, err
		}
		app := filepath.ToSlash(string(bytes.TrimSpace(out)))
		if dir = strings.TrimSuffix(app, appDir); dir == app {
			return nil, errors.New("the current module does not use Halley: give the directory of Halley's source with --halley")
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &source{dir: dir}
	if s.mod, err = readModuleFile(ctx, filepath.Join(dir, "go.mod")); err != nil {
		return nil, fmt.Errorf("--halley: %w", err)
	}
	if s.mod.Module.Path != modulePath {
		return nil, fmt.Errorf("--halley %s: that is not the directory of the module %s", dir, modulePath)
	}
	s.sums, err = os.ReadFile(filepath.Join(dir, "go.sum"))
	return s, err
}

// checkPath refuses module paths that the go command refuses.
func (s *source) checkPath(ctx context.Context, path string) error {
	_, err := goCommand(ctx, s.dir, nil, "mod", "edit", "-print", "-module="+path)
	return err
}

// from returns the directory relative to another, so that both can move together, or
// its absolute path if they have no common root.
func (s *source) from(dir string) string {
	target := resolveLinks(s.dir)
	relative, err := filepath.Rel(resolveLinks(dir), target)
	if err != nil {
		return filepath.ToSlash(target)
	}
	return filepath.ToSlash(relative)
}

// resolveLinks follows the links in an absolute path, the end of which need not exist.
func resolveLinks(path string) string {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil && path != filepath.Dir(path) {
		return filepath.Join(resolveLinks(filepath.Dir(path)), filepath.Base(path))
	}
	return resolved
}

// writeModule writes go.mod and go.sum of an app whose other files exist: the app
// requires the modules that its packages use, as Halley requires them.
func (s *source) writeModule(ctx context.Context, path, dir string) error {
	all := slices.Clone(s.mod.Require)
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	if err := s.writeRequirements(path, dir, all, nil); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), s.sums, 0o644); err != nil {
		return err
	}
	used, direct, err := usedModules(ctx, dir, all)
	if err != nil {
		return err
	}
	return s.writeRequirements(path, dir, slices.DeleteFunc(all, func(m module) bool { return !used[m.Path] }), direct)
}

// writeRequirements writes go.mod with modules, of which the app imports some itself. It
// replaces all modules of Halley, so that go mod tidy adds the sink of a further handler.
func (s *source) writeRequirements(path, dir string, modules []module, direct map[string]bool) error {
	var own, indirect, replaced bytes.Buffer
	for _, r := range s.mod.Replace {
		fmt.Fprintf(&replaced, "\t%s => %s\n", r.Old.Path, quotePath(s.from(dir)+strings.TrimPrefix(r.New.Path, ".")))
	}
	for _, m := range modules {
		if direct[m.Path] {
			fmt.Fprintf(&own, "\t%s %s\n", m.Path, m.Version)
		} else {
			fmt.Fprintf(&indirect, "\t%s %s // indirect\n", m.Path, m.Version)
		}
	}
	text := fmt.Sprintf("module %s\n\ngo %s\n\nreplace (\n%s)\n\nrequire (\n%s)\n\nrequire (\n%s)\n",
		path, s.mod.Go, replaced.String(), own.String(), indirect.String())
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644)
}

var plainPath = regexp.MustCompile(`^[A-Za-z0-9_.:/~@+-]+$`)

// quotePath quotes a path in go.mod if it could be read as several words.
func quotePath(path string) string {
	if plainPath.MatchString(path) {
		return path
	}
	return strconv.Quote(path)
}

// systems are those that an app is made for.
var systems = []string{"linux", "darwin", "windows"}

// usedModules returns the modules that the packages of an app and their tests use on
// some system, and among them those that the app imports itself. It finds them by the
// paths of packages, because the module cache need not have the modules that only
// another system needs.
func usedModules(ctx context.Context, dir string, modules []module) (used, direct map[string]bool, err error) {
	const format = "{{.ImportPath}}{{if .Module}}{{if .Module.Main}}{{range .Imports}}\t{{.}}{{end}}{{range .TestImports}}\t{{.}}{{end}}{{end}}{{end}}"
	used, direct = map[string]bool{}, map[string]bool{}
	for _, system := range systems {
		env := []string{"GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "GOOS=" + system}
		out, err := goCommand(ctx, dir, env, "list", "-e", "-mod=readonly", "-deps", "-test", "-f", format, "./...")
		if err != nil {
			return nil, nil, err
		}
		for line := range strings.Lines(string(out)) {
			packages := strings.Split(strings.TrimSpace(line), "\t")
			for _, p := range packages {
				used[moduleOf(p, modules)] = true
			}
			for _, p := range packages[1:] {
				direct[moduleOf(p, modules)] = true
			}
		}
	}
	return used, direct, nil
}

// moduleOf returns the path of the module with a package, "" if none of the modules
// has it. The package of a test has a space in its path.
func moduleOf(path string, modules []module) (found string) {
	path, _, _ = strings.Cut(path, " ")
	for _, m := range modules {
		if candidate := m.Path; len(candidate) > len(found) && (path == candidate || strings.HasPrefix(path, candidate+"/")) {
			found = candidate
		}
	}
	return found
}

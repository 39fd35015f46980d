package tests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"halley/tests/long"
)

// publicPath is the path that the copies of the module get in the tests.
const publicPath = "example.com/acme/halley"

// copyModule copies the files of the repository, and those that git does not ignore.
func copyModule(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = ".."
	names, err := list.Output()
	if err != nil {
		t.Skipf("only a checkout can be copied: %v", err)
	}
	for name := range strings.SplitSeq(strings.Trim(string(names), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join("..", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		target := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, text, info.Mode().Perm()))
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// renameModule runs scripts/rename-module in a copy.
func renameModule(dir, path string) (string, error) {
	out, err := exec.Command(filepath.Join(dir, "scripts", "rename-module"), path).CombinedOutput()
	return string(out), err
}

// TestRenamedModulesBuild renames a copy, which then keeps the rules of imports, finds all
// of its packages, and builds; scripts/strangers builds it.
func TestRenamedModulesBuild(t *testing.T) {
	long.Only(t, "lists the packages of a copy")
	dir := copyModule(t)
	if out, err := renameModule(dir, publicPath); err != nil || !strings.Contains(out, "files name "+publicPath+" now") {
		t.Fatalf("rename-module: %v\n%s", err, out)
	}
	modules, err := modulesOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range modules {
		if m.path != publicPath && (i == 0 || !strings.HasPrefix(m.path, publicPath+"/")) {
			t.Errorf("a module is %s", m.path)
		}
	}
	goTool(t, dir, nil, "list", "-deps", "work")
	if long.All() {
		goTool(t, dir, nil, "vet", "work")
		goTool(t, dir, nil, "test", "./handlers", "./handlers/redis/redisurl")
	}
	check := exec.Command(filepath.Join(dir, "scripts", "check"), "imports")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("scripts/check imports: %v\n%s", err, out)
	}
}

func TestBadModulePathsAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("copies the module")
	}
	t.Parallel()
	dir := copyModule(t)
	own := goTool(t, dir, []string{"GOWORK=off"}, "list", "-m")
	for path, says := range map[string]string{
		"":                         "give the path of a repository",
		"halley two":               "give the path of a repository",
		"https://example.com/acme": "give the path of a repository",
		own:                        own,
	} {
		out, err := renameModule(dir, path)
		if err == nil || !strings.Contains(out, says) {
			t.Errorf("%q: %v\n%s", path, err, out)
		}
	}
	if got := goTool(t, dir, []string{"GOWORK=off"}, "list", "-m"); got != own {
		t.Errorf("the module is %s now", got)
	}
}

package tests

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

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

// TestRenamedModuleBuilds renames a copy, which then builds, and which a module
// elsewhere gets from a proxy under its new path.
func TestRenamedModuleBuilds(t *testing.T) {
	long.Only(t, "builds the module under another path")
	dir := copyModule(t)
	if out, err := renameModule(dir, publicPath); err != nil || !strings.Contains(out, "files name "+publicPath+" now") {
		t.Fatalf("rename-module: %v\n%s", err, out)
	}
	if got := goTool(t, dir, nil, "list", "-m"); got != publicPath {
		t.Errorf("the module is %s", got)
	}
	goTool(t, dir, nil, "build", "./...")
	goTool(t, dir, nil, "vet", "./handlers/...", "./function/...", "./trigger/...")
	goTool(t, dir, nil, "test", "./handlers", "./function/app/internal/account")
	check := exec.Command(filepath.Join(dir, "scripts", "check"), "imports")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("scripts/check imports: %v\n%s", err, out)
	}
	getFromProxy(t, dir)
}

// getFromProxy publishes the renamed module in a file-system proxy, and builds an app
// that gets it there. The other modules come from the module cache, so that nothing is
// downloaded. They are compiled as scripts/check does, without the paths of their
// directories, so that the build cache has them.
func getFromProxy(t *testing.T, dir string) {
	t.Helper()
	const version = "v0.1.0"
	proxy := t.TempDir()
	versions := filepath.Join(proxy, filepath.FromSlash(publicPath), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(versions, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := os.Create(filepath.Join(versions, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(modzip.CreateFromDir(packed, module.Version{Path: publicPath, Version: version}, dir), packed.Close())
	if err != nil {
		t.Fatal(err)
	}
	user := t.TempDir()
	if err := os.CopyFS(user, os.DirFS("testdata/shop")); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(user, func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		own := goTool(t, "..", nil, "list", "-m")
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(text), `"`+own+`/`, `"`+publicPath+`/`)), 0o600)
	}); err != nil {
		t.Fatal(err)
	}
	cached := "file://" + filepath.ToSlash(goTool(t, "..", nil, "env", "GOMODCACHE")) + "/cache/download"
	env := []string{
		"GOPROXY=file://" + filepath.ToSlash(proxy) + "," + cached, "GONOSUMDB=*", "GONOPROXY=none", "GOPRIVATE=", "GOSUMDB=off",
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw -mod=mod -trimpath",
		"CGO_ENABLED=0",
	}
	if runtime.GOARCH == "amd64" {
		env = append(env, "GOEXPERIMENT=simd")
	}
	goTool(t, user, env, "mod", "init", "example.com/shop")
	goTool(t, user, env, "get", publicPath+"@"+version)
	goTool(t, user, env, append(append([]string{"build", "-o", "shop"}, coldFlags(t)...), ".")...)
	out, err := exec.Command(filepath.Join(user, "shop"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "(halley "+version+")") {
		t.Errorf("version: %v\n%s", err, out)
	}
}

func TestBadModulePathsAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("copies the module")
	}
	dir := copyModule(t)
	own := goTool(t, dir, nil, "list", "-m")
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
	if got := goTool(t, dir, nil, "list", "-m"); got != own {
		t.Errorf("the module is %s now", got)
	}
}

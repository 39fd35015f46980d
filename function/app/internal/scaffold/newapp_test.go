package scaffold

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository is the directory of Halley's module.
const repository = "../../../.."

// newApp writes an app and returns its directory.
func newApp(t *testing.T, a App) string {
	t.Helper()
	if a.Dir == "" {
		a.Dir = filepath.Join(t.TempDir(), "shop")
	}
	if err := a.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a.Dir
}

func readFile(t *testing.T, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The files of an app, and of the templates besides those of the first.
var (
	filesOfApp = []string{
		".funcignore", ".github/workflows/ci.yml", ".gitignore", "README.md", "dev/orders.jsonl", "function/function.json",
		"go.mod", "go.sum", "host.json", "local.settings.example.json", "main.go", "orders/orders.go", "orders/orders_test.go",
	}
	filesOfTemplates = map[string][]string{
		"minimal":   {},
		"azd":       {"azure.yaml", "infra/app.bicep", "infra/cosmos.bicep", "infra/main.bicep", "infra/main.parameters.json"},
		"container": {".dockerignore", "Dockerfile", "Dockerfile.functions", "infra/containerapp.bicep", "infra/cosmos.bicep", "infra/schedule.json", "kubernetes/app.yaml", "kubernetes/init.yaml", "kubernetes/keda.yaml"},
		"lambda":    {"template.yaml"},
	}
)

func TestNewAppHasItsFiles(t *testing.T) {
	for _, template := range Templates() {
		t.Run(template, func(t *testing.T) { checkFiles(t, template) })
	}
}

func checkFiles(t *testing.T, template string) {
	t.Helper()
	dir := newApp(t, App{Template: template})
	var files []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(filesOfApp, filesOfTemplates[template])
	slices.Sort(want)
	if slices.Sort(files); !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	for _, name := range files {
		content := readFile(t, dir, name)
		if strings.HasSuffix(name, ".json") && !json.Valid(content) {
			t.Errorf("%s is not JSON:\n%s", name, content)
		}
		if bytes.Contains(content, []byte("[[")) || bytes.Contains(content, []byte("<no value>")) || !bytes.HasSuffix(content, []byte("\n")) || bytes.HasSuffix(content, []byte("\n\n")) {
			t.Errorf("%s is not rendered, or does not end with one newline:\n%s", name, content)
		}
	}
	if readme := readFile(t, dir, "README.md"); bytes.Contains(readme, []byte("<!--")) {
		t.Errorf("README.md lacks how the app is deployed:\n%s", readme)
	}
	for line := range bytes.Lines(readFile(t, dir, "dev", "orders.jsonl")) {
		if !json.Valid(line) {
			t.Errorf("seed %s is not JSON", line)
		}
	}
}

// The app finds Halley next to it, also if both are moved.
func TestNewAppUsesHalleysDirectory(t *testing.T) {
	source, err := openSource(t.Context(), repository)
	if err != nil {
		t.Fatal(err)
	}
	for name, replacement := range map[string]string{"halley": "../halley/handlers/redis", "the source": `"../the source/handlers/redis"`} {
		root := t.TempDir()
		halley := filepath.Join(root, name)
		if err := os.Mkdir(halley, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"go.mod", "go.sum"} {
			if err := os.WriteFile(filepath.Join(halley, file), readFile(t, repository, file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		dir := newApp(t, App{Dir: filepath.Join(root, "shop"), Halley: halley})
		text := string(readFile(t, dir, "go.mod"))
		if !strings.HasPrefix(text, "module example.com/shop\n") || !strings.Contains(text, "\n\thalley/handlers/redis => "+replacement+"\n") {
			t.Errorf("go.mod is\n%s", text)
		}
		mod, err := readModuleFile(t.Context(), filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range mod.Require {
			if r.Path != "halley" && !slices.Contains(source.mod.Require, r) {
				t.Errorf("the app requires %v, Halley does not", r)
			}
		}
	}
}

func TestNewAppIsNamedAfterItsDirectory(t *testing.T) {
	for dir, want := range map[string]string{
		"shop": "shop", "My Shop": "my-shop", "shop.v2": "shop-v2", "2nd": "nd", "Shop_": "shop", "---": "", "42": "",
		"orders": "orders-app", "function": "function-app", "dev": "dev-app",
	} {
		if got := appName(filepath.Join("parent", dir)); got != want {
			t.Errorf("%q gives the name %q, want %q", dir, got, want)
		}
	}
}

// If an app cannot be written, the error names the fix and nothing is written.
func TestNewAppThatCannotBeWritten(t *testing.T) {
	full, other := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{filepath.Join(full, "a"): "a", filepath.Join(other, "go.mod"): "module example.com/other\n\ngo 1.26.0\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		app  App
		want string
	}{
		{App{Dir: full}, "is not empty: name a new directory"},
		{App{Dir: filepath.Join(full, "a")}, "not a directory"},
		{App{Dir: filepath.Join(full, "42")}, "begin it with a letter"},
		{App{Dir: filepath.Join(full, "new"), Template: "maximal"}, `no template is called "maximal": choose from minimal, azd, container, lambda`},
		{App{Dir: filepath.Join(full, "new"), Module: "a b"}, "--module: go mod: go: invalid -module: malformed import path"},
		{App{Dir: filepath.Join(full, "new"), Module: "halley"}, "belongs to Halley"},
		{App{Dir: filepath.Join(full, "new"), Module: "halley/new"}, "belongs to Halley"},
		{App{Dir: filepath.Join(full, "new"), Halley: full}, "--halley: go mod: go: open"},
		{App{Dir: filepath.Join(full, "new"), Halley: other}, "that is not the directory of the module halley"},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			if err := test.app.Create(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
			if entries, err := os.ReadDir(full); err != nil || len(entries) != 1 {
				t.Errorf("%v: written: %v", err, entries)
			}
		})
	}
}

// Outside of a module that uses Halley, the user must say where it is.
func TestNewAppOutsideOfAModuleAsksForHalley(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	err := App{Dir: filepath.Join(dir, "shop")}.Create(t.Context())
	if err == nil || !strings.Contains(err.Error(), "give the directory of Halley's source with --halley") {
		t.Errorf("error is %v", err)
	}
}

// In the test of a new app each process opens its handler: one that is shared would hide a
// mistake with what a process remembers.
func TestProcessesOfNewAppsTestOpenTheirHandlers(t *testing.T) {
	test := readFile(t, newApp(t, App{Template: "minimal"}), "orders", "orders_test.go")
	if want := "Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry, env) },"; !bytes.Contains(test, []byte(want)) {
		t.Errorf("the test lacks %q:\n%s", want, test)
	}
}

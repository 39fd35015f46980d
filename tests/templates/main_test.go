// Package templates checks the files that `halley new app` writes for platforms, as far
// as that is possible without them. scripts/templates installs the tools and runs it.
package templates

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// apps is a directory with an app of each template, called shop.
var apps string

func TestMain(m *testing.M) {
	code, err := writeApps(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func writeApps(m *testing.M) (code int, err error) {
	if apps, err = os.MkdirTemp("", "templates"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(apps)) }()
	repository, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return 0, err
	}
	command := filepath.Join(apps, "new")
	if err := runIn(repository, "go", "build", "-o", command, "halley/function/app/new"); err != nil {
		return 0, err
	}
	for _, template := range []string{"minimal", "azd", "container", "lambda"} {
		if err := runIn(repository, command, "app", filepath.Join(apps, template, "shop"), "--template", template); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

func runIn(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, output)
	}
	return nil
}

// tool returns what scripts/templates has put into the environment.
func tool(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run scripts/templates", name)
	}
	return value
}

// lint runs a linter that reports its findings on stdout and exits with an error if it
// has any.
func lint(t *testing.T, name string, args ...string) []string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err == nil {
		return nil
	}
	found := strings.TrimSpace(string(stdout))
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || found == "" {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return []string{found}
}

// check returns the findings about the files of each app, by its directory.
type check func(t *testing.T, apps []string) map[string][]string

// each makes a check from that of one app.
func each(one func(t *testing.T, app string) []string) check {
	return func(t *testing.T, apps []string) map[string][]string {
		t.Helper()
		found := map[string][]string{}
		for _, app := range apps {
			found[app] = one(t, app)
		}
		return found
	}
}

// fault is an error in a file of an app: a text in place of another.
type fault struct {
	file, old, new string
	want           string // in the finding
}

// passes runs a check of an app as it is written.
func passes(t *testing.T, template string, run check) {
	t.Helper()
	app := filepath.Join(apps, template, "shop")
	for _, found := range run(t, []string{app})[app] {
		t.Errorf("%s: %s", template, found)
	}
}

// finds runs a check of apps with one fault each.
func finds(t *testing.T, template string, run check, faults []fault) {
	t.Helper()
	planted := make([]string, len(faults))
	for i, f := range faults {
		planted[i] = plant(t, template, f)
	}
	found := run(t, planted)
	for i, f := range faults {
		t.Run(f.want, func(t *testing.T) {
			if text := strings.Join(found[planted[i]], "\n"); !strings.Contains(text, f.want) {
				t.Errorf("%s with %q: found %q, want %q", f.file, f.new, text, f.want)
			}
		})
	}
}

// plant copies an app with a fault.
func plant(t *testing.T, template string, f fault) (app string) {
	t.Helper()
	app = filepath.Join(t.TempDir(), "shop")
	if err := os.CopyFS(app, os.DirFS(filepath.Join(apps, template, "shop"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(app, f.file)
	content := string(readFile(t, path))
	if !strings.Contains(content, f.old) {
		t.Fatalf("%s has no %q", f.file, f.old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(content, f.old, f.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return app
}

// files lists the files of an app that match a pattern.
func files(t *testing.T, app, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(app, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	return slices.Sorted(slices.Values(found))
}

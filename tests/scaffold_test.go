package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"halley/tests/functionshost"
	"halley/tests/long"
	"halley/trigger/cosmos"
)

// scaffolded is a new app and its binary.
type scaffolded struct {
	dir, binary string
}

// newApp writes an app with the command of the demo's binary and builds it.
func newApp(t *testing.T, template string) *scaffolded {
	t.Helper()
	s := &scaffolded{dir: filepath.Join(t.TempDir(), "shop")}
	s.binary = filepath.Join(s.dir, "shop")
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	said := runIn(t, t.TempDir(), nil, binaries.halley, "new", "app", s.dir, "--template", template, "--module", "example.com/shop", "--halley", repository)
	for _, command := range []string{"cd " + s.dir, "go run . dev", "go test ./..."} {
		if !strings.Contains(said, command+"\n") {
			t.Errorf("the next command %s is not named:\n%s", command, said)
		}
	}
	s.build(t)
	return s
}

// build builds the app from the modules that its go.mod names, without changing it.
func (s *scaffolded) build(t *testing.T) {
	t.Helper()
	s.run(t, "go", "build", "-mod=readonly", "-o", s.binary, ".")
}

// run runs a command in the app's directory.
func (s *scaffolded) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return runIn(t, s.dir, nil, name, args...)
}

// runIn runs a command with additional environment variables and returns its stdout.
func runIn(t *testing.T, dir string, env map[string]string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environ(env), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// checkSource runs the checks of the repository and the app's tests.
func (s *scaffolded) checkSource(t *testing.T) {
	t.Helper()
	if unformatted := s.run(t, "gofmt", "-l", "."); unformatted != "" {
		t.Errorf("not formatted: %s", unformatted)
	}
	s.run(t, "go", "vet", "./...")
	s.run(t, "go", "test", "./...")
}

// A new app passes its checks and tests, runs in development and under the stand-in
// host, and gets a further handler. Each step is one that its README names. The short form
// only develops it.
func TestNewAppFromSourceToHost(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an app")
	}
	t.Parallel()
	s := newApp(t, "minimal")
	if !long.Wanted() {
		s.developed(t)
		return
	}
	s.checkSource(t)
	s.developed(t)

	said := s.run(t, "go", "run", "halley/function/app/new", "handler", "refunds")
	s.checkSource(t)
	s.run(t, "go", "run", inFile(t, "../scripts/check", `(?m)^readonly staticcheck=(\S+)$`), "./...")
	s.build(t)

	a := startAccount(t, 1, "--container", "shop/orders:/customer", "--container", "shop/leases:/id")
	settings := s.exampleSettings(t)
	settings["CosmosDB"] = a.connectionString()
	checked := runIn(t, s.dir, settings, s.binary, "check")
	for _, name := range regexp.MustCompile(`HALLEY_REFUNDS_\w+`).FindAllString(said, -1) {
		if !strings.Contains(checked, name) {
			t.Errorf("new handler tells of %s, which is not a setting:\n%s", name, checked)
		}
	}
	s.hosted(t, a, settings, s.packaged(t))
}

// An app of each further template passes its checks and tests, runs in development, and
// its package has the files that the template deploys. scripts/templates checks the
// templates' other files.
func TestTemplatesFromSourceToPackage(t *testing.T) {
	long.Only(t, "builds apps")
	t.Parallel()
	tests := []struct {
		template string
		command  string   // makes the package, in README.md and in the workflow
		args     []string // of package
		zip      string
		files    []string // in the package
	}{
		{"azd", "go run . package", nil, "shop.zip", []string{"shop", "host.json", "function/function.json"}},
		{"container", "go run . package", nil, "shop.zip", []string{"shop", "host.json", "THIRD_PARTY_LICENSES.txt", "sbom.spdx.json"}},
		{"lambda", "go run . package --lambda --arch arm64", []string{"--lambda"}, "shop-lambda.zip", []string{"bootstrap"}},
	}
	for _, test := range tests {
		t.Run(test.template, func(t *testing.T) {
			t.Parallel()
			s := newApp(t, test.template)
			s.checkSource(t)
			s.developed(t)
			// The processor of the machine, for which the modules are compiled already.
			said := s.run(t, s.binary, append([]string{"package", "--arch", runtime.GOARCH}, test.args...)...)
			if strings.TrimSpace(said) != filepath.Join("dist", test.zip) {
				t.Errorf("package says %q", said)
			}
			root := unzip(t, filepath.Join(s.dir, "dist", test.zip))
			for _, name := range test.files {
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
					t.Error(err)
				}
			}
			for _, file := range []string{"README.md", ".github/workflows/ci.yml"} {
				text, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(file)))
				if err != nil {
					t.Fatal(err)
				}
				if !regexp.MustCompile(regexp.QuoteMeta(test.command) + `( +#.*)?\n`).Match(text) {
					t.Errorf("%s does not run %s", file, test.command)
				}
			}
		})
	}
}

// developed runs the app on the embedded account with its seed.
func (s *scaffolded) developed(t *testing.T) {
	t.Helper()
	var summary struct{ Delivered, DeadLettered, Lost int }
	if err := json.Unmarshal([]byte(s.run(t, s.binary, "dev", "--for", "5s", "--json")), &summary); err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(filepath.Join(s.dir, "dev", "orders.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(seed, []byte("\n")); summary.Delivered != lines || summary.DeadLettered+summary.Lost != 0 {
		t.Errorf("summary %+v, want %d documents", summary, lines)
	}
}

// packaged packages the app twice with equal bytes, and returns the path of the zip.
func (s *scaffolded) packaged(t *testing.T) string {
	t.Helper()
	target := filepath.Join(s.dir, "dist", "shop.zip")
	var packages [2][]byte
	for i := range packages {
		if said := s.run(t, s.binary, "package", "--arch", runtime.GOARCH); strings.TrimSpace(said) != filepath.Join("dist", "shop.zip") {
			t.Errorf("package says %q", said)
		}
		var err error
		if packages[i], err = os.ReadFile(target); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packages[0], packages[1]) {
		t.Error("two packages of one source differ")
	}
	return target
}

// hosted runs the packaged app under the stand-in host.
func (s *scaffolded) hosted(t *testing.T, a *account, settings map[string]string, target string) {
	t.Helper()
	root := unzip(t, target)
	help := runIn(t, root, nil, filepath.Join(root, "shop"), "help")
	for _, command := range []string{"dev", "emulator", "new", "package"} {
		if regexp.MustCompile(`(?m)^  ` + command + ` `).MatchString(help) {
			t.Errorf("the packaged binary has the command %s:\n%s", command, help)
		}
	}
	for id := range 3 {
		document := fmt.Sprintf(`{"id": "%d", "customer": "ada"}`, id)
		_, err := a.client.Container("shop", "orders").Upsert(t.Context(), cosmos.NewPartitionKey("ada"), []byte(document))
		a.must(t, err)
	}
	h := hostApp(t, root, settings, functionshost.Options{})
	if result := ended(t, h.FireTimer("function", functionshost.Timer{})); result.Err != nil {
		t.Fatalf("timer invocation: %v", result.Err)
	}
	want := []string{"orders 0", "orders 1", "orders 2", "refunds 0", "refunds 1", "refunds 2"}
	// The host may read the answer to the invocation before the lines logged earlier.
	eventually(t, fmt.Sprintf("the documents %q are in the log", want), func() bool {
		return slices.Equal(handledBy(h), want)
	})
}

// exampleSettings returns the settings that the app proposes for Core Tools.
func (s *scaffolded) exampleSettings(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "local.settings.example.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Values map[string]string }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Values
}

// handledBy lists the functions and documents in the log lines of new handlers.
func handledBy(h *functionshost.Host) []string {
	handled := map[string]bool{}
	for _, line := range h.Lines() {
		var entry struct{ Logger, Message, ID string }
		if err := json.Unmarshal([]byte(line.Text), &entry); err == nil && entry.Message == "document changed" {
			handled[entry.Logger+" "+entry.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(handled))
}

// The app is built for the systems of developers, where Core Tools runs it, and go.mod
// requires no module that it needs on none of them.
func TestNewAppIsBuiltForEverySystem(t *testing.T) {
	long.Only(t, "builds an app for each system")
	t.Parallel()
	s := newApp(t, "minimal")
	used := map[string]bool{"example.com/shop": true}
	for _, system := range []string{"linux", "darwin", "windows"} {
		env := map[string]string{"GOOS": system, "CGO_ENABLED": "0"}
		runIn(t, s.dir, env, "go", "build", "-mod=readonly", "-o", filepath.Join(t.TempDir(), "shop"), ".")
		modules := runIn(t, s.dir, env, "go", "list", "-deps", "-test", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
		for module := range strings.Lines(modules) {
			used[strings.TrimSpace(module)] = true
		}
	}
	var required struct{ Require []struct{ Path string } }
	if err := json.Unmarshal([]byte(s.run(t, "go", "mod", "edit", "-json")), &required); err != nil {
		t.Fatal(err)
	}
	for _, r := range required.Require {
		if !used[r.Path] {
			t.Errorf("go.mod requires %s, which no package uses", r.Path)
		}
	}
}

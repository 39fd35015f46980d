package tests

import (
	"encoding/json"
	"errors"
	"fmt"
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

// released is the version of the modules in the proxy.
const released = "v0.1.0"

// appModules is the most modules that the graph of an app has which uses no sink: an app's
// author reads reports about each of them.
const appModules = 52

// strangers are apps outside of this repository: each with the packages of Halley that its
// main function uses besides function/app and handlers, and the number of modules that they
// add to the graph.
var strangers = []struct {
	name, options string
	packages      []string
	more          int
}{
	{name: "minimal"},
	{"redis", entries("leaderboard", "cache"), []string{"handlers/redis/leaderboard", "handlers/redis/cache"}, 10},
	{"postgres", entries("view"), []string{"handlers/postgres/view"}, 6},
	{"push", entries("push", "fcm", "mqtt"), []string{"handlers/push", "handlers/push/fcm", "handlers/push/mqtt"}, 19},
	{"kafka", entries("kafka"), []string{"handlers/stream/kafka"}, 7},
	{"nats", entries("nats"), []string{"handlers/stream/nats"}, 11},
	{"bleve", entries("bleve"), []string{"handlers/search/bleve"}, 38},
	{"archive", entries("archive"), []string{"handlers/archive"}, 19},
	{"azurestorage", "DeadLetterStores: azurestorage.DeadLetterStores()", []string{"function/app/azurestorage"}, 5},
	{"otel", "Telemetry: otel.Export", []string{"function/app/otel"}, 93},
}

// entries are the options of an app with a handler of its own and those of packages.
func entries(packages ...string) string {
	var list strings.Builder
	list.WriteString(`handlers.New("count", "counts changes", count), `)
	for _, name := range packages {
		fmt.Fprintf(&list, "handlers.New(%q, \"a sink\", %s.Open), ", name, name)
	}
	return "Handlers: []handlers.Entry{" + list.String() + "}"
}

// TestStrangersBuildFromAProxy tags the modules of a renamed copy, publishes them in a
// file-system proxy, and builds apps that get them there without any replacement. The other
// modules come from the module cache as far as it has them. It counts the modules of the
// graph of each app; scripts/strangers builds the apps.
func TestStrangersBuildFromAProxy(t *testing.T) {
	long.Only(t, "unpacks the modules of an app")
	t.Parallel()
	dir := copyModule(t)
	if out, err := renameModule(dir, publicPath); err != nil {
		t.Fatalf("rename-module: %v\n%s", err, out)
	}
	tagRelease(t, dir)
	proxy := t.TempDir()
	modules, err := modulesOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		publish(t, proxy, m)
	}
	cached := "file://" + filepath.ToSlash(goTool(t, "..", nil, "env", "GOMODCACHE")) + "/cache/download"
	env := []string{
		"GOPROXY=file://" + filepath.ToSlash(proxy) + "," + cached + "," + goTool(t, "..", nil, "env", "GOPROXY"), "GONOSUMDB=*", "GONOPROXY=none", "GOPRIVATE=", "GOSUMDB=off",
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw -mod=mod -trimpath", "GOWORK=off", "CGO_ENABLED=0",
	}
	if runtime.GOARCH == "amd64" {
		env = append(env, "GOEXPERIMENT=simd")
	}
	for _, s := range strangers {
		t.Run(s.name, func(t *testing.T) {
			user := t.TempDir()
			writeStranger(t, user, s.options, s.packages)
			goTool(t, user, env, "mod", "init", "example.com/shop")
			goTool(t, user, env, "get", publicPath+"/function/app@"+released)
			goTool(t, user, env, "get", ".")
			if n := graphSize(t, user, env); n > appModules+s.more {
				t.Errorf("the graph of the app has %d modules, want at most %d", n, appModules+s.more)
			} else {
				t.Logf("%d modules", n)
			}
			if !long.All() {
				return
			}
			// As scripts/check does, without the paths of directories, so that the build cache has it.
			goTool(t, user, env, append(append([]string{"build", "-o", "shop"}, coldFlags(t)...), ".")...)
			out, err := exec.Command(filepath.Join(user, "shop"), "version").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "(halley "+released+")") {
				t.Errorf("version: %v\n%s", err, out)
			}
		})
	}
}

// tagRelease runs scripts/tag in a copy.
func tagRelease(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{
		{"git", "init", "-q"}, {"git", "config", "user.name", "stranger"}, {"git", "config", "user.email", "stranger@example.com"},
		{"git", "add", "-A"}, {"git", "commit", "-qm", "copy"}, {filepath.Join("scripts", "tag"), released},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		if strings.HasPrefix(args[0], "scripts") {
			cmd.Path = filepath.Join(dir, args[0])
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		} else if args[0] != "git" && !strings.Contains(string(out), "handlers/redis/"+released+"\n") {
			t.Errorf("the tags are\n%s", out)
		}
	}
}

// publish adds a module to a file-system proxy.
func publish(t *testing.T, proxy string, m halleyModule) {
	t.Helper()
	versions := filepath.Join(proxy, filepath.FromSlash(m.path), "@v")
	mod, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"Version": released, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"list": []byte(released + "\n"), released + ".info": info, released + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(versions, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := os.Create(filepath.Join(versions, released+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(modzip.CreateFromDir(packed, module.Version{Path: m.path, Version: released}, m.dir), packed.Close())
	if err != nil {
		t.Fatal(err)
	}
}

// writeStranger writes the main package of an app with a handler of its own, the packages and
// the options that name them.
func writeStranger(t *testing.T, dir, options string, packages []string) {
	t.Helper()
	var imports strings.Builder
	for _, name := range append([]string{"function/app", "handlers", "trigger"}, packages...) {
		fmt.Fprintf(&imports, "\t%q\n", publicPath+"/"+name)
	}
	if options == "" {
		options = entries()
	}
	if !strings.Contains(options, "Handlers:") {
		options += ", " + entries()
	}
	text := fmt.Sprintf(`package main

import (
	"context"

%s)

func main() { app.Options{%s}.Main() }

func count(context.Context, handlers.Env, struct{}) (trigger.Handler, func() error, error) {
	return func(_ context.Context, b trigger.Batch) error { println(len(b.Changes)); return nil }, nil, nil
}
`, imports.String(), options)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// graphSize counts the modules in the graph of a module, besides itself.
func graphSize(t *testing.T, dir string, env []string) int {
	t.Helper()
	paths := map[string]bool{}
	for _, node := range strings.Fields(goTool(t, dir, env, "mod", "graph")) {
		if path, _, ok := strings.Cut(node, "@"); ok && path != "go" && path != "toolchain" {
			paths[path] = true
		}
	}
	return len(paths)
}

package packaging

import (
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

const license = "Permission is hereby granted, free of charge"

// appFiles are an app that is quick to build. It uses a module in another directory,
// and does not compile without the build tag.
func appFiles() map[string]string {
	return map[string]string{
		"lib/go.mod":  "module example.com/lib\n\ngo 1.26.0\n",
		"lib/lib.go":  "package lib\n\nconst Answer = 42\n",
		"lib/LICENSE": license,
		"app/go.mod": "module example.com/shop\n\ngo 1.26.0\n\nrequire example.com/lib v0.0.0\n\n" +
			"replace example.com/lib => ../lib\n",
		"app/main.go":                "package main\n\nimport \"example.com/lib\"\n\nfunc main() { packaged(lib.Answer) }\n",
		"app/packaged.go":            "//go:build " + BuildTag + "\n\npackage main\n\nfunc packaged(int) {}\n",
		"app/host.json":              `{"version": "2.0", "customHandler": {"description": {"defaultExecutablePath": "shop"}}}`,
		"app/function/function.json": "{}",
		"app/function/notes.txt":     "not packaged",
	}
}

// writeApp returns the app's directory.
func writeApp(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "app")
}

// entry is a file of a package.
type entry struct {
	mode    fs.FileMode
	content []byte
}

func unpack(t *testing.T, target string) map[string]entry {
	t.Helper()
	archive, err := zip.OpenReader(target)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	entries := map[string]entry{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		entries[f.Name] = entry{f.Mode(), content}
		if !f.Modified.Equal(oldest) {
			t.Errorf("%s has the time %v", f.Name, f.Modified)
		}
	}
	return entries
}

func buildInfo(t *testing.T, binary []byte) *debug.BuildInfo {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func setting(info *debug.BuildInfo, key string) string {
	i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == key })
	if i < 0 {
		return ""
	}
	return info.Settings[i].Value
}

func TestPackageForFunctions(t *testing.T) {
	root := writeApp(t, appFiles())
	target, err := Write(t.Context(), Options{Root: root, Main: "example.com/shop", Page: true, Stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(root, "dist", "shop.zip"); target != want {
		t.Errorf("written to %s, want %s", target, want)
	}
	entries := unpack(t, target)
	names := []string{licenseFile, "function/function.json", "host.json", sbomFile, "shop", pageFile}
	if text := string(entries[pageFile].content); text != PageFunction {
		t.Errorf("the function of the page is\n%s", text)
	}
	if got := slices.Sorted(maps.Keys(entries)); !slices.Equal(got, names) {
		t.Errorf("the package has %q, want %q", got, names)
	}
	for name, e := range entries {
		want := fs.FileMode(0o644)
		if name == "shop" {
			want = 0o755
		}
		if e.mode != want {
			t.Errorf("%s has the mode %v, want %v", name, e.mode, want)
		}
	}
	info := buildInfo(t, entries["shop"].content)
	for key, want := range map[string]string{"GOOS": "linux", "GOARCH": "amd64", "CGO_ENABLED": "0", "-tags": "lambda.norpc," + BuildTag} {
		if got := setting(info, key); got != want {
			t.Errorf("the binary has %s=%s, want %s", key, got, want)
		}
	}
	if text := string(entries[licenseFile].content); !strings.Contains(text, "example.com/lib v0.0.0: LICENSE") || !strings.Contains(text, license) {
		t.Errorf("no licence of the used module in %q", text)
	}
	checkList(t, entries[sbomFile].content)
	dist, err := os.ReadDir(filepath.Dir(target))
	if err != nil || len(dist) != 1 {
		t.Errorf("%v: files are left: %v", err, dist)
	}
}

// checkList compares the list of modules with those of the app.
func checkList(t *testing.T, list []byte) {
	t.Helper()
	var d spdxDocument
	if err := json.Unmarshal(list, &d); err != nil {
		t.Fatal(err)
	}
	type row struct{ name, license string }
	var rows []row
	for _, p := range d.Packages {
		rows = append(rows, row{p.Name, p.LicenseDeclared})
	}
	want := []row{{"example.com/shop", noAssertion}, {"example.com/lib", "MIT"}, {"std", "BSD-3-Clause"}}
	if !slices.Equal(rows, want) {
		t.Errorf("the list has %v, want %v", rows, want)
	}
	if p := d.Packages[1]; p.DownloadLocation != noAssertion || len(p.ExternalRefs) > 0 || p.VersionInfo != "v0.0.0" {
		t.Errorf("a module in a directory can be downloaded: %+v", p)
	}
}

// With a queue, the timer's function and host.json are changed, and the function drain
// is added. The files of the app stay as they are.
func TestPackageForFanout(t *testing.T) {
	files := appFiles()
	files["app/function/function.json"] = `{"bindings": [{"type": "timerTrigger", "direction": "in", "name": "timer", "schedule": "%SCHEDULE%"}], "retry": {"strategy": "fixedDelay"}}`
	root := writeApp(t, files)
	target, err := Write(t.Context(), Options{Root: root, Main: ".", Fanout: true, Stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	entries := unpack(t, target)
	if got, want := slices.Sorted(maps.Keys(entries)), []string{licenseFile, drainFile, timerFile, "host.json", sbomFile, "shop"}; !slices.Equal(got, want) {
		t.Errorf("the package has %q, want %q", got, want)
	}
	read := func(name string) (document struct {
		Version         string
		Retry           struct{ Strategy string }
		ExtensionBundle struct{ ID, Version string }
		Extensions      struct {
			Queues struct{ VisibilityTimeout string }
		}
		CustomHandler struct {
			Description struct{ DefaultExecutablePath string }
		}
		Bindings []struct{ Type, Direction, Name, Schedule, QueueName, Connection string }
	}) {
		if err := json.Unmarshal(entries[name].content, &document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return document
	}
	timer, drain, host := read(timerFile), read(drainFile), read("host.json")
	if len(timer.Bindings) != 2 || timer.Bindings[0].Schedule != "%SCHEDULE%" || timer.Retry.Strategy != "fixedDelay" ||
		timer.Bindings[1].Type != "queue" || timer.Bindings[1].Direction != "out" || timer.Bindings[1].QueueName != "shop-ranges" {
		t.Errorf("timer %+v", timer)
	}
	if len(drain.Bindings) != 1 || drain.Bindings[0].Type != "queueTrigger" || drain.Bindings[0].QueueName != "shop-ranges" || drain.Bindings[0].Connection != timer.Bindings[1].Connection {
		t.Errorf("drain %+v", drain)
	}
	if host.Version != "2.0" || host.CustomHandler.Description.DefaultExecutablePath != "shop" || host.ExtensionBundle.ID != "Microsoft.Azure.Functions.ExtensionBundle" || host.ExtensionBundle.Version == "" ||
		host.Extensions.Queues.VisibilityTimeout != "00:00:10" {
		t.Errorf("host.json %+v", host)
	}
	if text, err := os.ReadFile(filepath.Join(root, "function", "function.json")); err != nil || string(text) != files["app/function/function.json"] {
		t.Errorf("the app's own file is %s, %v", text, err)
	}
}

func TestFanoutKeepsOwnFiles(t *testing.T) {
	for name, change := range map[string]map[string]string{
		"drain/function.json exists already": {"app/drain/function.json": "{}"},
		"it has a queue already":             {"app/function/function.json": `{"bindings": [{"type": "queue"}]}`},
		"is missing":                         {"app/function/function.json": "", "app/poll/function.json": "{}"},
		"not a JSON object":                  {"app/function/function.json": "[]"},
		"bindings":                           {"app/function/function.json": `{"bindings": 1}`},
		"extensions: not a JSON object":      {"app/host.json": strings.Replace(executableJSON("shop"), "{", `{"extensions": 1, `, 1)},
	} {
		files := appFiles()
		maps.Copy(files, change)
		root := writeApp(t, files)
		if change["app/poll/function.json"] != "" {
			if err := os.Remove(filepath.Join(root, "function", "function.json")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Write(t.Context(), Options{Root: root, Main: ".", Fanout: true, Stderr: t.Output()}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
	if _, err := Write(t.Context(), Options{Root: ".", Main: ".", Fanout: true, Lambda: true}); err == nil || !strings.Contains(err.Error(), "no queue") {
		t.Errorf("for AWS Lambda: %v", err)
	}
	root := writeApp(t, map[string]string{"app/host.json": `{"extensionBundle": {"id": "own"}, "Extensions": {"queues": {"batchSize": 4, "visibilitytimeout": "00:01:00"}}}`, "app/function/function.json": "{}"})
	own := map[string]string{"host.json": filepath.Join(root, "host.json"), timerFile: filepath.Join(root, "function", "function.json")}
	if err := addFanout(own, t.TempDir(), "shop"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(own["host.json"])
	if err != nil || !strings.Contains(string(text), `"own"`) {
		t.Errorf("the bundle of the app is replaced: %s, %v", text, err)
	}
	if settings := string(text); strings.Count(strings.ToLower(settings), "visibilitytimeout") != 1 || !strings.Contains(settings, "00:01:00") || !strings.Contains(settings, "batchSize") {
		t.Errorf("the settings of the app's queues are replaced: %s", text)
	}
}

func TestQueueIsNamedAfterTheExecutable(t *testing.T) {
	for executable, want := range map[string]string{
		"shop": "shop-ranges", "bin/My_Shop.v2": "my-shop-v2-ranges", "läden": "l-den-ranges", "_": "ranges",
		strings.Repeat("a", 80): strings.Repeat("a", 56) + "-ranges",
	} {
		if got := queueName(executable); got != want {
			t.Errorf("%s: %s, want %s", executable, got, want)
		}
	}
}

func TestPackageForLambda(t *testing.T) {
	files := appFiles()
	files["app/LICENSE"] = license
	root := writeApp(t, files)
	arch := "amd64"
	if os.Getenv("HALLEY_TEST_LONG") != "" {
		arch = "arm64" // compiles Go's runtime once more
	}
	target, err := Write(t.Context(), Options{Root: root, Main: ".", Lambda: true, Arch: arch, Stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(root, "dist", "shop-lambda.zip"); target != want {
		t.Errorf("written to %s, want %s", target, want)
	}
	entries := unpack(t, target)
	if got, want := slices.Sorted(maps.Keys(entries)), []string{"LICENSE", licenseFile, "bootstrap", sbomFile}; !slices.Equal(got, want) {
		t.Errorf("the package has %q, want %q", got, want)
	}
	if e := entries["bootstrap"]; e.mode&0o111 == 0 || setting(buildInfo(t, e.content), "GOARCH") != arch {
		t.Errorf("bootstrap has the mode %v", e.mode)
	}
}

// Two builds at different times, in different environments, give the same bytes.
func TestPackageIsReproducible(t *testing.T) {
	root := writeApp(t, appFiles())
	options := Options{Root: root, Main: ".", Target: filepath.Join(t.TempDir(), "first.zip"), Stderr: t.Output()}
	if _, err := Write(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	first := options.Target
	for name, value := range map[string]string{"GOFLAGS": "-tags=other -ldflags=-X=main.x=y", "GOARCH": "386", "GOAMD64": "v3", "CGO_ENABLED": "1", "GOWORK": filepath.Join(root, "none")} {
		t.Setenv(name, value)
	}
	later := time.Now().Add(time.Hour)
	for _, name := range []string{"host.json", "main.go"} {
		if err := os.Chtimes(filepath.Join(root, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	options.Target = filepath.Join(t.TempDir(), "second.zip")
	if _, err := Write(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	a, errA := os.ReadFile(first)
	b, errB := os.ReadFile(options.Target)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the packages differ, %d and %d bytes: %v, %v", len(a), len(b), errA, errB)
	}
}

// If an app cannot be packaged, the error names the fix and the last package stays.
func TestAppThatCannotBePackaged(t *testing.T) {
	tests := []struct{ name, file, content, want string }{
		{"no host.json", "app/host.json", "", "host.json does not exist: run the command in the directory of the app"},
		{"broken host.json", "app/host.json", "{", "host.json: not valid JSON"},
		{"no executable", "app/host.json", "{}", `defaultExecutablePath is "": name the executable`},
		{"a path", "app/host.json", executableJSON("./shop"), `such as "shop", without ./`},
		{"a path of Windows", "app/host.json", executableJSON(`bin\\shop`), `such as "shop", without ./`},
		{"a path elsewhere", "app/host.json", executableJSON("../shop"), `such as "shop", without ./`},
		{"a program of Windows", "app/host.json", executableJSON("shop.exe"), `the package is for Linux: write "shop"`},
		{"no function", "app/function/function.json", "", "no function.json in a directory of"},
		{"no licence", "lib/LICENSE", "", "module example.com/lib: no licence text"},
		{"no build", "app/main.go", "package main\n\nfunc main() { x }\n", "go build: exit status 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := appFiles()
			if files[test.file] = test.content; test.content == "" {
				delete(files, test.file)
			}
			files["app/dist/shop.zip"] = "before"
			root := writeApp(t, files)
			_, err := Write(t.Context(), Options{Root: root, Main: "."})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
			if b, err := os.ReadFile(filepath.Join(root, "dist", "shop.zip")); err != nil || string(b) != "before" {
				t.Errorf("the last package is now %q, %v", b, err)
			}
		})
	}
}

func executableJSON(name string) string {
	return `{"customHandler": {"description": {"defaultExecutablePath": "` + name + `"}}}`
}

func TestLicensesAreIdentified(t *testing.T) {
	tests := map[string]string{
		license: "MIT",
		"Redistribution and use in source and\nbinary forms, … to endorse or promote products": "BSD-3-Clause",
		"Redistribution and use in source and binary forms":                                    "BSD-2-Clause",
		"Apache License … Permission is hereby granted, free of charge":                        "Apache-2.0",
		"All rights reserved": noAssertion,
	}
	for text, want := range tests {
		if got := identify([]licenseText{{"LICENSE", text}}); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

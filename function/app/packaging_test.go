package app

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/packaging"
	"halley/function/app/internal/settings"
)

// functionsApp writes a Functions app and gives its directory. A file with the content
// "-" is left out.
func functionsApp(t *testing.T, change map[string]string) string {
	t.Helper()
	files := map[string]string{
		"host.json":              `{"version":"2.0","functionTimeout":"00:05:00","customHandler":{"description":{"defaultExecutablePath":"halley"}}}`,
		"function/function.json": `{"bindings":[{"type":"timerTrigger","direction":"in","name":"timer","schedule":"*/10 * * * * *"}]}`,
		"halley":                 "#!",
	}
	maps.Copy(files, change)
	dir := t.TempDir()
	for name, content := range files {
		if content == "-" {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if name == "halley" && content == "#!" {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPackaging(t *testing.T) {
	apptest.CleanEnv(t, nil)
	for name, test := range map[string]struct {
		change map[string]string
		says   string // "": all is well
	}{
		"good":                {nil, ""},
		"source tree":         {map[string]string{"halley": "-"}, ""},
		"no app":              {map[string]string{"host.json": "-", "function/function.json": "-"}, ""},
		"not JSON":            {map[string]string{"host.json": "{"}, "host.json"},
		"version":             {map[string]string{"host.json": `{"customHandler":{"description":{"defaultExecutablePath":"halley"}}}`}, `"2.0"`},
		"no handler":          {map[string]string{"host.json": `{"version":"2.0"}`}, "defaultExecutablePath"},
		"dot slash":           {map[string]string{"host.json": `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"./halley"}}}`}, "without ./"},
		"another name":        {map[string]string{"host.json": `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"bin/shop"}}}`, "bin/shop": "text"}, "chmod"},
		"outside":             {map[string]string{"host.json": `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"../halley"}}}`}, "in the package"},
		"arguments":           {map[string]string{"host.json": `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"halley","arguments":["run"]}}}`}, "arguments"},
		"timeout":             {map[string]string{"host.json": `{"version":"2.0","functionTimeout":"5m","customHandler":{"description":{"defaultExecutablePath":"halley"}}}`}, "hh:mm:ss"},
		"no function":         {map[string]string{"function/function.json": "-"}, "function.json is missing"},
		"unknown function":    {map[string]string{"poll/function.json": "{}"}, "poll"},
		"other trigger":       {map[string]string{"function/function.json": `{"bindings":[{"type":"cosmosDBTrigger","name":"t"}]}`}, "timerTrigger"},
		"broken function":     {map[string]string{"function/function.json": "["}, "function.json"},
		"no schedule":         {map[string]string{"function/function.json": `{"bindings":[{"type":"timerTrigger","name":"t"}]}`}, "schedule"},
		"unresolved setting":  {map[string]string{"function/function.json": `{"bindings":[{"type":"timerTrigger","name":"t","schedule":"%NO_SUCH_SETTING%"}]}`}, "%NO_SUCH_SETTING%"},
		"page":                {map[string]string{"status/function.json": packaging.PageFunction}, "HALLEY_PAGE_TOKEN is not set"},
		"other HTTP function": {map[string]string{"status/function.json": `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req"}]}`}, "run package --page"},
		"no run bit":          {map[string]string{"halley": "text"}, "chmod"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := &report{out: &out}
			r.packaging(functionsApp(t, test.change), settings.ModeTimer)
			if (r.failed > 0) != (test.says != "") || !strings.Contains(out.String(), test.says) {
				t.Errorf("%d failed, want %q:\n%s", r.failed, test.says, out.String())
			}
		})
	}
}

// TestPackagingOfThisApp checks the files that are deployed.
func TestPackagingOfThisApp(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out}
	r.packaging("../..", settings.ModeTimer)
	if r.failed > 0 || !strings.Contains(out.String(), "ok") {
		t.Error(out.String())
	}
}

// TestExampleSettingsOpen: the app opens with local.settings.example.json.
func TestExampleSettingsOpen(t *testing.T) {
	data, err := os.ReadFile("../../local.settings.example.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Values map[string]string }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	apptest.CleanEnv(t, file.Values)
	o := testApp()
	o.Stdout = &bytes.Buffer{}
	a, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestPackagedPageIsAFunction: the check knows the function that package --page adds.
func TestPackagedPageIsAFunction(t *testing.T) {
	apptest.CleanEnv(t, map[string]string{"HALLEY_PAGE_TOKEN": "0123456789abcdef"})
	var out bytes.Buffer
	r := &report{out: &out}
	r.packaging(functionsApp(t, map[string]string{"status/function.json": packaging.PageFunction}), settings.ModeTimer)
	if r.failed > 0 {
		t.Errorf("%d failed:\n%s", r.failed, out.String())
	}
}

package functions

import (
	"errors"
	"fmt"
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

// checkedApp returns the failures of CheckApp on the app in a directory, and how many
// checks there were.
func checkedApp(t *testing.T, dir string, mode settings.Mode) (n int, err error) {
	t.Helper()
	t.Setenv("FUNCTIONS_APP_ROOT_PATH", dir)
	findings := CheckApp(mode)
	for _, f := range findings {
		if f.Err != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", f.Checked, f.Err))
		}
	}
	return len(findings), err
}

// checkPackaged wants an error that says a text, or none for "".
func checkPackaged(t *testing.T, err error, says string) {
	t.Helper()
	if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("error %v, want %q", err, says)
	}
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
			_, err := checkedApp(t, functionsApp(t, test.change), settings.ModeTimer)
			checkPackaged(t, err, test.says)
		})
	}
}

// TestPackagingOfThisApp checks the files that are deployed.
func TestPackagingOfThisApp(t *testing.T) {
	if n, err := checkedApp(t, "../../../..", settings.ModeTimer); n == 0 || err != nil {
		t.Errorf("%d checks: %v", n, err)
	}
}

// TestPackagedPageIsAFunction: the check knows the function that package --page adds.
func TestPackagedPageIsAFunction(t *testing.T) {
	apptest.CleanEnv(t, map[string]string{"HALLEY_PAGE_TOKEN": "0123456789abcdef"})
	_, err := checkedApp(t, functionsApp(t, map[string]string{"status/function.json": packaging.PageFunction}), settings.ModeTimer)
	checkPackaged(t, err, "")
}

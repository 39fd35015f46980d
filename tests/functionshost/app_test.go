package functionshost

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadApp(t *testing.T) {
	queue := `{"bindings":[{"type":"queueTrigger","direction":"in","name":"m","queueName":"%QUEUE%"}]}`
	for _, test := range []struct {
		name, host string
		functions  map[string]string
		failure    string
	}{
		{"plain", plainHost, map[string]string{"poll": timer}, ""},
		{"setting as schedule", plainHost, map[string]string{"poll": strings.Replace(timer, "*/10 * * * * *", "%SCHEDULE%", 1)}, ""},
		{"time span as schedule", plainHost, map[string]string{"poll": strings.Replace(timer, "*/10 * * * * *", "00:00:05", 1)}, ""},
		{"unset schedule", plainHost, map[string]string{"poll": strings.Replace(timer, "*/10 * * * * *", "%NOT_SET%", 1)}, "neither NCRONTAB"},
		{"version", strings.Replace(plainHost, "2.0", "1.0", 1), map[string]string{"poll": timer}, `must be "2.0"`},
		{"no description", `{"version":"2.0"}`, map[string]string{"poll": timer}, "defaultExecutablePath"},
		{"not JSON", `{`, map[string]string{"poll": timer}, "host.json"},
		{"no function", plainHost, nil, "no function.json"},
		{"function name", plainHost, map[string]string{"9lives": timer}, "cannot name a function"},
		{"no trigger", plainHost, map[string]string{"poll": `{"bindings":[{"type":"queue","direction":"out","name":"o"}]}`}, "no trigger"},
		{"queue without bundle", plainHost, map[string]string{"work": queue}, "extensionBundle"},
		{"queue with bundle", strings.Replace(plainHost, `{`, `{"extensionBundle":{},`, 1), map[string]string{"work": queue}, ""},
		{"timeout", strings.Replace(plainHost, "00:05:00", "5 min", 1), map[string]string{"poll": timer}, "functionTimeout"},
	} {
		root := writeApp(t, test.host, test.functions)
		_, err := readApp(root, map[string]string{"SCHEDULE": "0 */5 * * * *", "QUEUE": "ranges"})
		switch {
		case test.failure == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.failure != "" && (err == nil || !strings.Contains(err.Error(), test.failure)):
			t.Errorf("%s: %v, want %q", test.name, err, test.failure)
		}
	}
}

func TestFunctionsListSelects(t *testing.T) {
	root := writeApp(t, strings.Replace(plainHost, `{`, `{"functions":["poll"],`, 1), map[string]string{"poll": timer, "other": timer})
	a, err := readApp(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, found := a.functions["other"]; found || len(a.functions) != 1 {
		t.Errorf("functions %v, want poll alone", a.functions)
	}
}

// The executable is searched in the app's root first, then in PATH.
func TestExecutableIsSearchedInRootThenPATH(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "handler"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"handler":  filepath.Join(root, "handler"),
		"sh":       "sh",
		"/bin/sh":  "/bin/sh",
		"bin/none": "bin/none",
	} {
		if got := resolveExecutable(root, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// Arguments are joined with spaces and split again without regard for quotes. If a
// setting is not set, its name is removed.
func TestArgumentsAreJoinedAndSplit(t *testing.T) {
	host := strings.Replace(plainHost, `"handler"`, `"handler","arguments":["--mode","%MODE%","%GONE%","two words"]`, 1)
	h := startApp(t, writeApp(t, host, fakeFunctions()), Options{Settings: map[string]string{"MODE": "timer"}})
	e := echoed(t, within(t, h.FireTimer("echo", Timer{})))
	if got := strings.Join(e.Args, "|"); got != "--mode|timer|two|words" {
		t.Errorf("arguments %s", got)
	}
}

func TestSettingOverridesTimeout(t *testing.T) {
	root := writeApp(t, plainHost, map[string]string{"poll": timer})
	a, err := readApp(root, map[string]string{timeoutOverride: "00:00:07"})
	if err != nil || a.functionTimeout != 7*time.Second {
		t.Errorf("%v, %v; want 7 s", a, err)
	}
}

func TestParseTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": time.Hour, "-1": 0, "00:05:00": 5 * time.Minute, "1.02:03:04.5": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond,
	} {
		if got, err := parseTimeout(text, time.Hour); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"5m", "24:00:00", "00:60:00", "00:00:60", "10"} {
		if got, err := parseTimeout(text, 0); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"halley/function/internal/bundled"
)

// setEnvironment leaves only these settings.
func setEnvironment(t *testing.T, settings map[string]string) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "HALLEY_") { // CI sets some for other tests
			t.Setenv(name, value) // is set again after the test
			os.Unsetenv(name)
		}
	}
	for name, value := range settings {
		t.Setenv(name, value)
	}
}

func TestFunctionsOfTheEnvironment(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings map[string]string
		args     string
		want     string // names, or the error
	}{
		{"a program", map[string]string{"HALLEY_ORDERS_COMMAND": "python3 -m halley orders"}, "dev", "orders"},
		{"programs and a handler", map[string]string{"HALLEY_ORDERS_COMMAND": "a", "HALLEY_MAILS2_COMMAND": "b", "HALLEY_FUNCTIONS": "orders,mails2,webhook"}, "run", "webhook mails2 orders"},
		{"a handler", map[string]string{"HALLEY_FUNCTIONS": "view, cache"}, "run", "cache view"},
		{"a program without its command", map[string]string{"HALLEY_FUNCTIONS": "orders"}, "run", "orders"},
		{"the command of the handler remote", map[string]string{"HALLEY_FUNCTIONS": "remote", "HALLEY_REMOTE_COMMAND": "a"}, "run", "remote"},
		{"nothing", nil, "dev", "the app has no function: set HALLEY_<NAME>_COMMAND in the environment or in halley.json"},
		{"nothing is needed", nil, "new", strings.Join(namesOf(bundled.Entries()), " ")},
		{"help", nil, "dev --help", strings.Join(namesOf(bundled.Entries()), " ")},
		{"package", map[string]string{"HALLEY_ORDERS_COMMAND": "a"}, "package", "bring no Python and no Node.js; build Dockerfile or Dockerfile.functions"},
	} {
		t.Run(test.name, func(t *testing.T) {
			setEnvironment(t, test.settings)
			options, err := load(filepath.Join(t.TempDir(), "halley.json"), strings.Fields(test.args))
			got := strings.Join(namesOf(options.Handlers), " ")
			if err != nil {
				got = err.Error()
			}
			if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestPlatformsNeedAFunction(t *testing.T) {
	setEnvironment(t, map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": "7071"})
	if _, err := load(filepath.Join(t.TempDir(), "halley.json"), nil); err == nil {
		t.Error("an app without a function starts under the Functions host")
	}
}

func TestAppFile(t *testing.T) {
	setEnvironment(t, map[string]string{"HALLEY_LOG_LEVEL": "debug", "HALLEY_ORDERS_COMMAND": "", "HALLEY_ORDERS_PROCESSES": ""})
	os.Unsetenv("HALLEY_ORDERS_COMMAND") // is restored by the test's Setenv
	os.Unsetenv("HALLEY_ORDERS_PROCESSES")
	path := filepath.Join(t.TempDir(), "halley.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"name": "shop", "settings": {"HALLEY_ORDERS_COMMAND": "a", "HALLEY_LOG_LEVEL": "info", "HALLEY_ORDERS_PROCESSES": "2"},
		"containers": [{"name": "orders", "partitionKey": ["/customer"]}]}`)
	o, err := load(path, []string{"dev"})
	if err != nil {
		t.Fatal(err)
	}
	if o.Name != "shop" || !slices.Equal(namesOf(o.Handlers), []string{"orders"}) || o.Containers[0].Name != "orders" || o.Containers[0].PartitionKey[0] != "/customer" {
		t.Errorf("app is %+v", o)
	}
	if os.Getenv("HALLEY_LOG_LEVEL") != "debug" || os.Getenv("HALLEY_ORDERS_PROCESSES") != "2" {
		t.Error("a setting of the file overrides the environment, or is not set")
	}
	for text, want := range map[string]string{
		`{"setings": {}}`:        `unknown field "setings": write for example`,
		`name: shop`:             "invalid character",
		`{"containers": [{}]}`:   "a container has no name",
		`{"settings": {"": ""}}`: `setting ""`,
	} {
		write(text)
		if _, err := load(path, []string{"dev"}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error is %v, want %s", text, err, want)
		}
	}
}

package command

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/handlers"
)

// importTrigger writes a function.json with a property of the binding and imports it
// into an app with these functions.
func importTrigger(t *testing.T, property string, functions []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	apptest.CleanEnv(t, nil)
	file := filepath.Join(t.TempDir(), "function.json")
	text := `{"bindings": [{"type": "cosmosDBTrigger", "databaseName": "shop", "containerName": ` + property + `}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	var p Program
	p.Name, p.Stdout, p.Stderr = "shop", &out, &errs
	for _, name := range functions {
		p.Source.Handlers = append(p.Source.Handlers, handlers.New(name, "", openScaffolded))
	}
	if err := p.Root(append([]string{"import", file}, args...)).ExecuteContext(t.Context()); err != nil {
		return out.String(), errs.String() + err.Error(), 1
	}
	return out.String(), errs.String(), 0
}

func TestImportPrintsTheSettingsOfOneFunction(t *testing.T) {
	tests := []struct {
		name      string
		functions []string
		args      []string
		want      string // on stdout; "" is an error
		message   string
	}{
		{"the only one", []string{"orders"}, nil, "HALLEY_ORDERS_CONTAINER_NAME=orders\n", ""},
		{"one of two", []string{"orders", "refunds"}, []string{"--function", "refunds"}, "HALLEY_REFUNDS_CONTAINER_NAME=orders\n", ""},
		{"none of two", []string{"orders", "refunds"}, nil, "", "name the function that takes over with --function: one of orders,refunds"},
		{"another", []string{"orders"}, []string{"--function", "refunds"}, "", `--function "refunds" is not a function of this app: choose from orders`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, errs, code := importTrigger(t, `"orders"`, test.functions, test.args...)
			if !strings.Contains(out, test.want) || !strings.Contains(errs, test.message) || (code == 0) != (test.want != "") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}

// If a setting cannot be translated, the others are printed and the command fails.
func TestImportFailsIfASettingIsOpen(t *testing.T) {
	out, errs, code := importTrigger(t, `"%WHERE%", "useDefaultJsonSerialization": true`, []string{"orders"})
	if code != 1 || !strings.Contains(out, "HALLEY_ORDERS_DATABASE_NAME=shop\n") || strings.Contains(out, "_CONTAINER_NAME=%") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, want := range []string{
		`not translated: HALLEY_ORDERS_CONTAINER_NAME: "%WHERE%" refers to %WHERE%, which is not set here`,
		"no setting: useDefaultJsonSerialization: the handler decodes documents itself",
		"1 settings were not translated",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("stderr lacks %s:\n%s", want, errs)
		}
	}
}

// A function.json is of another app, and perhaps of another author: no value adds a setting,
// runs a command in the shell that reads the output, or reaches the terminal as a control.
func TestImportQuotesAndChecksValues(t *testing.T) {
	out, errs, code := importTrigger(t, `"or$(touch x)d'ers", "preferredLocations": "North Europe,West US", "leaseContainerName": "a\nHALLEY_LOG_LEVEL=debug",
		"leaseContainerPrefix": "p\u001b[31m", "feedPollDelay": 9223372036854775807, "maxItemsPerInvocation": 99999999999999999999, "x\u001b[2J\ny": "z"`, []string{"orders"})
	script := filepath.Join(t.TempDir(), "halley.env")
	if err := os.WriteFile(script, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	read := exec.CommandContext(t.Context(), "sh", "-c", `set -a; . "$0"; set +a; printf '%s\n' "$HALLEY_ORDERS_CONTAINER_NAME" "$HALLEY_ORDERS_PREFERRED_LOCATIONS"`, script)
	read.Dir = t.TempDir()
	values, err := read.CombinedOutput()
	if want := "or$(touch x)d'ers\nNorth Europe,West US\n"; err != nil || string(values) != want {
		t.Errorf("a shell reads %q: %v\n%s", values, err, out)
	}
	if strings.ContainsAny(out+errs, "\x1b") || strings.Contains(out, "LOG_LEVEL") || strings.Contains(out, "FEED_POLL_DELAY") || strings.Contains(out, "MAX_ITEMS") || code != 1 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		`HALLEY_ORDERS_LEASE_CONTAINER_NAME: "a\nHALLEY_LOG_LEVEL=debug" has a line break or another character that cannot be printed`,
		`HALLEY_ORDERS_LEASE_CONTAINER_PREFIX: "p\x1b[31m" has`,
		`HALLEY_ORDERS_FEED_POLL_DELAY: "9223372036854775807" is not a whole number from 0 to 2147483647`,
		`HALLEY_ORDERS_MAX_ITEMS_PER_INVOCATION: "99999999999999999999" is not`,
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("stderr lacks %s:\n%s", want, errs)
		}
	}
}

package command

import (
	"bytes"
	"os"
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

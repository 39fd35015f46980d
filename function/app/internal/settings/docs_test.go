package settings

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/handlers"
)

var update = flag.Bool("update", false, "write the table of docs/settings.md again")

const settingsPage = "../../../../docs/settings.md"

// The tables of settings are those of the code.
func TestDocumentedSettings(t *testing.T) {
	page, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	before, rest, begins := strings.Cut(text, "-update -->\n")
	table, after, ends := strings.Cut(rest, "<!-- /settings -->")
	if !begins || !ends {
		t.Fatalf("%s has no marks around the settings", settingsPage)
	}
	want := settingsTables(t)
	if *update {
		if err := os.WriteFile(settingsPage, []byte(before+"-update -->\n"+want+"<!-- /settings -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("%s does not have the settings of the code: go test ./function/app/internal/settings -run TestDocumentedSettings -update\ngot:\n%s\nwant:\n%s", settingsPage, table, want)
	}
}

// settingsTables are all settings, of the handlers that Halley comes with, with
// their defaults, as Markdown.
func settingsTables(t *testing.T) string {
	t.Helper()
	apptest.CleanEnv(t, nil)
	app := App{Mode: ModeTimer, LogLevel: "info", LogFormat: FormatAuto}
	f := NewFunction(handlers.Entry{})
	if errs := append(app.fillDefaults(), f.fillDefaults(&app)...); errs != nil {
		t.Fatal(errs)
	}
	var b strings.Builder
	section := func(title, prefix string, spec any) {
		fmt.Fprintf(&b, "\n%s\n\n| Setting | Default | Meaning |\n| --- | --- | --- |\n", title)
		v := reflect.ValueOf(spec).Elem()
		for i := range v.NumField() {
			field := v.Type().Field(i)
			description := field.Tag.Get("desc")
			if description == "" {
				t.Errorf("%s has no description", field.Name)
			}
			fmt.Fprintf(&b, "| `%s_%s` | %s | %s |\n", prefix, envName(field), defaultOf(field, v.Field(i)), strings.ReplaceAll(description, "|", `\|`))
		}
	}
	section("The app:", prefix, &app)
	section("What a function reads, and its leases:", prefix, &f.Feed)
	section("Delivery:", prefix, &f.Delivery)
	for _, e := range apptest.Handlers() {
		section("The handler "+e.Name+", which "+e.Summary+":", ownPrefix(e), e.Settings())
	}
	return b.String() + "\n"
}

// defaultOf shows a default; a handler's is in its tag.
func defaultOf(field reflect.StructField, v reflect.Value) string {
	s := fmt.Sprint(v.Interface())
	if tag, ok := field.Tag.Lookup("default"); ok {
		s = tag
	}
	switch {
	case field.Type == reflect.TypeFor[time.Duration]() && s == "0s", s == "[]":
		s = ""
	}
	if s == "" {
		return ""
	}
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return "`" + s + "`"
}

// TestExampleSettings: local.settings.example.json holds every setting of
// Halley and of its own handlers, each of which is accepted.
func TestExampleSettings(t *testing.T) {
	data, err := os.ReadFile("../../../../local.settings.example.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Values map[string]string }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	s, err := load(t, file.Values)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Functions) == 0 {
		t.Error("the example runs no function")
	}
	all := slices.Concat(Keys(prefix, &App{}), Keys(prefix, &Feed{}), Keys(prefix, &Delivery{}))
	for _, e := range apptest.Handlers() {
		all = append(all, Keys(ownPrefix(e), e.Settings())...)
	}
	all = slices.DeleteFunc(all, func(name string) bool { return name == "HALLEY_LEASE_CONTAINER_PREFIX" }) // two functions cannot share it
	for _, name := range all {
		if _, ok := file.Values[name]; !ok {
			t.Errorf("the example lacks %s", name)
		}
	}
}

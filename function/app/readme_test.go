package app

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"halley/function/app/internal/scaffold"
	"halley/handlers"
	"halley/trigger/emulator"
)

var update = flag.Bool("update", false, "write the README's table of settings anew")

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadmeSettings holds the README's tables of settings against the code.
func TestReadmeSettings(t *testing.T) {
	text := readme(t)
	before, rest, begins := strings.Cut(text, "-update -->\n")
	table, after, ends := strings.Cut(rest, "<!-- /settings -->")
	if !begins || !ends {
		t.Fatal("the README has no marks around the settings")
	}
	want := settingsTables(t)
	if *update {
		if err := os.WriteFile("../../README.md", []byte(before+"-update -->\n"+want+"<!-- /settings -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the README's settings are not those of the code: go test ./function/app -run TestReadmeSettings -update\ngot:\n%s\nwant:\n%s", table, want)
	}
}

// settingsTables are all settings, of the handlers that Halley comes with, with
// their defaults, as Markdown.
func settingsTables(t *testing.T) string {
	t.Helper()
	cleanEnv(t, nil)
	app := appSettings{Mode: modeTimer, LogLevel: "info", LogFormat: formatAuto}
	f := newFunctionSettings(handlers.Entry{})
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
	section("What a function reads, and its leases:", prefix, &f.feedSettings)
	section("Delivery:", prefix, &f.deliverySettings)
	for _, e := range testApp().Handlers {
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

// TestReadmeNamesSettings: every name of a setting that the README mentions is one.
func TestReadmeNamesSettings(t *testing.T) {
	var known []string
	for _, spec := range []any{&appSettings{}, &feedSettings{}, &deliverySettings{}} {
		known = append(known, keys(prefix, spec)...)
	}
	for _, e := range testApp().Handlers {
		known = slices.Concat(known, keys(ownPrefix(e), e.Settings()), keys(ownPrefix(e), &feedSettings{}), keys(ownPrefix(e), &deliverySettings{}))
	}
	for _, name := range regexp.MustCompile("`(?:HALLEY)?_[A-Z_]+[A-Z]").FindAllString(readme(t), -1) {
		name = prefix + strings.TrimPrefix(strings.Trim(name, "`"), prefix)
		if !slices.Contains(known, name) && !strings.HasPrefix(name, "HALLEY_GREET_") {
			t.Errorf("the README names %s, which is no setting", name)
		}
	}
}

// TestReadmeCode: each block of Go is code of the file that is named above it,
// but for comments.
func TestReadmeCode(t *testing.T) {
	blocks := regexp.MustCompile("(?s)<!-- code: (\\S+) -->\n```go\n(.*?)```").FindAllStringSubmatch(readme(t), -1)
	if len(blocks) != strings.Count(readme(t), "```go\n") || len(blocks) == 0 {
		t.Fatalf("%d blocks of Go say which file they are from", len(blocks))
	}
	for _, block := range blocks {
		source, err := os.ReadFile("../../" + block[1])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(bare(string(source)), bare(block[2])) {
			t.Errorf("not the code of %s:\n%s", block[1], block[2])
		}
	}
}

// bare is code without comments and blank lines.
func bare(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "//") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestReadmeLinks(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, name := range append(documents, "../../README.md", "../../CHANGELOG.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(link[1], "https://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), link[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestDeployCommands: Halley's commands in the documents about deployment exist, with
// their flags and templates.
func TestDeployCommands(t *testing.T) {
	documents, err := filepath.Glob("internal/scaffold/templates/*/deploy.md.tmpl")
	if err != nil || len(documents) != len(scaffold.Templates()) {
		t.Fatalf("documents %q: %v", documents, err)
	}
	line := regexp.MustCompile("(?m)^(?:go run \\./function|go run \\.) ([^#\n]+)")
	for _, name := range append(documents, "../../docs/deploying.md", "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		commands := line.FindAllStringSubmatch(string(text), -1)
		if len(commands) == 0 {
			t.Errorf("%s has no command", name)
		}
		for _, command := range commands {
			root := testApp().rootCommand(nil)
			root.AddCommand(NewCommand()) // as the demo does
			found, args, err := root.Find(strings.Fields(command[1]))
			if err == nil {
				err = found.ParseFlags(args)
			}
			if err != nil || found == root {
				t.Errorf("%s: %s: %v", name, command[0], err)
				continue
			}
			if flag := found.Flags().Lookup("template"); flag != nil && !slices.Contains(scaffold.Templates(), flag.Value.String()) {
				t.Errorf("%s: %s: no such template", name, command[0])
			}
		}
	}
}

// TestReadmeCommands: every command is in the README, and every flag of dev and
// the filters.
func TestReadmeCommands(t *testing.T) {
	text := readme(t)
	root := testApp().rootCommand(nil)
	root.AddCommand(NewCommand()) // as the demo does
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.HasSubCommands() {
				walk(sub)
				continue
			}
			if sub.Name() == "help" || sub.Name() == "completion" {
				continue
			}
			if row := "| `" + sub.CommandPath(); !strings.Contains(text, row) {
				t.Errorf("the README has no row for %s", sub.CommandPath())
			}
		}
	}
	walk(root)
	for _, flag := range regexp.MustCompile("--[a-z][a-z-]*").FindAllString(section(t, text, "## Commands"), -1) {
		if !hasFlag(root, strings.TrimPrefix(flag, "--")) {
			t.Errorf("no command has the flag %s", flag)
		}
	}
}

func hasFlag(c *cobra.Command, name string) bool {
	if c.Flags().Lookup(name) != nil || c.PersistentFlags().Lookup(name) != nil {
		return true
	}
	return slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return hasFlag(sub, name) })
}

// section is the text under a heading, up to the next of its level.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, heading+"\n")
	if !ok {
		t.Fatalf("the README has no %s", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// TestReadmeFaults: the faults that the README posts are faults.
func TestReadmeFaults(t *testing.T) {
	faults := regexp.MustCompile(`curl -d '([^']+)' \S+/_emulator/faults`).FindAllStringSubmatch(readme(t), -1)
	if len(faults) == 0 {
		t.Fatal("the README posts no fault")
	}
	for _, fault := range faults {
		var f emulator.Fault
		if err := json.Unmarshal([]byte(fault[1]), &f); err != nil {
			t.Errorf("%s: %v", fault[1], err)
		} else if err := f.Check(); err != nil {
			t.Errorf("%s: %v", fault[1], err)
		}
	}
}

// TestReadmeScripts: every script is in the README, and no other.
func TestReadmeScripts(t *testing.T) {
	scripts, err := filepath.Glob("../../scripts/*")
	if err != nil {
		t.Fatal(err)
	}
	text := section(t, readme(t), "## Scripts and tests")
	for _, script := range scripts {
		if name := filepath.Base(script); filepath.Ext(name) == "" && !strings.Contains(text, "`scripts/"+name+"`") {
			t.Errorf("the README does not name scripts/%s", name)
		}
	}
	for _, name := range regexp.MustCompile("`scripts/([a-z]+)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat("../../scripts/" + name[1]); err != nil {
			t.Error(err)
		}
	}
}

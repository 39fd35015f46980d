package command

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/scaffold"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// templateSettings finds the settings that a template of `new app` gives to an app: in
// parts of a file, names with values.
type templateSettings struct {
	name, file  string
	parts, each string // regular expressions
}

var settingsOfTemplates = []templateSettings{
	{"Flex Consumption", "azd/infra/app.bicep", `(?s)\nvar settings = \{\n.*?\n\}`, `(?m)^  (\w+): (.+)$`},
	{"Premium", "azd/infra/app.bicep", `(?s)\nvar (settings|premiumSettings) = \{\n.*?\n\}`, `(?m)^  (\w+): (.+)$`},
	{"Container Apps", "container/infra/containerapp.bicep", `(?s)\nvar settings = \[\n.*?\n\]`, `name: (\S+)\n +value: (.+)\n`},
	{"Kubernetes", "container/kubernetes/app.yaml", `(?s)\ndata:\n.*?\n---`, `(?m)^  (\w+): (.+)$`},
	{"Lambda", "lambda/template.yaml", `(?s)\n +Variables:\n.*?\n +#`, `(?m)^ +(\w+): (.+)$`},
}

// TestSettingsOfTemplatesAreAccepted: the command check accepts the settings that the
// templates give to an app, and refuses each of Halley's if it is misspelt.
func TestSettingsOfTemplatesAreAccepted(t *testing.T) {
	for _, template := range settingsOfTemplates {
		t.Run(template.name, func(t *testing.T) {
			env := template.read(t)
			if err := acceptSettings(t, env); err != nil {
				t.Error(err)
			}
			for name := range env {
				if !strings.HasPrefix(name, "HALLEY") && !strings.HasPrefix(name, "CosmosDB") {
					continue
				}
				wrong := maps.Clone(env)
				delete(wrong, name)
				wrong[name+"X"] = env[name]
				if acceptSettings(t, wrong) == nil {
					t.Errorf("the setting %sX is accepted", name)
				}
			}
		})
	}
}

func (s templateSettings) read(t *testing.T) map[string]string {
	t.Helper()
	text := readTemplate(t, s.file)
	env := map[string]string{}
	for _, part := range regexp.MustCompile(s.parts).FindAllString(text, -1) {
		for _, match := range regexp.MustCompile(s.each).FindAllStringSubmatch(part, -1) {
			name := strings.Trim(match[1], "'")
			env[name] = platformValue(name, match[2])
		}
	}
	if env["HALLEY_DATABASE_NAME"] == "" || env["CosmosDB"]+env["CosmosDB__accountEndpoint"] == "" {
		t.Fatalf("%s has the settings %v", s.file, env)
	}
	return env
}

func readTemplate(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile("../scaffold/templates/" + file + ".tmpl")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// acceptSettings loads settings as check does and opens the connections, with the dead
// letter store that they name and with one in the storage account, if they name one.
func acceptSettings(t *testing.T, env map[string]string) error {
	t.Helper()
	apptest.CleanEnv(t, env)
	s, err := settings.Load(scaffoldedApp().Source)
	if err != nil {
		return err
	}
	p := probe{f: s.Functions[0]}
	if err := p.connect(t.Context()); err != nil {
		return err
	}
	if env["AzureWebJobsStorage__blobServiceUri"] != "" {
		t.Setenv("HALLEY_DEAD_LETTERS", "blob:letters")
		_, err = settings.Load(scaffoldedApp().Source)
	}
	return err
}

// scaffoldedApp is an app with the handler of a new app.
func scaffoldedApp() *Program {
	p := testApp()
	p.Source.Handlers = []handlers.Entry{handlers.New("orders", "", openScaffolded)}
	return p
}

// platformValue is the value of a setting, or one such as the platform has for an
// expression.
func platformValue(name, value string) string {
	switch {
	case name == "CosmosDB":
		return "AccountEndpoint=https://shop.documents.azure.com:443/;AccountKey=c2VjcmV0;"
	case strings.HasSuffix(name, "__accountEndpoint"):
		return "https://shop.documents.azure.com:443/"
	case strings.HasSuffix(name, "ServiceUri"):
		return "https://shop.blob.core.windows.net/"
	case strings.HasSuffix(name, "__clientId"):
		return "11111111-2222-3333-4444-555555555555"
	case name == "HALLEY_MODE":
		return "continuous"
	}
	return strings.NewReplacer("'", "", `"`, "", "[[Name]]", "shop", "[[Handler]]", "orders").Replace(value)
}

// TestInitJobsCreateTheLeases: the commands of the container template's jobs, with the
// settings of the app, create the leases; repeated, they succeed and change nothing.
func TestInitJobsCreateTheLeases(t *testing.T) {
	for _, job := range []struct{ platform, file, command string }{
		{"Kubernetes", "container/kubernetes/init.yaml", `\n +command: \[.+\]\n`},
		{"Container Apps", "container/infra/containerapp.bicep", `(?s)\n +command: \[\n.+?\]\n`},
	} {
		t.Run(job.platform, func(t *testing.T) {
			i := slices.IndexFunc(settingsOfTemplates, func(s templateSettings) bool { return s.name == job.platform })
			account := apptest.ServeAccount(t, emulator.ServeOptions{})
			prepare(t, account, settingsOfTemplates[i].read(t))
			command := regexp.MustCompile(job.command).FindString(readTemplate(t, job.file))
			words := regexp.MustCompile(`['"]([^'"]+)['"]`).FindAllStringSubmatch(command, -1)
			if len(words) == 0 {
				t.Fatalf("%s has no command", job.file)
			}
			var args []string // after the executable
			for _, word := range words[1:] {
				args = append(args, word[1])
			}
			run := func(args ...string) string {
				t.Helper()
				out, err := runCommandsOf(t, scaffoldedApp(), args...)
				if err != nil {
					t.Fatalf("%q: %v\n%s", args, err, out)
				}
				return out
			}
			if out := run("leases", "list", "--json"); out != "[]\n" {
				t.Fatalf("before the job there are the leases %s", out)
			}
			run(args...)
			run("leases", "verify")
			created := run("leases", "list", "--json")
			run(args...)
			if again := run("leases", "list", "--json"); again != created {
				t.Errorf("the leases after the second run:\n%s\nafter the first:\n%s", again, created)
			}
		})
	}
}

// prepare creates the containers that settings name, and sets the settings, with the
// account's key in place of an identity.
func prepare(t *testing.T, a *apptest.Account, env map[string]string) {
	t.Helper()
	for name, key := range map[string]string{env["HALLEY_CONTAINER_NAME"]: "/customer", "leases": "/id"} {
		definition := cosmos.ContainerDefinition{ID: name, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{key}}}
		apptest.CreateContainer(t, a.Client, env["HALLEY_DATABASE_NAME"], definition)
	}
	maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, "CosmosDB") })
	env["CosmosDB"] = a.ConnectionString()
	apptest.CleanEnv(t, env)
}

// TestDeployCommands: Halley's commands in the documents about deployment exist, with
// their flags and templates.
func TestDeployCommands(t *testing.T) {
	pages, err := filepath.Glob("../scaffold/templates/*/deploy.md.tmpl")
	if err != nil || len(pages) != len(scaffold.Templates()) {
		t.Fatalf("pages %q: %v", pages, err)
	}
	line := regexp.MustCompile("(?m)^(?:go run \\./function|go run \\.) ([^#\n]+)")
	for _, name := range append(pages, "../../../../docs/deploying.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		commands := line.FindAllStringSubmatch(string(text), -1)
		if len(commands) == 0 {
			t.Errorf("%s has no command", name)
		}
		for _, command := range commands {
			root := testApp().Root(nil)
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

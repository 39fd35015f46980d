package app

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"halley/function/app/azurestorage"
	"halley/function/app/internal/scaffold"
	"halley/handlers"
)

// settingsOfTemplates finds the settings that the templates of `new app` give to an app:
// in parts of a file, names with values.
var settingsOfTemplates = []struct {
	name, file  string
	parts, each string // regular expressions
}{
	{"Flex Consumption", "azd/infra/app.bicep", `(?s)\nvar settings = \{\n.*?\n\}`, `(?m)^  (\w+): (.+)$`},
	{"Premium", "azd/infra/app.bicep", `(?s)\nvar (settings|premiumSettings) = \{\n.*?\n\}`, `(?m)^  (\w+): (.+)$`},
	{"Container Apps", "container/infra/containerapp.bicep", `(?s)\n +env: \[\n.*?\n +\]`, `name: (\S+)\n +value: (.+)\n`},
	{"Kubernetes", "container/kubernetes/app.yaml", `(?s)\n +env:\n.*?\n +resources:`, `name: (\S+)\n +value: (.+)\n`},
	{"Lambda", "lambda/template.yaml", `(?s)\n +Variables:\n.*?\n +#`, `(?m)^ +(\w+): (.+)$`},
}

// TestSettingsOfTemplatesAreAccepted: the command check accepts the settings that the
// templates give to an app, and refuses each of Halley's if it is misspelt.
func TestSettingsOfTemplatesAreAccepted(t *testing.T) {
	for _, template := range settingsOfTemplates {
		t.Run(template.name, func(t *testing.T) {
			text, err := os.ReadFile("internal/scaffold/templates/" + template.file + ".tmpl")
			if err != nil {
				t.Fatal(err)
			}
			env := map[string]string{}
			for _, part := range regexp.MustCompile(template.parts).FindAllString(string(text), -1) {
				for _, match := range regexp.MustCompile(template.each).FindAllStringSubmatch(part, -1) {
					name := strings.Trim(match[1], "'")
					env[name] = platformValue(name, match[2])
				}
			}
			if env["HALLEY_DATABASE_NAME"] == "" || env["CosmosDB"]+env["CosmosDB__accountEndpoint"] == "" {
				t.Fatalf("the file has the settings %v", env)
			}
			if err := acceptSettings(t, env); err != nil {
				t.Error(err)
			}
			for name := range env {
				if !strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, "CosmosDB") {
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

// acceptSettings loads settings as check does and opens the connections, with the dead
// letter store that they name and with one in the storage account, if they name one.
func acceptSettings(t *testing.T, env map[string]string) error {
	t.Helper()
	of := Options{Handlers: []handlers.Entry{handlers.New("orders", "", openScaffolded)}, DeadLetterStores: azurestorage.DeadLetterStores()}
	cleanEnv(t, env)
	s, err := loadSettings(of)
	if err != nil {
		return err
	}
	p := probe{f: s.Functions[0]}
	if err := p.connect(t.Context()); err != nil {
		return err
	}
	if env["AzureWebJobsStorage__blobServiceUri"] != "" {
		t.Setenv("HALLEY_DEAD_LETTERS", "blob:letters")
		_, err = loadSettings(of)
	}
	return err
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
	return strings.NewReplacer("'", "", "[[Name]]", "shop", "[[Handler]]", "orders").Replace(value)
}

// TestDeployCommands: Halley's commands in the documents about deployment exist, with
// their flags and templates.
func TestDeployCommands(t *testing.T) {
	pages, err := filepath.Glob("internal/scaffold/templates/*/deploy.md.tmpl")
	if err != nil || len(pages) != len(scaffold.Templates()) {
		t.Fatalf("pages %q: %v", pages, err)
	}
	line := regexp.MustCompile("(?m)^(?:go run \\./function|go run \\.) ([^#\n]+)")
	for _, name := range append(pages, "../../docs/deploying.md") {
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

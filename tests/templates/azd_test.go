package templates

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// checkAzureYAML judges azure.yaml by the part of its public schema that the template
// uses, and by rules for what the schema leaves open: unknown keys and languages, a
// missing dist, and names that other files must have as well.
func checkAzureYAML(t *testing.T, app string) (found []string) {
	t.Helper()
	documents := readYAML(t, filepath.Join(app, "azure.yaml"))
	found = judge(documents[0], readAllowList(t, "azure-yaml.json").Types["azure.yaml"], "azure.yaml")
	services, _ := at(documents[0], "services").(map[string]any)
	infra := string(readFile(t, filepath.Join(app, "infra", "app.bicep")))
	for name, service := range services {
		if dist := "dist/" + executable(t, app) + ".zip"; at(service, "dist") != dist {
			found = append(found, fmt.Sprintf("dist is %v, but package writes %s", at(service, "dist"), dist))
		}
		tag := "'azd-service-name': '" + name + "'"
		if apps := strings.Count(infra, "'Microsoft.Web/sites@"); apps == 0 || strings.Count(infra, tag) != apps {
			found = append(found, fmt.Sprintf("not every function app has the tag %s", tag))
		}
	}
	return found
}

// executable is the name in host.json.
func executable(t *testing.T, app string) string {
	t.Helper()
	var host any
	if err := json.Unmarshal(readFile(t, filepath.Join(app, "host.json")), &host); err != nil {
		t.Fatal(err)
	}
	name, _ := at(host, "customHandler", "description", "defaultExecutablePath").(string)
	return name
}

func TestAzureYAMLHasNoFindings(t *testing.T) {
	passes(t, "azd", each(checkAzureYAML))
}

func TestAzureYAMLFaultsAreFound(t *testing.T) {
	const file = "azure.yaml"
	finds(t, "azd", each(checkAzureYAML), []fault{
		{file, "name: shop", "name: Shop", `azure.yaml.name is "Shop"`},
		{file, "name: shop\n", "", "azure.yaml has no name"},
		{file, "host: function", "host: functionapp", `host is "functionapp"`},
		{file, "language: custom", "language: golang", `language is "golang"`},
		{file, "    dist: dist/shop.zip\n", "", "services.app has no dist"},
		{file, "dist: dist/shop.zip", "dist: dist/app.zip", "package writes dist/shop.zip"},
		{file, "dist: dist/shop.zip", "dist: dist", `dist is "dist", want`},
		{file, "    dist:", "    remoteBuilds: true\n    dist:", "services.app has remoteBuilds"},
		{file, "prepackage:", "prePackage:", "hooks has prePackage"},
		{file, "shell: pwsh", "shell: powershell", `windows.shell is "powershell"`},
		{file, "          run: go run . package\n", "", "has no run"},
		{file, "project: .", "project: ./src", `project is "./src"`},
		{file, "  app:\n", "  web:\n", "not every function app has the tag 'azd-service-name': 'web'"},
		{"infra/app.bicep", "{ 'azd-service-name': 'app' }", "{}", "not every function app has the tag 'azd-service-name': 'app'"},
	})
}

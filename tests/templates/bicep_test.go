package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bicepFile is a file as bicep.mjs prints it.
type bicepFile struct {
	File         string
	Errors       []string
	Scope        string
	Declarations []declaration
	Uses         []struct {
		Name string
		Line int
	}
	LoopVariables []string
}

type declaration struct {
	Kind, Name string
	Line       int

	Type     string // of a resource, with its version
	Existing bool   // the resource is not deployed by this file
	File     string // of a module
	Required bool   // the parameter has no default
	Value    any
}

// bicepApp is the infrastructure of an app.
type bicepApp struct {
	files map[string]*bicepFile // by name
	found []string
}

func (a *bicepApp) report(f *bicepFile, line int, format string, args ...any) {
	a.found = append(a.found, fmt.Sprintf("%s:%d: %s", filepath.Base(f.File), line, fmt.Sprintf(format, args...)))
}

// checkBicep judges the Bicep files of apps by the allow-list and by the rules of
// resourceFindings.
func checkBicep(t *testing.T, apps []string) map[string][]string {
	t.Helper()
	list := readAllowList(t, "arm.json")
	found := map[string][]string{}
	for app, a := range parseBicep(t, apps) {
		if len(a.found) == 0 {
			a.checkFiles(list)
			a.checkParameters(t, app)
		}
		found[app] = a.found
	}
	return found
}

// parseBicep parses the files of all apps with one program, which takes a while to start.
func parseBicep(t *testing.T, apps []string) map[string]*bicepApp {
	t.Helper()
	parsed := map[string]*bicepApp{}
	command := []string{"bicep.mjs", tool(t, "TEMPLATES_NODE_MODULES")}
	for _, app := range apps {
		parsed[app] = &bicepApp{files: map[string]*bicepFile{}}
		command = append(command, files(t, app, "infra/*.bicep")...)
	}
	output, err := exec.Command("node", command...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		var f bicepFile
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		a := parsed[filepath.Dir(filepath.Dir(f.File))]
		a.files[filepath.Base(f.File)] = &f
		for _, text := range f.Errors {
			a.report(&f, 0, "%s", text)
		}
	}
	return parsed
}

func (a *bicepApp) checkFiles(list allowList) {
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		f := a.files[name]
		a.checkNames(f)
		for _, found := range missingScopes(f) {
			a.report(f, 0, "%s", found)
		}
		for _, d := range f.Declarations {
			switch d.Kind {
			case "resource":
				a.checkResource(f, d, list)
			case "module":
				a.checkModule(f, d)
			}
		}
	}
}

// functions are those of Bicep that the templates use, and its decorators.
var functions = []string{
	"allowed", "description", "maxLength", "maxValue", "minLength", "minValue", "secure",
	"empty", "environment", "guid", "json", "resourceGroup", "subscription", "subscriptionResourceId", "union", "uniqueString",
}

var moduleOutput = regexp.MustCompile(`\b(\w+)\.outputs\.(\w+)`)

// checkNames reports uses of names that the file does not declare, and of outputs that
// a module does not have.
func (a *bicepApp) checkNames(f *bicepFile) {
	for _, use := range f.Uses {
		if _, ok := f.find(use.Name); !ok && !slices.Contains(f.LoopVariables, use.Name) && !slices.Contains(functions, use.Name) {
			a.report(f, use.Line, "%s is not declared", use.Name)
		}
	}
	for _, d := range f.Declarations {
		for _, match := range moduleOutput.FindAllStringSubmatch(shown(d.Value), -1) {
			module, _ := f.find(match[1])
			if target := a.files[module.File]; target == nil || !target.declares("output", match[2]) {
				a.report(f, d.Line, "%s has no output %s", match[1], match[2])
			}
		}
	}
}

func (f *bicepFile) find(name string) (declaration, bool) {
	i := slices.IndexFunc(f.Declarations, func(d declaration) bool { return d.Name == name && d.Kind != "output" })
	if i < 0 {
		return declaration{}, false
	}
	return f.Declarations[i], true
}

func (f *bicepFile) declares(kind, name string) bool {
	return slices.ContainsFunc(f.Declarations, func(d declaration) bool { return d.Kind == kind && d.Name == name })
}

// resolve replaces variables by their values, and unions of objects by the objects.
func (f *bicepFile) resolve(value any) any {
	switch value := value.(type) {
	case []any:
		resolved := make([]any, len(value))
		for i := range value {
			resolved[i] = f.resolve(value[i])
		}
		return resolved
	case map[string]any:
		if name, ok := value["ref"].(string); ok {
			if d, found := f.find(name); found && d.Kind == "variable" {
				return f.resolve(d.Value)
			}
			return value
		}
		if value["call"] == "union" {
			return f.union(value)
		}
		resolved := map[string]any{}
		for key := range value {
			resolved[key] = f.resolve(value[key])
		}
		return resolved
	}
	return value
}

// union merges the arguments of a call if all are known objects.
func (f *bicepFile) union(call map[string]any) any {
	merged := map[string]any{}
	for _, argument := range call["args"].([]any) {
		object, isObject := f.resolve(argument).(map[string]any)
		if _, unknown := expression(object); unknown || !isObject {
			return call
		}
		maps.Copy(merged, object)
	}
	return merged
}

// notProperties are keys of Bicep that are no properties of a resource.
var notProperties = []string{"name", "parent", "scope", "dependsOn"}

func (a *bicepApp) checkResource(f *bicepFile, d declaration, list allowList) {
	rule, known := list.Types[d.Type]
	if !known {
		a.report(f, d.Line, "%s is not a known type with its version", d.Type)
		return
	}
	if d.Existing {
		return
	}
	body := maps.Clone(f.resolve(d.body()).(map[string]any))
	if body["name"] == nil {
		a.report(f, d.Line, "%s has no name", d.Name)
	}
	for _, key := range notProperties {
		delete(body, key)
	}
	for _, found := range judge(body, rule, d.Name) {
		a.report(f, d.Line, "%s", found)
	}
	if properties, ok := body["properties"].(map[string]any); ok {
		for _, found := range resourceFindings(f, d, properties) {
			a.report(f, d.Line, "%s: %s", d.Name, found)
		}
	}
}

// body is the object of a resource or of a module.
func (d declaration) body() map[string]any {
	object, _ := d.Value.(map[string]any)
	return object
}

func (a *bicepApp) checkModule(f *bicepFile, d declaration) {
	target := a.files[d.File]
	if target == nil {
		a.report(f, d.Line, "%s: there is no module %s", d.Name, d.File)
		return
	}
	given, _ := d.body()["params"].(map[string]any)
	for _, name := range target.wrongParameters(given) {
		a.report(f, d.Line, "%s: %s", d.Name, name)
	}
}

// wrongParameters compares given parameters with the declared ones.
func (f *bicepFile) wrongParameters(given map[string]any) (found []string) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !f.declares("parameter", name) {
			found = append(found, fmt.Sprintf("%s has no parameter %s", filepath.Base(f.File), name))
		}
	}
	for _, d := range f.Declarations {
		if _, ok := given[d.Name]; d.Kind == "parameter" && d.Required && !ok {
			found = append(found, fmt.Sprintf("the parameter %s is missing", d.Name))
		}
	}
	return found
}

// checkParameters compares main.parameters.json with main.bicep.
func (a *bicepApp) checkParameters(t *testing.T, app string) {
	t.Helper()
	main := a.files["main.bicep"]
	if main == nil {
		return
	}
	var file struct{ Parameters map[string]any }
	if err := json.Unmarshal(readFile(t, filepath.Join(app, "infra", "main.parameters.json")), &file); err != nil {
		t.Fatal(err)
	}
	for _, found := range main.wrongParameters(file.Parameters) {
		a.report(main, 0, "main.parameters.json: %s", found)
	}
}

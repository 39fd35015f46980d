package scaffold

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// App describes a new app. Dir is required.
type App struct {
	Dir      string // where it is written: a new or empty directory
	Module   string // path of its module; example.com/ and the directory's name if empty
	Template string // one of [Templates]; the first if empty
	Halley   string // directory of Halley's source; if empty, that of the current module's build list
}

// firstHandler is the handler of a new app.
const firstHandler = "orders"

// directories are those of an app besides its handlers.
var directories = []string{"dev", "dist", "function", "infra", "kubernetes"}

// appTemplate is a template of apps.
type appTemplate struct {
	name    string
	layers  []string // directories of templates; a file replaces that of an earlier layer
	command string   // makes the package
}

// appTemplates lists the templates, the default first.
var appTemplates = []appTemplate{
	{"minimal", []string{"minimal"}, "go run . package"},
	{"azd", []string{"minimal", "cosmos", "azd"}, "go run . package"},
	{"container", []string{"minimal", "cosmos", "container"}, "go run . package"},
	{"lambda", []string{"minimal", "lambda"}, "go run . package --lambda --arch arm64"},
}

// Templates lists the names of the templates of apps, the default first.
func Templates() (names []string) {
	for _, t := range appTemplates {
		names = append(names, t.name)
	}
	return names
}

// Create writes the app. An error names the fix; then nothing is written, unless
// writing itself or the go command failed.
func (a App) Create(ctx context.Context) error {
	dir, err := emptyDir(a.Dir)
	if err != nil {
		return err
	}
	halley, err := openSource(ctx, a.Halley)
	if err != nil {
		return err
	}
	v, err := a.values(dir)
	if err != nil {
		return err
	}
	if err := halley.checkPath(ctx, v["Module"]); err != nil {
		return fmt.Errorf("--module: %w", err)
	}
	files, err := a.render(v)
	if err != nil {
		return err
	}
	if err := writeNew(dir, files); err != nil {
		return err
	}
	return halley.writeModule(ctx, v["Module"], dir)
}

// values are those of the app's templates.
func (a App) values(dir string) (values, error) {
	name := appName(dir)
	if name == "" {
		return nil, errors.New(namelessDir(dir))
	}
	path := cmp.Or(a.Module, "example.com/"+name)
	if path == modulePath || strings.HasPrefix(path, modulePath+"/") {
		return nil, fmt.Errorf("--module %s: that path belongs to Halley: choose another", path)
	}
	v := handlerValues(firstHandler)
	v["Name"], v["Module"] = name, path
	return v, nil
}

// render returns the files of the app, except those of its module.
func (a App) render(v values) (map[string][]byte, error) {
	name := cmp.Or(a.Template, appTemplates[0].name)
	i := slices.Index(Templates(), name)
	if i < 0 {
		return nil, fmt.Errorf("no template is called %q: choose from %s", name, strings.Join(Templates(), ", "))
	}
	v["Package"] = appTemplates[i].command
	files := map[string][]byte{}
	for _, layer := range append(appTemplates[i].layers, "handler") {
		rendered, err := render(layer, v)
		if err != nil {
			return nil, err
		}
		maps.Copy(files, rendered)
	}
	includeDeploy(files)
	return files, nil
}

// includeDeploy moves the text of deploy.md into README.md, which is the same in all
// templates but for that.
func includeDeploy(files map[string][]byte) {
	files["README.md"] = bytes.Replace(files["README.md"], []byte("<!-- deploy.md -->\n"), files["deploy.md"], 1)
	delete(files, "deploy.md")
}

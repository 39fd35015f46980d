// Package scaffold writes new apps and new handlers from embedded templates.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// templates has a directory for each layer of the templates of apps, and one for a
// handler. The name of each file ends with .tmpl, and NAME in it is the name of the handler.
// [[Key]] in a file is one of the values.
//
// Package text/template is not used: its calls of methods by name make the linker keep
// every exported method, which adds 5 MB to the binary of each app.
//
//go:embed all:templates
var templates embed.FS

// values replace the keys of templates.
type values map[string]string

// modulePath is the path of Halley's root module, and appDir the directory of the module that
// every app requires.
var modulePath = strings.TrimSuffix(reflect.TypeFor[App]().PkgPath(), appDir+"/internal/scaffold")

const appDir = "/function/app"

// handlerValues are the values of a handler's templates.
func handlerValues(name string) values {
	upper := strings.ToUpper(name)
	return values{
		"Halley":  modulePath,
		"Handler": name,
		"Upper":   upper,
		"Prefix":  "HALLEY_" + upper + "_", // of the handler's settings
		"Summary": "logs each changed document",
	}
}

var templateKey = regexp.MustCompile(`\[\[[A-Za-z]+\]\]`)

// render fills in the templates below a directory of templates. It returns the files by
// their paths below the app, with slashes.
func render(dir string, v values) (map[string][]byte, error) {
	files := map[string][]byte{}
	root, err := fs.Sub(templates, "templates/"+dir)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(strings.TrimSuffix(path, ".tmpl"), "NAME", v["Handler"])
		files[name] = templateKey.ReplaceAllFunc(text, func(key []byte) []byte {
			value, ok := v[strings.Trim(string(key), "[]")]
			if !ok {
				err = fmt.Errorf("template %s: no value for %s", path, key)
			}
			return []byte(value)
		})
		if err == nil && strings.HasSuffix(name, ".go") { // the order of imports depends on their paths
			files[name], err = format.Source(files[name])
		}
		return err
	})
	return files, err
}

// writeNew writes files below root. It overwrites none.
func writeNew(root string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

package scaffold

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Program describes a new app whose function is in another language than Go.
type Program struct {
	Dir      string // where it is written: a new or empty directory
	Language string // one of [Languages]
}

// programLanguages are the values of the templates of each language.
var programLanguages = []struct {
	name   string
	values values
}{
	{"python", values{
		"Command": "python3 -m halley " + firstHandler, "Source": firstHandler + ".py", "TestSource": "test_" + firstHandler + ".py",
		"Install": "python3 -m venv .venv && . .venv/bin/activate\npip install --no-index --find-links vendor halley",
		"Run":     "", "Test": "python3 -m unittest        # the tests", "Package": "wheel", "Interpreter": "Python",
	}},
	{"typescript", values{
		"Command": "node node_modules/halley/run.js " + firstHandler + ".js", "Source": firstHandler + ".js", "TestSource": firstHandler + ".test.js",
		"Install": "npm install ./vendor/halley-*.tgz    # the one for this machine",
		"Run":     "npx ", "Test": "npm test                     # the tests", "Package": "npm package", "Interpreter": "Node.js",
	}},
}

// Languages lists the languages of programs.
func Languages() (names []string) {
	for _, l := range programLanguages {
		names = append(names, l.name)
	}
	return names
}

// Create writes the app. An error names the fix; then nothing is written, unless writing
// itself failed.
func (p Program) Create() error {
	dir, err := emptyDir(p.Dir)
	if err != nil {
		return err
	}
	i := slices.Index(Languages(), p.Language)
	if i < 0 {
		return fmt.Errorf("--lang %s: choose from %s", p.Language, strings.Join(append(Languages(), "go"), ", "))
	}
	v := handlerValues(firstHandler)
	if v["Name"] = appName(dir); v["Name"] == "" {
		return errors.New(namelessDir(dir))
	}
	maps.Copy(v, programLanguages[i].values)
	files := map[string][]byte{}
	for _, layer := range []string{"program", p.Language} {
		rendered, err := render(layer, v)
		if err != nil {
			return err
		}
		maps.Copy(files, rendered)
	}
	return writeNew(dir, files)
}

// Command structure checks the structure and the language of the code.
//
//	go run ./scripts/structure [-only types|names|locals|comments|arrows] [-list] [packages...]
//
// It exits with 1 if a check fails. The checks of types and names read the
// non-test files of the given packages, by default the runtime; the checks of
// locals and comments read non-test Go files of the repository.
//
// types: named types that depend on each other in a circle cannot be
// understood one at a time. Only a pair of types in one file may do so.
//
// names: at most 45 % of the declared names may be a single word, except for
// the nouns of the glossary.
//
// locals: locals, parameters and results are nouns or usual abbreviations. At most 5 of
// 1,000 may be a function word such as of, at or rest.
//
// arrows: an arrow leads from a file of function/app to another one whose names it uses. At
// most 25 may run back up, against the order of the rooms or inside a room against the best
// order of its files.
//
// comments: each word that makes comments hard to read has a limit per 1,000
// words, and conditions have to be written as "if" or "when".
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// errFailed means that a check failed and has already printed its findings.
var errFailed = errors.New("check failed")

// runtimePatterns returns the packages of the runtime, the default. A pattern
// without its directory would be an error of the go command.
func runtimePatterns(root string) []string {
	patterns := []string{"./trigger"}
	if _, err := os.Stat(filepath.Join(root, "trigger", "internal")); err == nil {
		patterns = append(patterns, "./trigger/internal/...")
	}
	return patterns
}

var checkNames = []string{"types", "names", "locals", "comments", "arrows"}

// repositoryChecks are the checks of all files of the repository.
var repositoryChecks = []struct {
	name  string
	check func(p printer, list bool) (passed bool, err error)
}{
	{"locals", checkLocals},
	{"comments", checkComments},
	{"arrows", checkArrows},
}

func main() {
	err := run(".", os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, errFailed):
		os.Exit(1)
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "structure:", err)
		os.Exit(2)
	}
}

// run executes the selected checks in dir, which is inside the module and the
// git repository. It returns errFailed if a check failed, and another error if
// a check could not be made.
func run(dir string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("structure", flag.ContinueOnError)
	flags.SetOutput(out)
	only := flags.String("only", "", "one `check`: types, names, locals, comments or arrows")
	list := flags.Bool("list", false, "print the single-word names, the function words and the figures of each package")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *only != "" && !slices.Contains(checkNames, *only) {
		return fmt.Errorf("no check is called %q: choose from %q", *only, checkNames)
	}
	selected := func(name string) bool { return *only == "" || *only == name }

	root, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = runtimePatterns(root)
	}
	p := printer{out: out, root: root}
	passed := true
	if selected("types") || selected("names") {
		pkgs, err := loadPackages(root, patterns)
		if err != nil {
			return err
		}
		if selected("types") {
			passed = checkTypes(p, pkgs) && passed
		}
		if selected("names") {
			passed = checkIdentifiers(p, pkgs, *list) && passed
		}
	}
	for _, c := range repositoryChecks {
		if !selected(c.name) {
			continue
		}
		ok, err := c.check(p, *list)
		if err != nil {
			return err
		}
		passed = ok && passed
	}
	if !passed {
		return errFailed
	}
	return nil
}

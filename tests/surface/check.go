package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// checkTable compares the table with the names in the code, the tests and the mutants, and
// returns its faults.
func checkTable(names []surfaceName, rows []row, exempt []exemption, tests map[string]bool, mutants []string) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	inCode, proved := map[string]bool{}, map[string]bool{}
	for _, n := range names {
		inCode[n.name] = true
	}
	for _, r := range rows {
		pkg, test := r.proof()
		top, _, _ := strings.Cut(test, "/")
		if proved[r.name] {
			add("%s has two rows", r.name)
		}
		proved[r.name] = true
		if !inCode[r.name] {
			add("%s has a row and is not in the code: remove the row", r.name)
		}
		if !tests[pkg+" "+top] {
			add("%s is proved by %s, which is not a test of %s", r.name, test, pkg)
		}
		if !slices.Contains(mutants, r.mutant) {
			add("%s has the mutant %s, which is not in tests/mutants", r.name, r.mutant)
		}
	}
	for _, e := range exempt {
		if proved[e.name] || !inCode[e.name] || e.reason == "" {
			add("%s is on the list of names without a proof, and has one, is not in the code or has no reason", e.name)
		}
		proved[e.name] = true
	}
	if len(exempt) > mostExemptions {
		add("%d names are without a proof, %d may be", len(exempt), mostExemptions)
	}
	for _, n := range names {
		if !proved[n.name] {
			add("%s %s has no proof: add a row with a test and a mutant to tests/surface", n.kind, n.name)
		}
	}
	return faults
}

// testsOf returns the tests and examples of the packages that the rows name, as
// "./package Test".
func testsOf(root string, rows []row) (map[string]bool, error) {
	tests, parsed := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		pkg, _ := r.proof()
		if parsed[pkg] {
			continue
		}
		parsed[pkg] = true
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, declaration := range source.Decls {
				if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && isTestName(f.Name.Name) {
					tests[pkg+" "+f.Name.Name] = true
				}
			}
		}
	}
	return tests, nil
}

func isTestName(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") || strings.HasPrefix(name, "Fuzz")
}

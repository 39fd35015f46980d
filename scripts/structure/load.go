package main

import (
	"errors"
	"fmt"
	"go/token"
	"io"
	"path/filepath"

	"golang.org/x/tools/go/packages"
)

// loadPackages parses and type-checks the non-test files of the packages that
// match the patterns. All of them share one set of type objects.
func loadPackages(dir string, patterns []string) ([]*packages.Package, error) {
	pkgs, err := packages.Load(&packages.Config{
		Dir: dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load packages %q: %w", patterns, err)
	}
	if len(pkgs) == 0 {
		return nil, fmt.Errorf("load packages %q: none matches", patterns)
	}
	var broken []error
	for _, pkg := range pkgs {
		for _, e := range pkg.Errors {
			broken = append(broken, e)
		}
	}
	return pkgs, errors.Join(broken...)
}

// printer writes findings with paths relative to root.
type printer struct {
	out  io.Writer
	root string
}

func (p printer) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

func (p printer) relative(file string) string {
	if rel, err := filepath.Rel(p.root, file); err == nil {
		return rel
	}
	return file
}

func (p printer) position(at token.Position) string {
	return fmt.Sprintf("%s:%d", p.relative(at.Filename), at.Line)
}

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// functionWordLimit is the largest number of function words among 1,000 locals.
const functionWordLimit = 5.0

// localRoots are the directories whose locals are checked.
var localRoots = []string{"trigger", "handlers", "function"}

// functionWords are prepositions, adverbs, pronouns and their like, except those that are
// usual in Go as names of values, such as first, from, all, in and next.
var functionWords = strings.Fields(`about again ahead already also always anew apart as aside at
	away back before behind beside both by down either else ever far here how into just left
	less little many may more most much near of once only over own rather rest so soon still
	such tell than that the then there these this thus together too toward under until upon
	very well what when where whether which while who whole whom whose why with without yet`)

// localCount counts locals, parameters and results.
type localCount struct {
	all   int
	words []string // function words among them, as they are listed
}

func (c *localCount) rate() float64 { return float64(len(c.words)) * 1000 / float64(max(c.all, 1)) }

// addFile counts the locals of one Go file.
func (c *localCount) addFile(name string, source []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	add := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			id, ok := e.(*ast.Ident)
			if !ok || id.Name == "_" {
				continue
			}
			c.all++
			if slices.Contains(functionWords, strings.ToLower(id.Name)) {
				c.words = append(c.words, fmt.Sprintf("%s:%d: %s", name, fset.Position(id.Pos()).Line, id.Name))
			}
		}
	}
	addNames := func(names []*ast.Ident) {
		for _, id := range names {
			add(id)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			fields := n.Params.List
			if n.Results != nil {
				fields = slices.Concat(fields, n.Results.List)
			}
			for _, field := range fields {
				addNames(field.Names)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		case *ast.DeclStmt:
			for _, spec := range n.Decl.(*ast.GenDecl).Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					addNames(v.Names)
				}
			}
		}
		return true
	})
	return nil
}

// checkLocals compares the share of function words among the locals of localRoots with
// the limit.
func checkLocals(p printer, list bool) (passed bool, err error) {
	names, err := repositoryFiles(p.root)
	if err != nil {
		return false, err
	}
	c := &localCount{}
	for _, name := range names {
		if root, _, _ := strings.Cut(name, "/"); !slices.Contains(localRoots, root) {
			continue
		}
		source, err := os.ReadFile(filepath.Join(p.root, name))
		if err != nil {
			return false, err
		}
		if err := c.addFile(name, source); err != nil {
			return false, err
		}
	}
	passed = c.rate() <= functionWordLimit
	if list || !passed {
		for _, word := range c.words {
			p.printf("%s\n", word)
		}
	}
	p.printf("locals: %d of %d locals and parameters are function words: %.1f per 1,000, at most %.0f\n",
		len(c.words), c.all, c.rate(), functionWordLimit)
	return passed, nil
}

package scaffold

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// handlerList is the place in a main package that lists the handlers of the app: the
// arguments of app.Main, or the field Handlers of app.Options.
type handlerList struct {
	file   string
	source []byte
	fset   *token.FileSet
	syntax *ast.File

	open, end token.Pos // its parentheses or braces
	elements  []ast.Expr

	imports  map[string]*ast.ImportSpec // of the file, by path
	declared map[string]bool            // names that the file cannot give to another import
}

// findList finds the list in the package in dir.
func findList(dir string) (*handlerList, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var found *handlerList
	declared := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		list, err := parseList(file)
		if err != nil {
			return nil, err
		}
		for _, d := range list.syntax.Decls {
			for _, name := range declaredNames(d) {
				declared[name] = true
			}
		}
		if found == nil && list.open.IsValid() {
			found = list
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no Go file of %s calls app.Main(…) or has app.Options{Handlers: []handlers.Entry{…}}: "+
			"run the command in the directory of the app's main package, or add the handler by hand", dir)
	}
	for _, spec := range found.imports {
		declared[importName(spec)] = true
	}
	found.declared = declared
	return found, nil
}

// parseList parses one file. If the file has no list, the list is not open.
func parseList(file string) (*handlerList, error) {
	l := &handlerList{file: file, fset: token.NewFileSet(), imports: map[string]*ast.ImportSpec{}}
	var err error
	if l.source, err = os.ReadFile(file); err != nil {
		return nil, err
	}
	if l.syntax, err = parser.ParseFile(l.fset, file, l.source, parser.ParseComments); err != nil {
		return nil, err
	}
	for _, spec := range l.syntax.Imports {
		l.imports[importPath(spec)] = spec
	}
	imported, ok := l.imports[modulePath+"/function/app"]
	if !ok {
		return l, nil
	}
	app := importName(imported)
	ast.Inspect(l.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isSelector(n.Fun, app, "Main") && !n.Ellipsis.IsValid() {
				l.open, l.end, l.elements = n.Lparen, n.Rparen, n.Args
			}
		case *ast.CompositeLit:
			if field := fieldValue(n, "Handlers"); field != nil && isSelector(n.Type, app, "Options") {
				l.open, l.end, l.elements = field.Lbrace, field.Rbrace, field.Elts
			}
		}
		return !l.open.IsValid()
	})
	return l, nil
}

// isSelector reports whether an expression is pkg.name.
func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// fieldValue returns the composite literal that a field of another one has, or nil.
func fieldValue(of *ast.CompositeLit, field string) *ast.CompositeLit {
	for _, e := range of.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == field {
				value, _ := kv.Value.(*ast.CompositeLit)
				return value
			}
		}
	}
	return nil
}

func declaredNames(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

func importPath(spec *ast.ImportSpec) string {
	path, _ := strconv.Unquote(spec.Path.Value) // the parser has accepted it
	return path
}

// importName returns the name of an imported package in its file; packages of this
// project are called as the last elements of their paths.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(importPath(spec))
}

// add returns the source of the file with a line for a handler and the imports that it
// needs. The rest of the file, comments included, stays as it is.
func (l *handlerList) add(name, summary, packagePath string) ([]byte, error) {
	if l.declared[name] {
		return nil, fmt.Errorf("%s uses the name %s already: choose another name for the handler", l.file, name)
	}
	for _, e := range l.elements {
		if call, ok := e.(*ast.CallExpr); ok && len(call.Args) > 0 {
			if first, ok := call.Args[0].(*ast.BasicLit); ok && first.Value == strconv.Quote(name) {
				return nil, fmt.Errorf("%s lists a handler %s already: choose another name", l.file, name)
			}
		}
	}
	handlers := "handlers"
	edits := []edit{l.importEdit(packagePath)}
	if spec, ok := l.imports[modulePath+"/handlers"]; ok {
		handlers = importName(spec)
	} else {
		edits = append(edits, l.importEdit(modulePath+"/handlers"))
	}
	edits = append(edits, l.elementEdits(fmt.Sprintf("%s.New(%q, %q, %s.Open)", handlers, name, summary, name))...)
	formatted, err := format.Source(apply(l.source, edits))
	if err != nil {
		return nil, fmt.Errorf("add a line to %s: %w", l.file, err)
	}
	return formatted, nil
}

// edit inserts text into the source of a file.
type edit struct {
	at   int // offset in the source before all edits
	text string
}

// apply makes edits, of which those at one place keep their order.
func apply(source []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.at - b.at })
	var out []byte
	done := 0
	for _, e := range edits {
		out = append(append(out, source[done:e.at]...), e.text...)
		done = e.at
	}
	return append(out, source[done:]...)
}

// elementEdits adds an element at the end of the list, on a line of its own.
func (l *handlerList) elementEdits(element string) []edit {
	end := l.offset(l.end)
	if len(l.elements) == 0 {
		return []edit{{end, "\n" + element + ",\n"}}
	}
	first, last := l.elements[0].Pos(), l.elements[len(l.elements)-1].End()
	if l.line(last) != l.line(l.end) { // there is a comma after the last element
		return []edit{{bytes.LastIndexByte(l.source[:end], '\n') + 1, element + ",\n"}}
	}
	edits := []edit{{l.offset(last), ",\n" + element + ",\n"}}
	if l.line(first) == l.line(l.open) {
		edits = append(edits, edit{l.offset(l.open) + 1, "\n"})
	}
	return edits
}

// importEdit adds an import after the one whose path is most like its own, or at the
// end of the declaration that imports package app.
func (l *handlerList) importEdit(path string) edit {
	text := strconv.Quote(path)
	declaration := l.importDeclaration()
	if !declaration.Rparen.IsValid() {
		return edit{l.offset(declaration.End()), "\nimport " + text}
	}
	e, best := edit{l.offset(declaration.Rparen), "\n\n" + text + "\n"}, 1
	for _, spec := range declaration.Specs {
		if n := commonElements(importPath(spec.(*ast.ImportSpec)), path); n >= best {
			at := l.offset(spec.End())
			e, best = edit{at + bytes.IndexByte(l.source[at:], '\n'), "\n" + text}, n
		}
	}
	return e
}

// importDeclaration returns the declaration that imports package app.
func (l *handlerList) importDeclaration() *ast.GenDecl {
	app := l.imports[modulePath+"/function/app"]
	i := slices.IndexFunc(l.syntax.Decls, func(d ast.Decl) bool { return d.Pos() <= app.Pos() && app.Pos() < d.End() })
	return l.syntax.Decls[i].(*ast.GenDecl)
}

// commonElements counts the elements that two paths begin with.
func commonElements(a, b string) (n int) {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

func (l *handlerList) offset(p token.Pos) int { return l.fset.Position(p).Offset }

func (l *handlerList) line(p token.Pos) int { return l.fset.Position(p).Line }

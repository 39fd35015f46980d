package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// typeGraph holds the named package-level types of all loaded packages. An
// edge from A to B means that A's definition or one of A's methods names B, a
// field or method of B, or a constant or package-level variable of type B.
// Package-level functions belong to no type and give no edges.
type typeGraph struct {
	declared map[*types.TypeName]token.Position
	edges    map[*types.TypeName]map[*types.TypeName]token.Position // with one example each
	fields   map[*types.Var]*types.TypeName                         // struct that declares the field
}

func newTypeGraph(pkgs []*packages.Package) *typeGraph {
	g := &typeGraph{
		declared: map[*types.TypeName]token.Position{},
		edges:    map[*types.TypeName]map[*types.TypeName]token.Position{},
		fields:   map[*types.Var]*types.TypeName{},
	}
	forDecls(pkgs, g.declare)
	forDecls(pkgs, g.connect)
	return g
}

// forDecls calls visit with each top-level declaration. If declarations are
// grouped in parentheses, it visits the specs one by one.
func forDecls(pkgs []*packages.Package, visit func(*packages.Package, ast.Node)) {
	for _, pkg := range pkgs {
		for _, file := range pkg.Syntax {
			for _, decl := range file.Decls {
				group, ok := decl.(*ast.GenDecl)
				if !ok {
					visit(pkg, decl)
					continue
				}
				for _, spec := range group.Specs {
					visit(pkg, spec)
				}
			}
		}
	}
}

// declare adds a type and its fields, also those of structs inside it.
func (g *typeGraph) declare(pkg *packages.Package, decl ast.Node) {
	spec, ok := decl.(*ast.TypeSpec)
	if !ok {
		return
	}
	name, ok := pkg.TypesInfo.Defs[spec.Name].(*types.TypeName)
	if !ok || canonicalName(name) != name {
		return
	}
	g.declared[name] = pkg.Fset.Position(name.Pos())
	g.edges[name] = map[*types.TypeName]token.Position{}
	ast.Inspect(spec.Type, func(n ast.Node) bool {
		if literal, ok := n.(*ast.StructType); ok {
			if s, ok := pkg.TypesInfo.TypeOf(literal).(*types.Struct); ok {
				for field := range s.Fields() {
					g.fields[field] = name
				}
			}
		}
		return true
	})
}

// connect adds the edges of a type definition or of a method.
func (g *typeGraph) connect(pkg *packages.Package, decl ast.Node) {
	var from *types.TypeName
	switch decl := decl.(type) {
	case *ast.TypeSpec:
		from, _ = pkg.TypesInfo.Defs[decl.Name].(*types.TypeName)
	case *ast.FuncDecl:
		if method, ok := pkg.TypesInfo.Defs[decl.Name].(*types.Func); ok {
			from = receiverName(method)
		}
	}
	if g.edges[from] == nil {
		return
	}
	add := func(to *types.TypeName, at token.Pos) {
		if _, known := g.edges[from][to]; !known && to != from && g.edges[to] != nil {
			g.edges[from][to] = pkg.Fset.Position(at)
		}
	}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			add(g.typeOf(pkg.TypesInfo.Uses[n]), n.Pos())
		case *ast.SelectorExpr:
			if s := pkg.TypesInfo.Selections[n]; s != nil {
				for _, field := range promotedThrough(s) {
					add(g.fields[field.Origin()], n.Sel.Pos())
				}
			}
		}
		return true
	})
}

// typeOf returns the type that obj is, belongs to or has, nil if there is none.
func (g *typeGraph) typeOf(obj types.Object) *types.TypeName {
	switch obj := obj.(type) {
	case *types.TypeName:
		return canonicalName(obj)
	case *types.Func:
		return receiverName(obj)
	case *types.Var:
		if obj.IsField() {
			return g.fields[obj.Origin()]
		}
		if obj.Pkg() != nil && obj.Parent() == obj.Pkg().Scope() {
			return namedType(obj.Type())
		}
	case *types.Const:
		return namedType(obj.Type())
	}
	return nil
}

// promotedThrough returns the embedded fields that a selection passes.
func promotedThrough(s *types.Selection) (through []*types.Var) {
	t := s.Recv()
	for _, i := range s.Index()[:len(s.Index())-1] {
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		str, ok := t.Underlying().(*types.Struct)
		if !ok {
			return through
		}
		through = append(through, str.Field(i))
		t = str.Field(i).Type()
	}
	return through
}

// canonicalName returns the named type that an alias stands for. If name is not
// an alias of a named type, it returns name.
func canonicalName(name *types.TypeName) *types.TypeName {
	if named := namedType(name.Type()); named != nil {
		return named
	}
	return name
}

// namedType returns the name of t or of the type that t points to, nil if it
// has none.
func namedType(t types.Type) *types.TypeName {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if named, ok := t.(*types.Named); ok {
		return named.Origin().Obj()
	}
	return nil
}

// receiverName returns the type that has the method, nil if f is a function.
func receiverName(f *types.Func) *types.TypeName {
	if recv := f.Signature().Recv(); recv != nil {
		return namedType(recv.Type())
	}
	return nil
}

// circles returns the circles of types, sorted by the position of their first type.
func (g *typeGraph) circles() (found [][]*types.TypeName) {
	names := g.sorted(slices.Collect(maps.Keys(g.edges)))
	for _, circle := range circles(names, func(name *types.TypeName) []*types.TypeName { return slices.Collect(maps.Keys(g.edges[name])) }) {
		found = append(found, g.sorted(circle))
	}
	slices.SortFunc(found, func(a, b []*types.TypeName) int { return g.compare(a[0], b[0]) })
	return found
}

// circles returns the strongly connected components with more than one node (Tarjan's
// algorithm).
func circles[N comparable](nodes []N, edges func(N) []N) (found [][]N) {
	type visit struct{ index, low int }
	visits := map[N]*visit{}
	onStack := map[N]bool{}
	var stack []N
	var explore func(N) *visit
	explore = func(from N) *visit {
		v := &visit{len(visits), len(visits)}
		visits[from] = v
		stack, onStack[from] = append(stack, from), true
		for _, to := range edges(from) {
			if visits[to] == nil {
				v.low = min(v.low, explore(to).low)
			} else if onStack[to] {
				v.low = min(v.low, visits[to].index)
			}
		}
		if v.low == v.index {
			at := slices.Index(stack, from)
			component := slices.Clone(stack[at:])
			stack = stack[:at]
			for _, node := range component {
				delete(onStack, node)
			}
			if len(component) > 1 {
				found = append(found, component)
			}
		}
		return v
	}
	for _, node := range nodes {
		if visits[node] == nil {
			explore(node)
		}
	}
	return found
}

func (g *typeGraph) sorted(names []*types.TypeName) []*types.TypeName {
	slices.SortFunc(names, g.compare)
	return names
}

func (g *typeGraph) compare(a, b *types.TypeName) int {
	if c := strings.Compare(g.declared[a].Filename, g.declared[b].Filename); c != 0 {
		return c
	}
	return g.declared[a].Offset - g.declared[b].Offset
}

// isPair reports whether a circle is exactly two types of one file.
func (g *typeGraph) isPair(circle []*types.TypeName) bool {
	return len(circle) == 2 && g.declared[circle[0]].Filename == g.declared[circle[1]].Filename
}

// checkTypes prints each circle of types with one example for each edge in it.
func checkTypes(p printer, pkgs []*packages.Package) (passed bool) {
	g := newTypeGraph(pkgs)
	passed = true
	for _, circle := range g.circles() {
		if g.isPair(circle) {
			continue
		}
		passed = false
		p.printf("types: circle of %d types\n", len(circle))
		for _, from := range circle {
			p.printf("  %s.%s in %s\n", from.Pkg().Name(), from.Name(), p.relative(g.declared[from].Filename))
			for _, to := range circle {
				if at, ok := g.edges[from][to]; ok {
					p.printf("    uses %s at %s\n", to.Name(), p.position(at))
				}
			}
		}
	}
	if passed {
		p.printf("types: no circle among %d types except pairs in one file\n", len(g.edges))
	}
	return passed
}

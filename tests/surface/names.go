package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// surfacePackages are the packages whose exported names need a proof. A name of another
// package than trigger begins with the name of its package.
var surfacePackages = []string{"./trigger", "./trigger/leases", "./trigger/stall"}

// nameKind is the kind of a name of the surface.
type nameKind string

// The kinds of name.
const (
	kindFunction nameKind = "function"
	kindMethod   nameKind = "method"
	kindPort     nameKind = "interface method" // implemented by the caller
	kindField    nameKind = "field"
	kindConstant nameKind = "constant"
	kindVariable nameKind = "variable"
	kindVerdict  nameKind = "verdict"
	kindTopic    nameKind = "topic" // a section of the package documentation
)

// surfaceName is a name that needs a proof.
type surfaceName struct {
	name string
	kind nameKind
	body bodyRange // of a function or a method
}

// bodyRange is the place of a function's body in a coverage profile.
type bodyRange struct {
	file       string // as the profile names it
	start, end token.Position
}

// verdictPrefix begins the names of verdicts.
const verdictPrefix = "verdict "

// basicVerdicts are those that need no name of package trigger: the call returns nil or an
// error, panics or hangs, or its error wraps or joins the errors of the verbs.
var basicVerdicts = []string{"nil", "error", "panic", "hang", "wrapped", "joined"}

// topicPrefix begins the names of topics.
const topicPrefix = "topic "

// loadSurface reads the names from the code below root. They are:
//   - each exported function and variable, and each exported constant;
//   - each exported method of an exported type, also of an interface;
//   - each exported field of an option type;
//   - each verdict of a handler: basicVerdicts, and the functions that turn an error into
//     another one (a first parameter of type error, and error as the result);
//   - each section of the package documentation, for promises without a name in the code.
//
// An option type is a struct that a caller fills: an exported function or method takes
// it, or a field of another option type has it, and no function or method of another
// type returns it. A type that another one embeds is a part of that.
func loadSurface(root string) ([]surfaceName, error) {
	pkgs, err := packages.Load(&packages.Config{
		Dir:  root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
	}, surfacePackages...)
	if err != nil {
		return nil, fmt.Errorf("load %q: %w", surfacePackages, err)
	}
	var names []surfaceName
	var broken []error
	for _, pkg := range pkgs {
		for _, e := range pkg.Errors {
			broken = append(broken, e)
		}
		names = append(names, packageNames(pkg)...)
	}
	for _, verdict := range basicVerdicts {
		names = append(names, surfaceName{name: verdictPrefix + verdict, kind: kindVerdict})
	}
	slices.SortFunc(names, func(a, b surfaceName) int { return strings.Compare(a.name, b.name) })
	return names, errors.Join(broken...)
}

// packageNames returns the names of one package.
func packageNames(pkg *packages.Package) (names []surfaceName) {
	c := collector{pkg: pkg, bodies: functionBodies(pkg)}
	if pkg.Name != "trigger" {
		c.prefix = pkg.Name + "."
	}
	scope := pkg.Types.Scope()
	for _, name := range scope.Names() {
		if object := scope.Lookup(name); object.Exported() {
			c.collect(object)
		}
	}
	for _, option := range optionTypes(pkg.Types) {
		c.addFields(option.Obj().Name(), option)
	}
	for _, file := range pkg.Syntax {
		for line := range strings.Lines(file.Doc.Text()) {
			if title, found := strings.CutPrefix(line, "# "); found {
				c.names = append(c.names, surfaceName{name: topicPrefix + c.prefix + strings.TrimSpace(title), kind: kindTopic})
			}
		}
	}
	return c.names
}

// collector collects the names of one package.
type collector struct {
	pkg    *packages.Package
	prefix string
	bodies map[types.Object]bodyRange
	names  []surfaceName
}

func (c *collector) add(name string, kind nameKind, body bodyRange) {
	c.names = append(c.names, surfaceName{c.prefix + name, kind, body})
}

// addFields adds the exported fields of an option type. Those of an embedded type are its
// own.
func (c *collector) addFields(option string, fields *types.Named) {
	for field := range fields.Underlying().(*types.Struct).Fields() {
		switch {
		case field.Embedded():
			c.addFields(option, structOf(field.Type(), c.pkg.Types))
		case field.Exported():
			c.add(option+"."+field.Name(), kindField, bodyRange{})
		}
	}
}

// collect adds an exported object, with its methods if it is a type.
func (c *collector) collect(object types.Object) {
	switch object := object.(type) {
	case *types.Const:
		c.add(object.Name(), kindConstant, bodyRange{})
	case *types.Var:
		c.add(object.Name(), kindVariable, bodyRange{})
	case *types.Func:
		c.add(object.Name(), kindFunction, c.bodies[object])
		if isVerb(object.Signature()) {
			c.names = append(c.names, surfaceName{name: verdictPrefix + c.prefix + object.Name(), kind: kindVerdict})
		}
	case *types.TypeName:
		named, ok := object.Type().(*types.Named)
		if !ok || object.IsAlias() {
			return
		}
		for method := range named.Methods() {
			if method.Exported() {
				c.add(object.Name()+"."+method.Name(), kindMethod, c.bodies[method])
			}
		}
		if port, ok := named.Underlying().(*types.Interface); ok {
			for method := range port.Methods() {
				if method.Exported() {
					c.add(object.Name()+"."+method.Name(), kindPort, bodyRange{})
				}
			}
		}
	}
}

// functionBodies returns the bodies of the functions of a package.
func functionBodies(pkg *packages.Package) map[types.Object]bodyRange {
	bodies := map[types.Object]bodyRange{}
	for _, file := range pkg.Syntax {
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Body != nil {
				start, end := pkg.Fset.Position(f.Body.Pos()), pkg.Fset.Position(f.Body.End())
				bodies[pkg.TypesInfo.Defs[f.Name]] = bodyRange{path.Join(pkg.PkgPath, path.Base(start.Filename)), start, end}
			}
		}
	}
	return bodies
}

// isVerb reports whether a function turns the error of a handler into another one.
func isVerb(s *types.Signature) bool {
	return s.Params().Len() > 0 && isError(s.Params().At(0).Type()) && s.Results().Len() == 1 && isError(s.Results().At(0).Type())
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// optionTypes returns the option types of a package, in the order of their names.
func optionTypes(pkg *types.Package) []*types.Named {
	taken, returned := map[*types.Named]bool{}, map[*types.Named]bool{}
	note := func(seen map[*types.Named]bool, tuple *types.Tuple, receiver *types.Named) {
		for v := range tuple.Variables() {
			if named := structOf(v.Type(), pkg); named != nil && named != receiver {
				seen[named] = true
			}
		}
	}
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		if !token.IsExported(name) {
			continue
		}
		switch object := scope.Lookup(name).(type) {
		case *types.Func:
			note(taken, object.Signature().Params(), nil)
			note(returned, object.Signature().Results(), nil)
		case *types.TypeName:
			if named, ok := object.Type().(*types.Named); ok {
				for method := range named.Methods() {
					if method.Exported() {
						note(taken, method.Signature().Params(), named)
						note(returned, method.Signature().Results(), named)
					}
				}
			}
		}
	}
	var options []*types.Named
	embedded := map[*types.Named]bool{}
	open := []*types.Named{}
	for named := range taken {
		open = append(open, named)
	}
	for len(open) > 0 {
		named := open[0]
		open = open[1:]
		if returned[named] || slices.Contains(options, named) {
			continue
		}
		options = append(options, named)
		fields := named.Underlying().(*types.Struct)
		for i := range fields.NumFields() {
			if inner := structOf(fields.Field(i).Type(), pkg); fields.Field(i).Exported() && inner != nil {
				open = append(open, inner)
				embedded[inner] = embedded[inner] || fields.Field(i).Embedded()
			}
		}
	}
	options = slices.DeleteFunc(options, func(option *types.Named) bool { return embedded[option] })
	slices.SortFunc(options, func(a, b *types.Named) int { return strings.Compare(a.Obj().Name(), b.Obj().Name()) })
	return options
}

// structOf returns the struct type of a package that a type is, points to or is a list
// of, nil if there is none.
func structOf(t types.Type, pkg *types.Package) *types.Named {
	switch t := types.Unalias(t).(type) {
	case *types.Pointer:
		return structOf(t.Elem(), pkg)
	case *types.Slice:
		return structOf(t.Elem(), pkg)
	case *types.Named:
		if _, ok := t.Underlying().(*types.Struct); ok && t.Obj().Pkg() == pkg {
			return t
		}
	}
	return nil
}

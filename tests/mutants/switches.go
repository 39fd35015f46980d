package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// switchVariable is the environment variable that switches a mutant on.
const switchVariable = "HALLEY_PLANTED_MUTANT"

// switchboard builds many mutants into one program. Each function that a mutant changes
// gets a copy with the change, and its name calls the copy of the mutant that is switched
// on, or else the function as it was. So the tests of hundreds of mutants are built once.
type switchboard struct {
	names []string // of the mutants that have a switch
}

// plant returns the files with the mutants behind switches. A mutant that changes more
// than functions gets no switch.
func (s *switchboard) plant(root string, mutants []mutant) (files, error) {
	planted := map[string]*switchedFile{}
	for _, m := range mutants {
		before, after, err := m.change(root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		changed := map[string]map[string]function{} // by file and key
		isSwitchable := true
		for name := range after {
			if planted[name] == nil {
				if planted[name], err = newSwitchedFile(before[name]); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			functions, ok := planted[name].changedFunctions(after[name])
			changed[name] = functions
			isSwitchable = isSwitchable && ok
		}
		if !isSwitchable {
			continue
		}
		s.names = append(s.names, m.name)
		for name, functions := range changed {
			for key, f := range functions {
				planted[name].copies[key] = append(planted[name].copies[key], switchedCopy{m.name, f})
			}
		}
	}
	written := files{}
	for name, f := range planted {
		if len(f.copies) > 0 {
			written[name] = f.text()
			written[filepath.Join(filepath.Dir(name), "switches_of_mutants.go")] = fmt.Sprintf(
				"package %s\n\nimport \"os\"\n\nvar switchedMutant = os.Getenv(%q)\n", f.parsed.packageName, switchVariable)
		}
	}
	return written, nil
}

// function is a function or method in a file.
type function struct {
	declaration *ast.FuncDecl
	source      string // of the whole file
}

func (f function) slice(from, to token.Pos) string { return f.source[from-1 : to-1] }

// renamed returns the text of the function under another name.
func (f function) renamed(name string) string {
	d := f.declaration
	return f.slice(d.Type.Func, d.Name.Pos()) + name + f.slice(d.Name.End(), d.End())
}

// switchedCopy is a function as a mutant changes it.
type switchedCopy struct {
	mutant string
	function
}

// switchedFile is a file with copies of functions.
type switchedFile struct {
	parsed parsedFile
	copies map[string][]switchedCopy // by the function's key
}

func newSwitchedFile(source string) (*switchedFile, error) {
	parsed, err := parseFunctions(source)
	return &switchedFile{parsed: parsed, copies: map[string][]switchedCopy{}}, err
}

// parsedFile is a file with its functions.
type parsedFile struct {
	packageName string
	source      string
	functions   map[string]function // by key
	remainder   string              // the text between them
}

// parseFunctions parses a file. The positions of a file that is parsed alone are offsets
// from 1.
func parseFunctions(source string) (parsedFile, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", source, parser.SkipObjectResolution)
	if err != nil {
		return parsedFile{}, err
	}
	p := parsedFile{packageName: file.Name.Name, source: source, functions: map[string]function{}}
	end := token.Pos(1)
	for _, declaration := range file.Decls {
		d, ok := declaration.(*ast.FuncDecl)
		if !ok || d.Body == nil {
			continue
		}
		f := function{d, source}
		key := d.Name.Name
		if d.Recv != nil {
			key = f.slice(d.Recv.List[0].Type.Pos(), d.Recv.List[0].Type.End()) + "." + key
		}
		p.functions[key] = f
		p.remainder += source[end-1 : d.Type.Func-1]
		end = d.End()
	}
	p.remainder += source[end-1:]
	return p, nil
}

// changedFunctions returns the functions that differ in another version of the file. ok is
// false if something else differs, too.
func (f *switchedFile) changedFunctions(source string) (changed map[string]function, ok bool) {
	other, err := parseFunctions(source)
	if err != nil || other.remainder != f.parsed.remainder {
		return nil, false
	}
	changed = map[string]function{}
	for key, next := range other.functions {
		old, found := f.parsed.functions[key]
		if !found || isGenericMethod(old.declaration) {
			return nil, false
		}
		if old.renamed("f") != next.renamed("f") {
			changed[key] = next
		}
	}
	return changed, true
}

// isGenericMethod reports whether the type of a method has type parameters.
func isGenericMethod(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return false
	}
	receiver := d.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	_, isNamed := receiver.(*ast.Ident)
	return !isNamed
}

// text returns the file with its copies.
func (f *switchedFile) text() string {
	text := f.parsed.source
	keys := slices.SortedFunc(maps.Keys(f.copies), func(a, b string) int { // the last function first, so that offsets stay
		return int(f.parsed.functions[b].declaration.Pos() - f.parsed.functions[a].declaration.Pos())
	})
	for _, key := range keys {
		sound := f.parsed.functions[key]
		d := sound.declaration
		text = text[:d.Type.Func-1] + f.switched(key) + text[d.End()-1:]
	}
	return text
}

// switched returns a function with its copies and the switch between them.
func (f *switchedFile) switched(key string) string {
	sound := f.parsed.functions[key]
	d := sound.declaration
	name := d.Name.Name
	copies := sound.renamed(name+"Sound") + "\n"
	head, call := signatureOf(sound)
	body := "\tswitch switchedMutant {\n"
	for i, c := range f.copies[key] {
		copyName := fmt.Sprintf("%sMutant%d", name, i)
		copies += "\n" + c.renamed(copyName) + "\n"
		body += fmt.Sprintf("\tcase %q:\n\t\t%s\n", c.mutant, call(copyName))
	}
	body += fmt.Sprintf("\tdefault:\n\t\t%s\n\t}\n", call(name+"Sound"))
	return copies + "\n" + head + " {\n" + body + "}\n"
}

// signatureOf returns the head of a function with names for all parameters and none for
// results, and the statement that calls a function of that signature.
func signatureOf(f function) (head string, call func(name string) string) {
	d := f.declaration
	var parameters, arguments, results []string
	for _, field := range d.Type.Params.List {
		for range max(len(field.Names), 1) {
			name := fmt.Sprintf("parameter%d", len(parameters))
			parameters = append(parameters, name+" "+f.slice(field.Type.Pos(), field.Type.End()))
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				name += "..."
			}
			arguments = append(arguments, name)
		}
	}
	if d.Type.Results != nil {
		for _, field := range d.Type.Results.List {
			for range max(len(field.Names), 1) {
				results = append(results, f.slice(field.Type.Pos(), field.Type.End()))
			}
		}
	}
	receiver, types, instance, end := "", "", "", "return "
	if d.Recv != nil {
		field := d.Recv.List[0]
		head = "func (receiver " + f.slice(field.Type.Pos(), field.Type.End()) + ") "
		receiver = "receiver."
	} else {
		head = "func "
	}
	if d.Type.TypeParams != nil {
		types = f.slice(d.Type.TypeParams.Pos(), d.Type.TypeParams.End())
		var names []string
		for _, field := range d.Type.TypeParams.List {
			for _, name := range field.Names {
				names = append(names, name.Name)
			}
		}
		instance = "[" + strings.Join(names, ", ") + "]"
	}
	if len(results) == 0 {
		end = ""
	}
	head += d.Name.Name + types + "(" + strings.Join(parameters, ", ") + ")"
	if len(results) > 0 {
		head += " (" + strings.Join(results, ", ") + ")"
	}
	return head, func(name string) string {
		return end + receiver + name + instance + "(" + strings.Join(arguments, ", ") + ")"
	}
}

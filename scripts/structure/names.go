package main

import (
	"go/ast"
	"go/token"
	"strings"
	"unicode"

	"golang.org/x/tools/go/packages"
)

// singleWordLimit is the largest share of single-word names.
const singleWordLimit = 0.45

// glossary holds the nouns that may stand alone as a name.
var glossary = strings.Fields(`host owner lease range continuation checkpoint batch change epoch
	lane drain verdict tombstone breaker handover`)

// nameCount counts the declared names: package-level ones, methods and struct
// fields. Embedded fields declare no name of their own.
type nameCount struct {
	all    int
	single []*ast.Ident // without the glossary
}

func (c *nameCount) add(names ...*ast.Ident) {
	for _, name := range names {
		if name.Name == "_" {
			continue
		}
		c.all++
		if wordCount(name.Name) == 1 && !inGlossary(name.Name) {
			c.single = append(c.single, name)
		}
	}
}

func (c *nameCount) share() float64 { return float64(len(c.single)) / float64(max(c.all, 1)) }

func countNames(pkgs []*packages.Package) *nameCount {
	c := &nameCount{}
	forDecls(pkgs, func(_ *packages.Package, decl ast.Node) {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil || decl.Name.Name != "init" {
				c.add(decl.Name)
			}
		case *ast.TypeSpec:
			c.add(decl.Name)
		case *ast.ValueSpec:
			c.add(decl.Names...)
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			var members *ast.FieldList
			switch n := n.(type) {
			case *ast.StructType:
				members = n.Fields
			case *ast.InterfaceType:
				members = n.Methods
			default:
				return true
			}
			for _, member := range members.List {
				c.add(member.Names...)
			}
			return true
		})
	})
	return c
}

// wordCount counts the words of a name in camel case. An acronym is one word,
// also in the plural (IDs) and as a capital letter that begins a word (ETag).
func wordCount(name string) int {
	runes := []rune(name)
	words := 0
	capitals := 0 // in a row, directly before i
	for i, r := range runes {
		switch {
		case r == '_':
		case i == 0 || runes[i-1] == '_':
			words++
		case unicode.IsUpper(r) && capitals == 0:
			words++
		case unicode.IsUpper(r) && capitals > 1 && beginsWord(runes[i:]):
			words++ // the S of HTTPServer
		}
		if unicode.IsUpper(r) {
			capitals++
		} else {
			capitals = 0
		}
	}
	return words
}

// beginsWord reports whether lower-case letters follow the capital letter, more
// than the s of a plural.
func beginsWord(runes []rune) bool {
	lower := 0
	for _, r := range runes[1:] {
		if !unicode.IsLower(r) {
			break
		}
		lower++
	}
	return lower > 1 || lower == 1 && runes[1] != 's'
}

func inGlossary(name string) bool {
	name = strings.ToLower(name)
	for _, noun := range glossary {
		if name == noun || name == noun+"s" || name == noun+"es" {
			return true
		}
	}
	return false
}

// checkIdentifiers compares the share of single-word names with the limit.
func checkIdentifiers(p printer, pkgs []*packages.Package, list bool) (passed bool) {
	c := countNames(pkgs)
	if list {
		for _, name := range c.single {
			p.printf("%s: %s\n", p.position(position(pkgs, name.Pos())), name.Name)
		}
	}
	passed = c.share() <= singleWordLimit
	p.printf("names: %d of %d declared names are a single word outside the glossary: %.1f %%, at most %.0f %%\n",
		len(c.single), c.all, 100*c.share(), 100*singleWordLimit)
	if !passed && !list {
		p.printf("  run with -only names -list to see them\n")
	}
	return passed
}

// position relies on the file set that all loaded packages share.
func position(pkgs []*packages.Package, at token.Pos) token.Position {
	return pkgs[0].Fset.Position(at)
}

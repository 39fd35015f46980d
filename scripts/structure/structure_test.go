package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// check runs the program and returns its lines.
func check(t *testing.T, dir string, args ...string) (lines []string, failed bool) {
	t.Helper()
	var out strings.Builder
	err := run(dir, args, &out)
	if err != nil && !errors.Is(err, errFailed) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), err != nil
}

func TestCircleIsRefusedWithItsEdges(t *testing.T) {
	got, failed := check(t, ".", "-only", "types", "./testdata/circle")
	want := []string{
		"types: circle of 3 types",
		"  circle.Host in testdata/circle/circle.go",
		"    uses Worker at testdata/circle/circle.go:5",
		"  circle.Worker in testdata/circle/circle.go",
		"    uses Lane at testdata/circle/circle.go:9",
		"  circle.Lane in testdata/circle/circle.go",
		"    uses Host at testdata/circle/circle.go:14",
	}
	if diff := cmp.Diff(want, got); diff != "" || !failed {
		t.Errorf("failed: %v, output (-want +got):\n%s", failed, diff)
	}
}

func TestPairIsAllowedOnlyInOneFile(t *testing.T) {
	if got, failed := check(t, ".", "-only", "types", "./testdata/pair"); failed {
		t.Errorf("a pair in one file is refused: %q", got)
	}
	got, failed := check(t, ".", "-only", "types", "./testdata/pairfiles")
	if !failed || got[0] != "types: circle of 2 types" {
		t.Errorf("a pair in two files is allowed: %q", got)
	}
}

func TestPackagesFormOneGraph(t *testing.T) {
	got, failed := check(t, ".", "-only", "types", "./testdata/pair", "./testdata/functions")
	if want := []string{"types: no circle among 4 types except pairs in one file"}; failed || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEdgesThroughMembers(t *testing.T) {
	pkgs, err := loadPackages(".", []string{"./testdata/promoted", "./testdata/functions"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for from, edges := range newTypeGraph(pkgs).edges {
		for to := range edges {
			got[from.Name()] = append(got[from.Name()], to.Name())
		}
		slices.Sort(got[from.Name()])
	}
	want := map[string][]string{
		"Outer": {"Inner"}, "ByField": {"Inner", "Outer"}, "ByMethod": {"Inner"}, "ByConstant": {"Mode"},
		"Right": {"Left"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
}

func TestNamesAreCounted(t *testing.T) {
	got, failed := check(t, ".", "-only", "names", "-list", "./testdata/names")
	want := []string{
		"testdata/names/names.go:8: ID",
		"testdata/names/names.go:13: keeper",
		"testdata/names/names.go:16: Run",
		"testdata/names/names.go:18: ETag",
		"names: 4 of 10 declared names are a single word outside the glossary: 40.0 %, at most 45 %",
	}
	if diff := cmp.Diff(want, got); diff != "" || failed {
		t.Errorf("failed: %v, output (-want +got):\n%s", failed, diff)
	}
	if _, failed := check(t, ".", "-only", "names", "./testdata/circle"); !failed {
		t.Error("a package with single-word names passes")
	}
}

func TestWordsOfAName(t *testing.T) {
	for name, want := range map[string]int{
		"keeper": 1, "Run": 1, "ID": 1, "URL": 1, "LSNs": 1, "ETag": 1, "x": 1, "sha256": 1,
		"leaseWriter": 2, "leaseID": 2, "IDsOf": 2, "HTTPServer": 2, "min_key": 2, "EPKRange": 2, "newLeaseWriter": 3,
	} {
		if got := wordCount(name); got != want {
			t.Errorf("%s has %d words, want %d", name, got, want)
		}
	}
}

const commented = `//go:build linux

// Package p counts. What counts, and who's
// there? It goes
// on, if "what" is quoted.
package p

/* When a block
ends ahead of what follows */
const url = "https://what/who" // where

//nolint:what
var raw = ` + "`// nobody`" + `
`

func TestWordsOfComments(t *testing.T) {
	got := countComments("p.go", []byte(commented))
	if got.words != 24 || !slices.Equal(got.hits, []int{3, 1, 1, 2, 2}) {
		t.Errorf("%d words, hits %v, want 24, [3 1 1 2 2]", got.words, got.hits)
	}
	if want := []string{"p.go:4: goes on", "p.go:9: ahead of"}; !slices.Equal(slices.Sorted(slices.Values(got.lines[4])), want) {
		t.Errorf("lines %q, want %q", got.lines[4], want)
	}
}

// newRepository returns a git repository, and a function that writes a file in it.
func newRepository(t *testing.T) (dir string, write func(name, text string)) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	return dir, func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommentsOfARepository(t *testing.T) {
	dir, write := newRepository(t)
	write("good/good.go", "// Package good is fine if read, when needed.\npackage good\n")
	write("bad/bad_test.go", "package bad // what what\n")
	write("bad/testdata/bad.go", "package bad // what what\n")
	write("bad/generated.go", "// Code generated by hand. DO NOT EDIT.\n\npackage bad // what what\n")
	if got, failed := check(t, dir, "-only", "comments"); failed {
		t.Errorf("good comments fail: %q", got)
	}
	write("bad/bad.go", "package bad // what what\n")
	got, failed := check(t, dir, "-only", "comments", "-list")
	want := []string{
		"bad                                 2 words  what 1000.0  who 0.0  where 0.0  if/when 0.0  dialect 0.0",
		"good                                8 words  what 0.0  who 0.0  where 0.0  if/when 250.0  dialect 0.0",
		"comments:     10 words  what 200.0  who 0.0  where 0.0  if/when 200.0  dialect 0.0",
		"comments: what stands 200.0 times in 1,000 words, at most 3.0 is allowed (what)",
		"  bad: 1000.0 in 2 words",
		"    bad/bad.go:1: what",
		"    bad/bad.go:1: what",
	}
	if diff := cmp.Diff(want, got); diff != "" || !failed {
		t.Errorf("failed: %v, output (-want +got):\n%s", failed, diff)
	}
}

const locals = `package p

func f(of int, n, by string) (rest error, _ bool) {
	at, ok := n, true
	for before := range of {
		var whole, end, _ = before, at, by
		switch own := any(whole).(type) {
		default:
			_ = func(yield func(until int)) { at = end }
			_ = own
		}
	}
	at, ok = "", !ok
	return nil, ok
}

type t struct{ of, at int }

func (t) over() {}
`

func TestLocalsOfARepository(t *testing.T) {
	dir, write := newRepository(t)
	nouns := "package p\n\nfunc f(" + strings.TrimSuffix(strings.Repeat("name, ", 1599), ", ") + " int) {}\n"
	write("handlers/nouns.go", nouns)
	write("trigger/p/p_test.go", locals)
	write("tests/p.go", locals)
	if got, failed := check(t, dir, "-only", "locals"); failed || !strings.Contains(got[0], "0 of 1599 ") {
		t.Errorf("nouns fail: %q", got)
	}
	write("trigger/p/p.go", locals)
	want := []string{
		"trigger/p/p.go:3: of", "trigger/p/p.go:3: by", "trigger/p/p.go:3: rest", "trigger/p/p.go:4: at",
		"trigger/p/p.go:5: before", "trigger/p/p.go:6: whole", "trigger/p/p.go:7: own", "trigger/p/p.go:9: until",
		"locals: 8 of 1611 locals and parameters are function words: 5.0 per 1,000, at most 5",
	}
	got, failed := check(t, dir, "-only", "locals", "-list")
	if diff := cmp.Diff(want, got); diff != "" || failed {
		t.Errorf("failed: %v, output (-want +got):\n%s", failed, diff)
	}
	write("trigger/p/p.go", strings.Replace(locals, "ok :=", "there :=", 1))
	if got, failed := check(t, dir, "-only", "locals"); !failed || !slices.Contains(got, "trigger/p/p.go:4: there") {
		t.Errorf("9 of 1,611 pass: %q", got)
	}
}

func TestUnknownCheckIsRefused(t *testing.T) {
	if err := run(".", []string{"-only", "types,names"}, &strings.Builder{}); err == nil || errors.Is(err, errFailed) {
		t.Errorf("got error %v", err)
	}
}

func TestArrowsBetweenFiles(t *testing.T) {
	pkgs, err := loadPackages(".", []string{"./testdata/pairfiles", "./testdata/pair"})
	if err != nil {
		t.Fatal(err)
	}
	g := newFileGraph(pkgs)
	if len(g.rooms) != 3 || len(g.arrows) != 2 {
		t.Errorf("files %v, arrows %v, want 3 files, and 2 arrows of the pair in two files", g.rooms, g.arrows)
	}
	between, inside := g.backUp()
	if len(between) != 0 || len(inside) != 1 {
		t.Errorf("back up: %v between rooms, %v inside, want none and one of the pair", between, inside)
	}
}

func TestFewestArrowsRunBackUp(t *testing.T) {
	g := &fileGraph{rooms: map[string]string{}, arrows: map[arrow]string{}}
	add := func(room string, arrows ...arrow) {
		for _, a := range arrows {
			g.arrows[a] = "Name"
			for _, file := range []string{a.from, a.to} {
				if g.rooms[file] == "" {
					g.rooms[file] = room
				}
			}
		}
	}
	// Two circles share the arrow from d to a. File z, which uses a, is in none.
	add("internal/page", arrow{"z", "a"}, arrow{"a", "b"}, arrow{"b", "d"}, arrow{"a", "c"}, arrow{"c", "d"}, arrow{"d", "a"})
	add("internal/text", arrow{"text", "other"})
	add("", arrow{"a", "text"}, arrow{"text", "z"}) // down and back up
	between, inside := g.backUp()
	if want := []arrow{{"text", "z"}}; !slices.Equal(between, want) {
		t.Errorf("back up between rooms: %v, want %v", between, want)
	}
	if want := []arrow{{"d", "a"}}; !slices.Equal(inside, want) {
		t.Errorf("back up inside a room: %v, want %v", inside, want)
	}
}

func TestLargeCircleCountsWhole(t *testing.T) {
	g := &fileGraph{rooms: map[string]string{}, arrows: map[arrow]string{}}
	for i := range largestCircle + 1 {
		from, to := string(rune('a'+i)), string(rune('a'+(i+1)%(largestCircle+1)))
		g.rooms[from], g.arrows[arrow{from, to}] = "internal/page", "Name"
	}
	if _, inside := g.backUp(); len(inside) != largestCircle+1 {
		t.Errorf("%d arrows of a circle of %d files count", len(inside), largestCircle+1)
	}
}

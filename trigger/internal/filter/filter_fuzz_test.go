package filter

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// FuzzGenerated compares the filter with the reference on generated patterns and
// documents, see generator.
func FuzzGenerated(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(50) {
		f.Add(drawnBytes(seed, 100))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compareGenerated(t, data) })
}

// FuzzPatterns compares the filter with the reference on any text. Whatever the text, the
// filter returns.
func FuzzPatterns(f *testing.F) {
	for _, tt := range verdicts {
		f.Add(tt.pattern, `{"a":[1]}`, []byte(tt.document))
	}
	for _, tt := range faults {
		f.Add(tt.pattern, `{"b":{"c":[{"exists":false}]}}`, []byte(`{"a":[{"b":1},[2]],"b":{}}`))
	}
	f.Fuzz(func(t *testing.T, first, second string, document []byte) {
		comparePasses(t, []string{first, second}, document)
	})
}

// TestGeneratedDocuments compares the filter with the reference on some generated
// documents. Of these a good part passes, and a good part does not.
func TestGeneratedDocuments(t *testing.T) {
	const all = 20_000
	passed := 0
	for seed := range uint64(all) {
		if compareGenerated(t, drawnBytes(seed, 200)) {
			passed++
		}
	}
	if passed < all/10 || passed > all*9/10 {
		t.Errorf("%d of %d documents passed", passed, all)
	}
}

func drawnBytes(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

func compareGenerated(t *testing.T, data []byte) (passed bool) {
	t.Helper()
	g := &generator{data: data}
	document := []byte(g.documentText(3))
	var patterns []string
	for range 1 + g.draw(3) {
		if pattern := g.patternText(2); compiles(pattern) { // a range may be empty, and an excluded prefix too
			patterns = append(patterns, pattern)
		}
	}
	if !json.Valid(document) {
		t.Fatalf("%s is not JSON", document)
	}
	return comparePasses(t, patterns, document)
}

func compiles(pattern string) bool {
	_, err := Compile([]string{pattern})
	return err == nil
}

// comparePasses compares the verdicts on a document, if the patterns compile.
func comparePasses(t *testing.T, patterns []string, document []byte) (passed bool) {
	t.Helper()
	filter, err := Compile(patterns)
	if err != nil || filter == nil {
		return false
	}
	passed = filter.Passes(document)
	if json.Valid(document) && passed != referencePasses(patterns, document) {
		t.Fatalf("%s on %s: passes %v, reference %v", patterns, document, passed, !passed)
	}
	return passed
}

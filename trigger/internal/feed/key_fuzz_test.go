package feed

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"unicode/utf8"

	"halley/trigger/cosmos"
)

// FuzzPartitionKey checks that equal values give equal text, in any spelling,
// and a value for every path.
func FuzzPartitionKey(f *testing.F) {
	f.Add([]byte(`{"pk":"a","n":{"b c":1.0}}`), "/pk", `/n/"b c"`)
	f.Add([]byte(`{"a":{"b":[1,{}]},"":null}`), "/a/b/c", "//")
	f.Add([]byte(`[1]`), `/"open`, "x/y")
	f.Add([]byte(`{"pk":1e400}`), "/pk", "")
	f.Add([]byte("{\"pk\":\"\x9b\"}"), "pk", "0")
	for _, value := range []string{`"a b"`, `"a<b"`, `"\u0061"`, `"é"`, "\"\u2028\"", `0`, `-0`, `12`, `1.0`, `1234567890123456789`, `true`, `null`, `{}`, `[]`, `""`} {
		f.Add([]byte(`{"pk":`+value+`}`), "/pk", "")
	}
	f.Fuzz(func(t *testing.T, doc []byte, first, second string) {
		paths := []string{first, second}
		key := documentKey(doc, paths)
		var values []any
		if err := json.Unmarshal([]byte(key), &values); err != nil || len(values) != len(paths) {
			t.Fatalf("%s at %q is %q, not a value for each path", doc, paths, key)
		}
		var decoded any
		if !utf8.Valid(doc) || json.Unmarshal(doc, &decoded) != nil {
			return // a page with such a document is discarded
		}
		respelled, err := json.MarshalIndent(decoded, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		checkFoundKey(t, doc, first)
		if repeated := documentKey(respelled, paths); repeated != key {
			t.Fatalf("%s has key %s, spelled as %s it has %s", doc, key, respelled, repeated)
		}
		for i, path := range paths {
			want, exists := lookUp(decoded, splitKeyPath(path))
			switch want.(type) {
			case map[string]any, []any:
				want = map[string]any{} // undefined
			}
			if exists && !reflect.DeepEqual(values[i], want) {
				t.Fatalf("%s at %q is %v, want %v", doc, path, values[i], want)
			}
			if number, _ := values[i].(float64); math.Signbit(number) && number == 0 {
				t.Fatalf("%s has key %s with a negative zero", doc, key)
			}
		}
	})
}

// checkFoundKey wants a change whose key value was found with its page to have the key and
// the order of one whose document is searched.
func checkFoundKey(t *testing.T, document []byte, path string) {
	paths := []string{path}
	name := KeyProperty(paths)
	if name == "" {
		return
	}
	searched := Change{Item: cosmos.Item{Document: document}}
	found := Change{Item: cosmos.Item{Document: document, KeyPlace: placeOf(document, cosmos.Property(document, name))}}
	if got, want := PartitionKey(found.Item, paths), documentKey(document, paths); got != want {
		t.Fatalf("%s at %q has key %s, want %s", document, path, got, want)
	}
	if found.OrderKey(paths, false) != searched.OrderKey(paths, false) {
		t.Fatalf("%s at %q has two orders", document, path)
	}
}

// placeOf returns a place in a document that has a value.
func placeOf(document, value []byte) cosmos.Place {
	if value == nil {
		return cosmos.Place{}
	}
	start := bytes.Index(document, value)
	return cosmos.Place{Start: uint32(start), End: uint32(start + len(value))}
}

// lookUp follows property names into a decoded document.
func lookUp(v any, names []string) (any, bool) {
	for _, name := range names {
		object, _ := v.(map[string]any)
		next, exists := object[name]
		if !exists {
			return nil, false
		}
		v = next
	}
	return v, true
}

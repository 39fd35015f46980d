package feed

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzPartitionKey checks that equal values give equal text, in any spelling,
// and a value for every path.
func FuzzPartitionKey(f *testing.F) {
	f.Add([]byte(`{"pk":"a","n":{"b c":1.0}}`), "/pk", `/n/"b c"`)
	f.Add([]byte(`{"a":{"b":[1,{}]},"":null}`), "/a/b/c", "//")
	f.Add([]byte(`[1]`), `/"open`, "x/y")
	f.Add([]byte(`{"pk":1e400}`), "/pk", "")
	f.Fuzz(func(t *testing.T, doc []byte, first, second string) {
		paths := []string{first, second}
		key := documentKey(doc, paths)
		var values []any
		if err := json.Unmarshal([]byte(key), &values); err != nil || len(values) != len(paths) {
			t.Fatalf("%s at %q is %q, not a value for each path", doc, paths, key)
		}
		var decoded any
		if json.Unmarshal(doc, &decoded) != nil {
			return
		}
		respelled, err := json.MarshalIndent(decoded, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if again := documentKey(respelled, paths); again != key {
			t.Fatalf("%s has key %s, spelled as %s it has %s", doc, key, respelled, again)
		}
		for i, path := range paths {
			if want, there := lookUp(decoded, splitKeyPath(path)); there && !reflect.DeepEqual(values[i], want) {
				t.Fatalf("%s at %q is %v, want %v", doc, path, values[i], want)
			}
		}
	})
}

// lookUp follows property names into a decoded document.
func lookUp(v any, names []string) (any, bool) {
	for _, name := range names {
		object, _ := v.(map[string]any)
		next, there := object[name]
		if !there {
			return nil, false
		}
		v = next
	}
	return v, true
}

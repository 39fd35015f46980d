package trigger

import (
	"encoding/json"
	"strings"

	"halley/trigger/cosmos"
)

// logicalKey is the partition key of a document as a JSON array of the values
// at the container's key paths. Values that are equal to Cosmos DB are equal
// text; a path that is not there is {} (undefined).
func logicalKey(document []byte, paths []string) string {
	values := make([]any, len(paths))
	for i, path := range paths {
		values[i] = valueAt(document, splitKeyPath(path))
	}
	key, _ := json.Marshal(values) // decoded from JSON, so it encodes
	return string(key)
}

// valueAt decodes the value at a path of property names; struct{}{} where
// there is none.
func valueAt(document []byte, path []string) any {
	for _, name := range path {
		if document = cosmos.Property(document, name); document == nil {
			return struct{}{}
		}
	}
	var v any
	if json.Unmarshal(document, &v) != nil {
		return struct{}{}
	}
	return v
}

// splitKeyPath cuts a partition key path such as /a/b or /"with space"/c into
// property names.
func splitKeyPath(path string) []string {
	var names []string
	for rest := path; rest != ""; {
		rest = strings.TrimPrefix(rest, "/")
		var name string
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			name, rest, _ = strings.Cut(quoted, `"`)
		} else if i := strings.IndexByte(rest, '/'); i >= 0 {
			name, rest = rest[:i], rest[i:]
		} else {
			name, rest = rest, ""
		}
		names = append(names, name)
	}
	return names
}

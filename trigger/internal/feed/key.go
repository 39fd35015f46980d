package feed

import (
	"encoding/json"
	"strings"

	"halley/trigger/cosmos"
)

// PartitionKey returns the logical partition key of an item as a JSON array of
// the values at the container's key paths. Values that are equal to Cosmos DB
// are equal text, and a missing value is {} (undefined). A delete has no
// document: its metadata hold the key, by path or as a list, else the previous
// image does.
func PartitionKey(item cosmos.Item, paths []string) string {
	switch {
	case item.Document != nil:
		return documentKey(item.Document, paths)
	case item.Previous != nil:
		return documentKey(item.Previous, paths)
	}
	var values []any
	if json.Unmarshal(item.PartitionKey, &values) == nil {
		key, _ := json.Marshal(values) // decoded from JSON, so it encodes
		return string(key)
	}
	return documentKey(item.PartitionKey, paths)
}

func documentKey(document []byte, paths []string) string {
	values := make([]any, len(paths))
	for i, path := range paths {
		values[i] = valueAt(document, splitKeyPath(path))
	}
	key, _ := json.Marshal(values) // decoded from JSON, so it encodes
	return string(key)
}

// IsTrue reports whether a document has a property, at its first level, that is true.
func IsTrue(document []byte, property string) bool {
	return valueAt(document, []string{property}) == true
}

// valueAt decodes the value at a path of property names. A missing value is
// struct{}{}.
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

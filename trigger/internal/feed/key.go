package feed

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// PartitionKey returns the logical partition key of an item as a JSON array of
// the values at the container's key paths. Values that are equal to Cosmos DB
// are equal text: all spellings of a number that are one double, -0 and 0 among
// them. A value that is missing, an object or an array is {} (undefined). A delete
// has no document: its metadata hold the key, by path or as a list, else the
// previous image does.
func PartitionKey(item cosmos.Item, paths []string) string {
	switch value := item.KeyPlace.In(item.Document); {
	case isCanonical(value):
		return "[" + string(value) + "]"
	case item.Document != nil:
		return documentKey(item.Document, paths)
	case item.Previous != nil:
		return documentKey(item.Previous, paths)
	}
	var values []any
	if json.Unmarshal(item.PartitionKey, &values) == nil {
		return encodeKey(values)
	}
	return documentKey(item.PartitionKey, paths)
}

func documentKey(document []byte, paths []string) string {
	if name := KeyProperty(paths); name != "" {
		if value := cosmos.Property(document, name); isCanonical(value) {
			return "[" + string(value) + "]"
		}
	}
	values := make([]any, len(paths))
	for i, path := range paths {
		values[i] = valueAt(document, splitKeyPath(path))
	}
	return encodeKey(values)
}

// encodeKey spells the decoded values of a key. A number is a double, as the
// NumberPartitionKeyComponent of azure-cosmos-dotnet-v3 is (branch msdata/direct), and an
// object or an array is undefined, as its PartitionKeyInternal has no component for them.
func encodeKey(values []any) string {
	for i, value := range values {
		switch value := value.(type) {
		case float64:
			values[i] = value + 0 // -0 + 0 is 0
		case map[string]any, []any:
			values[i] = struct{}{}
		}
	}
	key, _ := json.Marshal(values) // decoded from JSON, so it encodes
	return string(key)
}

// KeyProperty returns the property at the first level of documents that is the whole
// partition key, or "" if there is none.
func KeyProperty(paths []string) string {
	if len(paths) != 1 {
		return ""
	}
	if names := splitKeyPath(paths[0]); len(names) == 1 {
		return names[0]
	}
	return ""
}

// isCanonical reports whether a value of [KeyProperty] is spelled as PartitionKey spells
// it, which is as encoding/json does: a string without escapes and without characters
// that are escaped, a whole number that a float64 holds, true, false or null.
func isCanonical(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	switch value[0] {
	case '"':
		return isUnescaped(value[1 : len(value)-1])
	case 't', 'f', 'n': // a literal
		return true
	case '0':
		return len(value) == 1
	default:
		return len(value) <= 15 && isAllDigits(value)
	}
}

// isUnescaped reports whether encoding/json writes a text without an escape.
func isUnescaped(text []byte) bool {
	for _, c := range text {
		if c == '\\' || c == '<' || c == '>' || c == '&' || c == 0xe2 { // the last one begins U+2028 and U+2029
			return false
		}
	}
	return true
}

func isAllDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// IsTrue reports whether a document has a property, at its first level, that is true.
func IsTrue(document []byte, property string) bool {
	return valueAt(document, []string{property}) == true
}

// TTL returns the time to live that a document sets for itself, 0 if that is forever, and false if
// it sets none.
func TTL(document []byte) (ttl time.Duration, own bool) {
	seconds, own := valueAt(document, []string{"ttl"}).(float64)
	if seconds < 1 || seconds > math.MaxInt32 { // -1 is forever; the service takes no more
		return 0, own
	}
	return time.Duration(seconds) * time.Second, own
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
	for remainder := path; remainder != ""; {
		remainder = strings.TrimPrefix(remainder, "/")
		var name string
		if quoted, ok := strings.CutPrefix(remainder, `"`); ok {
			name, remainder, _ = strings.Cut(quoted, `"`)
		} else if i := strings.IndexByte(remainder, '/'); i >= 0 {
			name, remainder = remainder[:i], remainder[i:]
		} else {
			name, remainder = remainder, ""
		}
		names = append(names, name)
	}
	return names
}

package migrate

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// canonical returns the content as JSON in which equal documents have equal bytes: names
// are sorted, and numbers are doubles, as Cosmos DB stores them.
func canonical(content properties) ([]byte, error) {
	decoded := make(map[string]any, len(content))
	for name, raw := range content {
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, err
		}
		decoded[name] = value
	}
	return json.Marshal(decoded)
}

// differingProperty returns the first property in which two documents differ, or "".
func differingProperty(want, got properties) (string, error) {
	names := slices.Collect(maps.Keys(want))
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if (want[name] == nil) != (got[name] == nil) {
			return name, nil
		}
		one, err := canonical(properties{name: want[name]})
		if err != nil {
			return "", err
		}
		other, err := canonical(properties{name: got[name]})
		if err != nil {
			return "", err
		}
		if !bytes.Equal(one, other) {
			return name, nil
		}
	}
	return "", nil
}

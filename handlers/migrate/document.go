package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"halley/handlers/position"
	"halley/trigger/cosmos"
)

// guard is the property of a copy that protects it against older writes.
type guard struct {
	position.Position
	Key     string `json:"key"`               // partition key in the source: with the id, it names the source document
	Deleted bool   `json:"deleted,omitempty"` // the copy is a tombstone
}

// systemProperties are set by the service, and no part of a copy.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn", "_metadata"}

// properties are those of a document, at its first level.
type properties map[string]json.RawMessage

// contentOf returns the properties of a document without those of the service and
// without the guard.
func (m *Migration) contentOf(document json.RawMessage) (properties, error) {
	var content properties
	if err := json.Unmarshal(document, &content); err != nil {
		return nil, fmt.Errorf("the document is not a JSON object: %w", err)
	}
	if content == nil {
		return nil, errors.New("the document is null, not a JSON object")
	}
	for _, name := range systemProperties {
		delete(content, name)
	}
	delete(content, m.options.GuardProperty)
	return content, nil
}

// image is the document that the target is to have for a version of a source document.
type image struct {
	id      string
	key     targetKey
	content properties // without the guard; nil if the target is to have no document
}

// imageOf transforms a version of a source document. The content of the result is nil if
// the transform leaves the document out.
func (m *Migration) imageOf(id string, document json.RawMessage, paths keyPaths) (image, error) {
	transformed := document
	if m.transform != nil {
		var err error
		if transformed, err = m.transform(document); err != nil {
			return image{}, fmt.Errorf("transform: %w", err)
		}
	}
	if transformed == nil {
		return image{id: id}, nil
	}
	content, err := m.contentOf(transformed)
	if err != nil {
		return image{}, fmt.Errorf("transform: %w", err)
	}
	var newID string
	if err := json.Unmarshal(content["id"], &newID); err != nil || newID != id {
		return image{}, fmt.Errorf("transform: the id of the copy is %s, not %q: a transform keeps the id", content["id"], id)
	}
	key, err := paths.keyOf(content)
	return image{id: id, key: key, content: content}, err
}

// guarded returns the document to write.
func (m *Migration) guarded(content properties, g guard) ([]byte, error) {
	marked := maps.Clone(content)
	raw, err := json.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	marked[m.options.GuardProperty] = raw
	return json.Marshal(marked)
}

// tombstone returns the document that takes the place of a copy. It expires if the
// target's time to live is on.
func (m *Migration) tombstone(id string, key targetKey, g guard, paths keyPaths) ([]byte, error) {
	g.Deleted = true
	content := map[string]any{"id": id, "ttl": int64(m.options.TombstoneTTL / time.Second)}
	for i, path := range paths {
		if key.values[i] != any(cosmos.Undefined) {
			setValue(content, path, key.values[i])
		}
	}
	content[m.options.GuardProperty] = g
	return json.Marshal(content)
}

func setValue(object map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}
	object[path[len(path)-1]] = value
}

// keyPaths are the paths of a container's partition key.
type keyPaths [][]string

// targetKey is the partition key of a document in the target.
type targetKey struct {
	values []any // as cosmos.NewPartitionKey takes them
	text   string
}

func newTargetKey(values []any) targetKey {
	return targetKey{values: values, text: cosmos.NewPartitionKey(values...).String()}
}

func (k targetKey) partitionKey() cosmos.PartitionKey { return cosmos.NewPartitionKey(k.values...) }

// parseKeyPaths splits paths such as /customer and /address/"zip code".
func parseKeyPaths(paths []string) (parsed keyPaths) {
	for _, path := range paths {
		var names []string
		for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			names = append(names, strings.Trim(name, `"`))
		}
		parsed = append(parsed, names)
	}
	return parsed
}

// keyOf returns the partition key of a document.
func (p keyPaths) keyOf(content properties) (targetKey, error) {
	values := make([]any, len(p))
	for i, path := range p {
		raw := content[path[0]]
		for _, name := range path[1:] {
			raw = cosmos.Property(raw, name)
		}
		var err error
		if values[i], err = keyValue(raw); err != nil {
			return targetKey{}, fmt.Errorf("partition key /%s of the target: %w", strings.Join(path, "/"), err)
		}
	}
	return newTargetKey(values), nil
}

// keyValue decodes one value of a partition key; nil is a missing one.
func keyValue(raw json.RawMessage) (any, error) {
	if raw == nil {
		return cosmos.Undefined, nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	switch value.(type) {
	case map[string]any, []any:
		return nil, errors.New("the value is an object or an array: a key is a text, a number, true, false or null")
	}
	return value, nil
}

// sourceKeyText returns a partition key of the source as the guard has it: a JSON array
// in which equal keys have equal bytes. A {} in raw is a missing value.
func sourceKeyText(raw json.RawMessage) (string, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("partition key of the source: %w", err)
	}
	values := make([]any, len(parts))
	for i, part := range parts {
		if string(part) == "{}" {
			part = nil
		}
		var err error
		if values[i], err = keyValue(part); err != nil {
			return "", fmt.Errorf("partition key of the source: %w", err)
		}
	}
	return newTargetKey(values).text, nil
}

// unknownKey is the place of a tombstone for a document without a copy: its key in the
// target is not known, unless it is the id.
func (p keyPaths) unknownKey(id string) targetKey {
	values := make([]any, len(p))
	for i, path := range p {
		values[i] = "halley-deleted"
		if len(path) == 1 && path[0] == "id" {
			values[i] = id
		}
	}
	return newTargetKey(values)
}

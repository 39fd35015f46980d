package templates

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// readYAML reads the documents of a file as JSON values. A value with a tag of its own,
// such as !Ref, becomes an expression.
func readYAML(t *testing.T, path string) (documents []any) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(readFile(t, path)))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return documents
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		documents = append(documents, plainValue(t, &node))
	}
}

func plainValue(t *testing.T, node *yaml.Node) any {
	t.Helper()
	switch {
	case strings.HasPrefix(node.Tag, "!") && !strings.HasPrefix(node.Tag, "!!"):
		return map[string]any{"$": node.Tag + " " + node.Value}
	case node.Kind == yaml.DocumentNode:
		return plainValue(t, node.Content[0])
	case node.Kind == yaml.SequenceNode:
		list := []any{}
		for _, item := range node.Content {
			list = append(list, plainValue(t, item))
		}
		return list
	case node.Kind == yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i < len(node.Content); i += 2 {
			object[node.Content[i].Value] = plainValue(t, node.Content[i+1])
		}
		return object
	}
	var value any
	if err := node.Decode(&value); err != nil {
		t.Fatal(err)
	}
	if number, ok := value.(int); ok {
		return float64(number)
	}
	return value
}

//go:build !nodev

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"halley/trigger/cosmos"
)

// seed writes a document to a container with these paths of its partition key.
func seed(ctx context.Context, in *cosmos.Container, paths []string, document any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("seed of container %s: %w", in.Name(), err)
	}
	key, err := keyOf(body, paths)
	if err != nil {
		return fmt.Errorf("seed of container %s: %w", in.Name(), err)
	}
	if _, err := in.Upsert(ctx, key, body); err != nil {
		return fmt.Errorf("seed of container %s: %w", in.Name(), err)
	}
	return nil
}

// keyOf returns the partition key of a document. A component that is missing is
// undefined, as in the service.
func keyOf(document []byte, paths []string) (cosmos.PartitionKey, error) {
	var root map[string]any
	if err := json.Unmarshal(document, &root); err != nil {
		return cosmos.PartitionKey{}, fmt.Errorf("not a JSON object: %w", err)
	}
	components := make([]any, len(paths))
	for i, path := range paths {
		var at any = root
		for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			object, _ := at.(map[string]any)
			value, ok := object[strings.Trim(name, `"`)]
			if !ok {
				value = cosmos.Undefined
			}
			at = value
		}
		switch at.(type) {
		case map[string]any, []any:
			at = cosmos.Undefined
		}
		components[i] = at
	}
	return cosmos.NewPartitionKey(components...), nil
}

//go:build !nodev

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"halley/trigger/cosmos"
)

// seedDir has a file NAME.jsonl for each container that is to have documents in a
// development run, below the current directory.
const seedDir = "dev"

// seedFiles writes the documents of seedDir to the monitored containers.
func seedFiles(ctx context.Context, run *DevRun) error {
	for _, in := range run.Monitored() {
		file := filepath.Join(seedDir, in.Name()+".jsonl")
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		properties, err := in.Properties(ctx)
		if err != nil {
			return err
		}
		number := 0
		for line := range bytes.Lines(text) {
			number++
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			if err := seed(ctx, in, properties.PartitionKey.Paths, json.RawMessage(line)); err != nil {
				return fmt.Errorf("%s:%d: %w", file, number, err)
			}
			d := versionedOf(line)
			run.Wrote(d.ID, d.Version)
		}
	}
	return nil
}

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

//go:build !nodev

package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/text"
	"halley/trigger/cosmos"
)

// seedDir has a file NAME.jsonl for each container NAME that is to have documents in a
// development run, below the current directory.
const seedDir = "dev"

// seedFile holds documents for one container, one JSON object on each line.
type seedFile struct {
	path  string
	in    *cosmos.Container
	paths []string        // of the container's partition key
	known map[string]bool // lines that were written or refused
	state string          // of the file when it was last read
}

// writeMissing writes the documents that the container lacks.
func (s *seedFile) writeMissing(ctx context.Context) error {
	s.state = s.fileState()
	return s.eachNew(func(line []byte) error {
		key, err := keyOf(line, s.paths)
		if err != nil {
			return err
		}
		_, err = s.in.Create(ctx, key, line)
		if cosmos.IsConflict(err) {
			return nil
		}
		return err
	})
}

// followEvery is the time between two looks at a file.
const followEvery = 300 * time.Millisecond

// follow writes lines that are added or changed until ctx ends. A line that cannot be
// written is reported once.
func (s *seedFile) follow(ctx context.Context, report func(string)) {
	for hosting.Pause(ctx, followEvery) {
		state := s.fileState()
		if state == s.state {
			continue
		}
		s.state = state
		written := 0
		err := s.eachNew(func(line []byte) error {
			key, err := keyOf(line, s.paths)
			if err == nil {
				_, err = s.in.Upsert(context.WithoutCancel(ctx), key, line)
			}
			if err == nil {
				written++
			}
			return err
		})
		if err != nil {
			report(text.OfError(err))
		}
		if written > 0 {
			report(fmt.Sprintf("%s of %s written", text.Count(written, "document"), s.path))
		}
	}
}

// eachNew calls write with each line that is not known. If write fails, the other lines
// are written nevertheless; the error names the place.
func (s *seedFile) eachNew(write func(line []byte) error) error {
	text, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	var errs []error
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 || s.known[string(line)] {
			continue
		}
		s.known[string(line)] = true
		if err := write(line); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", s.path, number, err))
		}
	}
	return errors.Join(errs...)
}

// fileState changes when the file does. It is "" if there is none.
func (s *seedFile) fileState() string {
	info, err := os.Stat(s.path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}

// writeSeed writes a document to a container with these paths of its partition key.
func writeSeed(ctx context.Context, in *cosmos.Container, paths []string, document any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("seed of container %s: %w", in.Name(), err)
	}
	key, err := keyOf(body, paths)
	if err == nil {
		_, err = in.Create(ctx, key, body)
	}
	if err != nil && !cosmos.IsConflict(err) {
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

// Package epk computes effective partition keys: the hashes by which Cosmos DB
// places items in physical partitions and names the bounds of their ranges.
//
// An effective partition key (EPK) is an upper-case hex string. The whole key
// space is ["", "FF"); every range is [min, max) inside it. The algorithms are
// those of PartitionKeyInternal in Azure/azure-cosmos-dotnet-v3 (branch
// msdata/direct), which the SDKs of every language repeat.
package epk

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Kind says how the paths of a [Definition] make one key.
type Kind string

const (
	// Hash hashes the value of a single path.
	Hash Kind = "Hash"
	// MultiHash hashes each of up to three paths by itself: a hierarchical key.
	MultiHash Kind = "MultiHash"
)

// maxPaths is the depth of a hierarchical partition key,
// https://learn.microsoft.com/azure/cosmos-db/hierarchical-partition-keys.
const maxPaths = 3

// Limits of a path; the service documents none. Each level of a path is read out of
// every document once more.
const (
	maxPath     = 1024 // bytes
	maxSegments = 16
)

// Definition is the partitionKey property of a container. Use
// [ParseDefinition]: methods expect a definition that it returned.
type Definition struct {
	Paths   []string `json:"paths"`
	Kind    Kind     `json:"kind"`
	Version int      `json:"version"` // 1 or 2; always 2 for MultiHash. Version 1 is not written

	segments [][]string // Paths, split; one entry per path
}

// ParseDefinition reads the partitionKey property of a container. If the kind is
// missing, it is Hash; if the version is, it is 1 for Hash and 2 for MultiHash.
// The error names the field to change.
func ParseDefinition(raw json.RawMessage) (Definition, error) {
	var d Definition
	if err := json.Unmarshal(raw, &d); err != nil {
		return Definition{}, fmt.Errorf("partitionKey: %w", err)
	}
	if d.Kind == "" {
		d.Kind = Hash
	}
	if d.Version == 0 {
		d.Version = 1
		if d.Kind == MultiHash {
			d.Version = 2
		}
	}
	if err := d.check(); err != nil {
		return Definition{}, fmt.Errorf("partitionKey: %w", err)
	}
	for _, path := range d.Paths {
		if len(path) > maxPath {
			return Definition{}, fmt.Errorf("partitionKey.paths: a path has %d bytes, at most %d are allowed", len(path), maxPath)
		}
		segments, err := SplitPath(path)
		if err != nil {
			return Definition{}, fmt.Errorf("partitionKey.paths: %w", err)
		}
		if len(segments) > maxSegments {
			return Definition{}, fmt.Errorf("partitionKey.paths: path %q has %d levels, at most %d are allowed", path, len(segments), maxSegments)
		}
		d.segments = append(d.segments, segments)
	}
	return d, nil
}

// MarshalJSON leaves version 1 out, as the service does (recorded answers of a hosted account,
// October 2026).
func (d Definition) MarshalJSON() ([]byte, error) {
	type written struct {
		Paths   []string `json:"paths"`
		Kind    Kind     `json:"kind"`
		Version int      `json:"version,omitempty"`
	}
	w := written{d.Paths, d.Kind, d.Version}
	if w.Version == 1 {
		w.Version = 0
	}
	return json.Marshal(w)
}

// Segments returns the property names of each path: if a path is /a/"b c", they are
// a and b c.
func (d Definition) Segments() [][]string { return d.segments }

func (d Definition) check() error {
	switch {
	case d.Kind != Hash && d.Kind != MultiHash:
		return fmt.Errorf("kind %q is not supported; use %q or %q", d.Kind, Hash, MultiHash)
	case d.Kind == MultiHash && d.Version != 2:
		return fmt.Errorf("version %d is not supported with kind %q; use 2", d.Version, MultiHash)
	case d.Version != 1 && d.Version != 2:
		return fmt.Errorf("version %d is not supported; use 1 or 2", d.Version)
	case len(d.Paths) == 0:
		return fmt.Errorf("paths is empty; give at least one path such as \"/id\"")
	case d.Kind == Hash && len(d.Paths) > 1:
		return fmt.Errorf("kind %q takes one path, not %d; use kind %q for several", Hash, len(d.Paths), MultiHash)
	case len(d.Paths) > maxPaths:
		return fmt.Errorf("%d paths given; a hierarchical key has at most %d", len(d.Paths), maxPaths)
	}
	return nil
}

// SplitPath splits /a/b and /"a b"/c into their property names. It fails if a name
// is empty or a quotation mark is not closed.
func SplitPath(path string) ([]string, error) {
	var segments []string
	for unparsed := path; unparsed != ""; {
		suffix, ok := strings.CutPrefix(unparsed, "/")
		if !ok {
			return nil, fmt.Errorf("path %q: each property begins with a slash", path)
		}
		name, remainder, err := cutSegment(suffix)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", path, err)
		}
		segments, unparsed = append(segments, name), remainder
	}
	if len(segments) == 0 {
		return nil, fmt.Errorf("path %q names no property", path)
	}
	return segments, nil
}

// cutSegment takes the property name at the start of s, which follows a slash.
func cutSegment(s string) (name, remainder string, err error) {
	if s == "" || s[0] == '/' {
		return "", "", fmt.Errorf("a property name is empty")
	}
	if quote := s[0]; quote == '"' || quote == '\'' {
		name, remainder, ok := strings.Cut(s[1:], string(quote))
		if !ok {
			return "", "", fmt.Errorf("a quotation mark is not closed")
		}
		return name, remainder, nil
	}
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i:], nil
	}
	return s, "", nil
}

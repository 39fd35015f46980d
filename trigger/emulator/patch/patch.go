// Package patch applies Cosmos DB partial document updates to raw JSON
// documents. Parts of a document that no operation names keep their text:
// numbers are not reformatted and properties stay in order.
//
// The rules are those of
// https://learn.microsoft.com/azure/cosmos-db/partial-document-update.
package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// MaxOperations is how many operations the service takes in one request.
const MaxOperations = 10

// Limits of a path; the service documents none. No document is deeper, see maxNesting
// of the account.
const (
	maxPath     = 2048 // bytes
	maxSegments = 128
)

// Request is the body of a PATCH request.
type Request struct {
	// Condition is the predicate that the document must meet, in the form
	// "from c where …"; "" if there is none. The caller evaluates it.
	Condition  string
	Operations []Operation
}

// Operation is one change of a document.
type Operation struct {
	Op    string          `json:"op"` // add, set, replace, remove, incr (or increment) or move
	Path  string          `json:"path"`
	From  string          `json:"from"`  // move only
	Value json.RawMessage `json:"value"` // absent for remove and move
}

// Error is returned if an operation of a request cannot be applied. The service
// answers it as a bad request.
type Error struct {
	Index   int // of the operation, from 0
	Op      string
	Path    string
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("For %.20s Operation(%d) on path %.100q: %s", e.Op, e.Index+1, e.Path, e.Message)
}

// Parse reads {"condition": …, "operations": […]} or a bare array of operations.
// If an operation is invalid, the error is an [*Error] that names it.
func Parse(body []byte) (Request, error) {
	var posted struct {
		Condition  string
		Operations json.RawMessage
	}
	target := any(&posted)
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '[' {
		target = &posted.Operations
	}
	if err := json.Unmarshal(body, target); err != nil {
		return Request{}, fmt.Errorf("the patch is not an operations array or object: %w", err)
	}
	operations, err := parseOperations(posted.Operations)
	if err != nil {
		return Request{}, err
	}
	r := Request{Condition: posted.Condition, Operations: operations}
	for i, o := range r.Operations {
		if err := o.check(); err != nil {
			return Request{}, &Error{Index: i, Op: o.Op, Path: o.Path, Message: err.Error()}
		}
	}
	return r, nil
}

// parseOperations stops at the limit: an operation takes more memory than its text.
func parseOperations(list json.RawMessage) ([]Operation, error) {
	var operations []Operation
	decoder := json.NewDecoder(bytes.NewReader(list))
	if first, _ := decoder.Token(); first != json.Delim('[') && len(list) > 0 {
		return nil, fmt.Errorf("the patch is not an operations array or object: operations is not an array")
	}
	for len(list) > 0 && decoder.More() {
		var next Operation
		if err := decoder.Decode(&next); err != nil {
			return nil, fmt.Errorf("the patch is not an operations array or object: %w", err)
		}
		if operations = append(operations, next); len(operations) > MaxOperations {
			return nil, fmt.Errorf("the patch has more than %d operations; send 1 to %d", MaxOperations, MaxOperations)
		}
	}
	if len(operations) == 0 {
		return nil, fmt.Errorf("the patch has 0 operations; send 1 to %d", MaxOperations)
	}
	return operations, nil
}

// check returns an error if the operation could not be applied to any document.
func (o Operation) check() error {
	switch o.Op {
	case "add", "set", "replace":
		if o.Value == nil {
			return fmt.Errorf("value is missing")
		}
	case "incr", "increment":
		if _, err := parseNumber(o.Value); err != nil {
			return fmt.Errorf("value must be a number")
		}
	case "move":
		if _, err := splitPath(o.From); err != nil {
			return fmt.Errorf("from: %w", err)
		}
	case "remove":
	default:
		return fmt.Errorf("op %.20q is not supported; use add, set, replace, remove, incr or move", o.Op)
	}
	_, err := splitPath(o.Path)
	return err
}

// systemProperties are the properties that only the service writes, and the id.
var systemProperties = []string{"id", "_rid", "_self", "_etag", "_ts", "_attachments"}

// Apply returns the document after every operation. It fails if an operation would
// change the id, a system property or one of the protected paths, such as those of
// the partition key, each given as its property names. Apply does not modify the
// document.
func (r Request) Apply(document []byte, protected ...[]string) ([]byte, error) {
	root, err := parse(document)
	if err != nil {
		return nil, fmt.Errorf("patch: the document is not JSON: %w", err)
	}
	for i, o := range r.Operations {
		if err := o.apply(root, protected); err != nil {
			return nil, &Error{Index: i, Op: o.Op, Path: o.Path, Message: err.Error()}
		}
	}
	return root.append(nil), nil
}

func (o Operation) apply(root *node, protected [][]string) error {
	path, err := splitPath(o.Path)
	if err != nil {
		return err
	}
	if err := checkProtected(path, protected); err != nil {
		return err
	}
	switch o.Op {
	case "add":
		return root.put(path, o.Value, insert)
	case "set":
		return root.put(path, o.Value, overwrite)
	case "replace":
		return root.put(path, o.Value, existing)
	case "remove":
		_, err := root.remove(path)
		return err
	case "move":
		return o.move(root, path, protected)
	}
	return root.increment(path, o.Value)
}

// move removes the value at from and adds it at path.
func (o Operation) move(root *node, path []string, protected [][]string) error {
	from, err := splitPath(o.From)
	if err != nil {
		return fmt.Errorf("from: %w", err)
	}
	if err := checkProtected(from, protected); err != nil {
		return fmt.Errorf("from: %w", err)
	}
	if len(path) > len(from) && slices.Equal(path[:len(from)], from) {
		return fmt.Errorf("the path lies inside from %q", o.From)
	}
	moved, err := root.remove(from)
	if err != nil {
		return fmt.Errorf("from %q: %w", o.From, err)
	}
	return root.put(path, moved.append(nil), insert)
}

// checkProtected returns an error if path is a protected property, a part of it or
// an object around it.
func checkProtected(path []string, protected [][]string) error {
	if slices.Contains(systemProperties, path[0]) {
		return fmt.Errorf("the id and system properties cannot be patched")
	}
	for _, p := range protected {
		n := min(len(p), len(path))
		if slices.Equal(p[:n], path[:n]) {
			return fmt.Errorf("the partition key /%s cannot be patched", strings.Join(p, "/"))
		}
	}
	return nil
}

// splitPath reads a JSON pointer, RFC 6901.
func splitPath(path string) ([]string, error) {
	if len(path) < 2 || path[0] != '/' {
		return nil, fmt.Errorf("a path begins with a slash and names a property")
	}
	if len(path) > maxPath {
		return nil, fmt.Errorf("the path has %d bytes, at most %d are allowed", len(path), maxPath)
	}
	if n := strings.Count(path, "/"); n > maxSegments {
		return nil, fmt.Errorf("the path has %d levels, at most %d are allowed", n, maxSegments)
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		segments[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return segments, nil
}

package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// node is a JSON value. Only the objects and arrays on the path of an operation are
// split into members.
type node struct {
	raw     json.RawMessage // the value's text, valid if members is nil
	array   bool            // members are the elements of an array
	members []member        // not nil when the value has been split
}

type member struct {
	name  string // of a property; unused in an array
	value *node
}

func parse(document []byte) (*node, error) {
	var raw json.RawMessage
	if err := json.Unmarshal(document, &raw); err != nil {
		return nil, err
	}
	return &node{raw: raw}, nil
}

// open splits an object or array into its members. It returns false if n is neither.
func (n *node) open() bool {
	if n.members != nil {
		return true
	}
	if n.raw[0] != '{' && n.raw[0] != '[' {
		return false
	}
	n.array, n.members = n.raw[0] == '[', []member{}
	for i := skipSpace(n.raw, 1); n.raw[i] != ']' && n.raw[i] != '}'; {
		var m member
		if !n.array {
			end := skipValue(n.raw, i)
			m.name = unquote(n.raw[i:end])
			i = skipSpace(n.raw, skipSpace(n.raw, end)+1) // over the colon
		}
		end := skipValue(n.raw, i)
		m.value = &node{raw: n.raw[i:end:end]}
		n.members = append(n.members, m)
		if i = skipSpace(n.raw, end); n.raw[i] == ',' {
			i = skipSpace(n.raw, i+1)
		}
	}
	return true
}

// The functions below read valid JSON. json.Decoder would take a microsecond for each
// element of an array, with the container locked.

// skipSpace is the index of the first byte at or after i that is not space.
func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r' {
		i++
	}
	return i
}

// skipValue is the index after the value that begins at i.
func skipValue(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth <= 1 {
				return i + depth
			}
			depth--
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

func unquote(quoted []byte) (name string) {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	_ = json.Unmarshal(quoted, &name) // valid JSON
	return name
}

// append writes the value as JSON.
func (n *node) append(b []byte) []byte {
	if n.members == nil {
		return append(b, n.raw...)
	}
	open, end := byte('{'), byte('}')
	if n.array {
		open, end = '[', ']'
	}
	b = append(b, open)
	for i, m := range n.members {
		if i > 0 {
			b = append(b, ',')
		}
		if !n.array {
			b = append(appendName(b, m.name), ':')
		}
		b = m.value.append(b)
	}
	return append(b, end)
}

func appendName(b []byte, name string) []byte {
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	_ = e.Encode(name) // a string always encodes
	return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte{'\n'})...)
}

// find returns the index of the member that a path segment names, -1 if there is
// none.
func (n *node) find(segment string) int {
	if !n.array {
		return slices.IndexFunc(n.members, func(m member) bool { return m.name == segment })
	}
	i, err := strconv.Atoi(segment)
	if err != nil || strconv.Itoa(i) != segment || i < 0 || i >= len(n.members) {
		return -1
	}
	return i
}

// parent returns the object or array that holds the last segment of path. It fails
// if a segment before the last one is missing.
func (n *node) parent(path []string) (*node, string, error) {
	for i, segment := range path {
		if !n.open() {
			return nil, "", fmt.Errorf("%q is neither an object nor an array", pointer(path[:i]))
		}
		if i == len(path)-1 {
			return n, segment, nil
		}
		index := n.find(segment)
		if index < 0 {
			return nil, "", fmt.Errorf("no path found beyond %q; parents are not created", pointer(path[:i+1]))
		}
		n = n.members[index].value
	}
	return nil, "", fmt.Errorf("the path is empty")
}

func pointer(path []string) string {
	var b []byte
	for _, segment := range path {
		b = append(append(b, '/'), segment...)
	}
	return string(b)
}

// mode says how put treats a value that exists at the path, and an array.
type mode int

const (
	insert    mode = iota // insert before the element of an array, replace a property
	overwrite             // replace the element or property, or add it if it is missing
	existing              // replace the element or property, or fail if it is missing
)

// put writes value at path. It fails if the parent does not exist.
func (n *node) put(path []string, value json.RawMessage, putMode mode) error {
	parent, name, err := n.parent(path)
	if err != nil {
		return err
	}
	index := parent.find(name)
	m := member{name: name, value: &node{raw: value}}
	switch {
	case index >= 0 && parent.array && putMode == insert:
		parent.members = slices.Insert(parent.members, index, m)
	case index >= 0:
		parent.members[index] = m
	case putMode == existing:
		return fmt.Errorf("there is nothing to replace")
	case parent.array && name != "-" && name != strconv.Itoa(len(parent.members)):
		return fmt.Errorf("%q is not an index of an array of %d elements", name, len(parent.members))
	default:
		parent.members = append(parent.members, m)
	}
	return nil
}

// remove removes and returns the value at path. It fails if there is none.
func (n *node) remove(path []string) (*node, error) {
	parent, name, err := n.parent(path)
	if err != nil {
		return nil, err
	}
	index := parent.find(name)
	if index < 0 {
		return nil, fmt.Errorf("there is nothing to remove")
	}
	removed := parent.members[index].value
	parent.members = slices.Delete(parent.members, index, index+1)
	return removed, nil
}

// increment adds to the number at path, or writes addend there if there is none.
func (n *node) increment(path []string, addend json.RawMessage) error {
	parent, name, err := n.parent(path)
	if err != nil {
		return err
	}
	index := parent.find(name)
	if index < 0 {
		return n.put(path, addend, overwrite)
	}
	sum, err := add(parent.members[index].value.append(nil), addend)
	if err != nil {
		return err
	}
	return n.put(path, sum, existing)
}

// add sums two JSON numbers: exactly if both are whole and the sum fits 64 bits,
// else as doubles.
func add(a, b json.RawMessage) (json.RawMessage, error) {
	if x, errX := strconv.ParseInt(string(a), 10, 64); errX == nil {
		y, errY := strconv.ParseInt(string(b), 10, 64)
		if sum := x + y; errY == nil && (sum > x) == (y > 0) {
			return strconv.AppendInt(nil, sum, 10), nil
		}
	}
	x, err := parseNumber(a)
	if err != nil {
		return nil, fmt.Errorf("the value there is not a number")
	}
	y, err := parseNumber(b)
	if err != nil {
		return nil, err
	}
	sum := x + y
	if math.IsInf(sum, 0) {
		return nil, fmt.Errorf("the sum is outside the range of a double")
	}
	return json.Marshal(sum)
}

// parseNumber reads a JSON number. It fails if raw is another value, such as null.
func parseNumber(raw json.RawMessage) (float64, error) {
	var n *float64
	if err := json.Unmarshal(raw, &n); err != nil || n == nil {
		return 0, fmt.Errorf("%s is not a number", raw)
	}
	return *n, nil
}

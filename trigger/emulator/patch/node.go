package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// node is a JSON value of which only the containers on the way of an operation
// are taken apart.
type node struct {
	raw     json.RawMessage // the value's text, while members is nil
	array   bool            // whether members are elements
	members []member        // not nil once taken apart
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

// open takes a container apart. It reports whether n is one.
func (n *node) open() bool {
	if n.members != nil {
		return true
	}
	if n.raw[0] != '{' && n.raw[0] != '[' {
		return false
	}
	n.array, n.members = n.raw[0] == '[', []member{}
	d := json.NewDecoder(bytes.NewReader(n.raw))
	d.UseNumber()
	for _, _ = d.Token(); d.More(); { // n.raw is valid JSON: the decoder cannot fail
		var m member
		if !n.array {
			name, _ := d.Token()
			m.name, _ = name.(string)
		}
		m.value = new(node)
		_ = d.Decode(&m.value.raw)
		n.members = append(n.members, m)
	}
	return true
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

// find is the index of the member that a path segment names, -1 if there is none.
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

// parent is the container that holds the last segment of path.
func (n *node) parent(path []string) (*node, string, error) {
	for i, segment := range path {
		if !n.open() {
			return nil, "", fmt.Errorf("%q is neither an object nor an array", pointer(path[:i]))
		}
		if i == len(path)-1 {
			return n, segment, nil
		}
		at := n.find(segment)
		if at < 0 {
			return nil, "", fmt.Errorf("no path found beyond %q; parents are not created", pointer(path[:i+1]))
		}
		n = n.members[at].value
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

// Ways of putting a value where one may be.
type mode int

const (
	insert    mode = iota // into an array before the element, over a property
	overwrite             // over the element or property, else as a new one
	existing              // over the element or property, which must be there
)

// put writes value at path.
func (n *node) put(path []string, value json.RawMessage, how mode) error {
	parent, name, err := n.parent(path)
	if err != nil {
		return err
	}
	at := parent.find(name)
	m := member{name: name, value: &node{raw: value}}
	switch {
	case at >= 0 && parent.array && how == insert:
		parent.members = slices.Insert(parent.members, at, m)
	case at >= 0:
		parent.members[at] = m
	case how == existing:
		return fmt.Errorf("there is nothing to replace")
	case parent.array && name != "-" && name != strconv.Itoa(len(parent.members)):
		return fmt.Errorf("%q is no index of an array of %d elements", name, len(parent.members))
	default:
		parent.members = append(parent.members, m)
	}
	return nil
}

// remove takes the value at path out of its container.
func (n *node) remove(path []string) (*node, error) {
	parent, name, err := n.parent(path)
	if err != nil {
		return nil, err
	}
	at := parent.find(name)
	if at < 0 {
		return nil, fmt.Errorf("there is nothing to remove")
	}
	removed := parent.members[at].value
	parent.members = slices.Delete(parent.members, at, at+1)
	return removed, nil
}

// increment adds to the number at path, or writes it where there is none.
func (n *node) increment(path []string, by json.RawMessage) error {
	parent, name, err := n.parent(path)
	if err != nil {
		return err
	}
	at := parent.find(name)
	if at < 0 {
		return n.put(path, by, overwrite)
	}
	sum, err := add(parent.members[at].value.append(nil), by)
	if err != nil {
		return err
	}
	return n.put(path, sum, existing)
}

// add sums two JSON numbers: whole ones exactly, others as doubles.
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

// parseNumber reads a JSON number, refusing null and all else.
func parseNumber(raw json.RawMessage) (float64, error) {
	var n *float64
	if err := json.Unmarshal(raw, &n); err != nil || n == nil {
		return 0, fmt.Errorf("%s is not a number", raw)
	}
	return *n, nil
}

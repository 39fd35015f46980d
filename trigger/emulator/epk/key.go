package epk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Component is one value of a partition key: undefined, null, a bool, a number
// or a string. The zero value is [Undefined]. Components compare with ==.
type Component struct {
	marker byte
	number float64
	text   string
}

// Markers of the component types, PartitionKeyComponentType in
// azure-cosmos-dotnet-v3. They also begin the encoding of a component.
const (
	markUndefined = 0x00
	markNull      = 0x01
	markFalse     = 0x02
	markTrue      = 0x03
	markNumber    = 0x05
	markString    = 0x08
)

var (
	Undefined = Component{marker: markUndefined} // if the document lacks the property
	Null      = Component{marker: markNull}
	False     = Component{marker: markFalse}
	True      = Component{marker: markTrue}
)

// Number is the component of a JSON number. Negative zero is zero.
func Number(n float64) Component {
	return Component{marker: markNumber, number: n + 0}
}

// String is the component of a JSON string.
func String(s string) Component { return Component{marker: markString, text: s} }

// Key is the partition key value of an item, or a prefix of a hierarchical one.
type Key []Component

// ParseKey reads the x-ms-documentdb-partitionkey header: a JSON array in which
// {} stands for undefined. If the array is empty, so is the key.
func ParseKey(header string) (Key, error) {
	var values []json.RawMessage
	if err := json.Unmarshal([]byte(header), &values); err != nil {
		return nil, fmt.Errorf("partition key %q is not a JSON array: %w", header, err)
	}
	if values == nil {
		return nil, fmt.Errorf("partition key %q is not a JSON array", header)
	}
	key := make(Key, 0, len(values))
	for _, value := range values {
		c, err := parseComponent(value)
		if err != nil {
			return nil, fmt.Errorf("partition key %q: %w", header, err)
		}
		key = append(key, c)
	}
	return key, nil
}

// parseComponent reads one element of a partition key header.
func parseComponent(raw json.RawMessage) (Component, error) {
	if raw[0] == '{' && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0 {
		return Undefined, nil
	}
	if raw[0] == '{' || raw[0] == '[' {
		return Undefined, fmt.Errorf("%s is not a key value; use a string, number, bool, null or {} for undefined", raw)
	}
	return scalar(raw)
}

// scalar turns a JSON scalar into its component.
func scalar(raw json.RawMessage) (Component, error) {
	switch raw[0] {
	case 'n':
		return Null, nil
	case 'f':
		return False, nil
	case 't':
		return True, nil
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return String(s), err
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return Undefined, fmt.Errorf("number %s is outside the range of a double", raw)
	}
	return Number(n), nil
}

// Extract reads the key of a document. If a property is missing, an object or an
// array, its component is [Undefined], as the SDKs send it. Extract fails if the
// document is not a JSON object or a number is outside the range of a double.
func (d Definition) Extract(document []byte) (Key, error) {
	key := make(Key, 0, len(d.segments))
	for i, segments := range d.segments {
		c, err := extract(document, segments)
		if err != nil {
			return nil, fmt.Errorf("partition key path %s: %w", d.Paths[i], err)
		}
		key = append(key, c)
	}
	return key, nil
}

// extract follows property names into a JSON object. It returns Undefined if one
// of them is missing.
func extract(object []byte, names []string) (Component, error) {
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(object, &properties); err != nil {
		return Undefined, err
	}
	value, ok := properties[names[0]]
	switch {
	case !ok:
		return Undefined, nil
	case value[0] == '{' && len(names) > 1:
		return extract(value, names[1:])
	case value[0] == '{' || value[0] == '[' || len(names) > 1:
		return Undefined, nil
	}
	return scalar(value)
}

// Longest is the number of bytes of the longest string in the key.
func (k Key) Longest() int {
	n := 0
	for _, c := range k {
		n = max(n, len(c.text))
	}
	return n
}

// String returns the canonical header form: if keys are equal, so are their strings.
func (k Key) String() string {
	parts := make([]string, len(k))
	for i, c := range k {
		parts[i] = c.String()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// String returns the component as JSON, {} if it is undefined.
func (c Component) String() string {
	switch c.marker {
	case markUndefined:
		return "{}"
	case markNull:
		return "null"
	case markFalse:
		return "false"
	case markTrue:
		return "true"
	case markString:
		quoted, _ := json.Marshal(c.text) // a string always marshals
		return string(quoted)
	}
	return formatNumber(c.number)
}

// formatNumber prints a number as clients write it: without an exponent if it is
// whole and a double holds it exactly.
func formatNumber(n float64) string {
	if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}

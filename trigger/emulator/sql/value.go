package sql

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of a value. Kinds are in the order in which ORDER BY sorts
// values of different types.
type kind uint8

const (
	kindUndefined kind = iota
	kindNull
	kindBoolean
	kindNumber
	kindString
	kindArray
	kindObject
)

// value is the result of an expression. The zero value is undefined.
type value struct {
	kind   kind
	truth  bool
	number float64
	text   string
	raw    []byte // JSON text; always set for arrays and objects, else if it came from JSON
}

var (
	undefined = value{}
	null      = value{kind: kindNull}
)

func boolean(b bool) value { return value{kind: kindBoolean, truth: b} }

func text(s string) value { return value{kind: kindString, text: s} }

// number returns n, or undefined if JSON cannot express it: infinities and NaN.
func number(n float64) value {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return undefined
	}
	return value{kind: kindNumber, number: n}
}

func integer(n int) value { return number(float64(n)) }

// parseValue reads valid JSON. The value keeps raw.
func parseValue(raw []byte) value {
	if len(raw) == 0 {
		return undefined
	}
	switch raw[0] {
	case '{':
		return value{kind: kindObject, raw: raw}
	case '[':
		return value{kind: kindArray, raw: raw}
	case '"':
		return value{kind: kindString, text: unquote(raw), raw: raw}
	case 't', 'f':
		return boolean(raw[0] == 't')
	case 'n':
		return null
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && math.IsInf(n, 0) {
		n = math.Copysign(math.MaxFloat64, n)
	}
	return value{kind: kindNumber, number: n, raw: raw}
}

// parseText reads JSON. It returns false if s is not valid JSON.
func parseText(s string) (value, bool) {
	raw := bytes.TrimSpace([]byte(s))
	if !json.Valid(raw) {
		return undefined, false
	}
	return parseValue(raw), true
}

func (v value) defined() bool { return v.kind != kindUndefined }

// primitive reports whether v is null, a boolean, a number or a string.
func (v value) primitive() bool { return v.kind >= kindNull && v.kind <= kindString }

// isTrue reports whether v is the boolean true.
func (v value) isTrue() bool { return v.kind == kindBoolean && v.truth }

// integer returns v if it is a whole number of 64 bits.
func (v value) integer() (int64, bool) {
	if v.kind != kindNumber {
		return 0, false
	}
	if exact, err := strconv.ParseInt(string(v.raw), 10, 64); err == nil {
		return exact, true
	}
	n := v.number
	ok := n == math.Trunc(n) && n >= math.MinInt64 && n < math.MaxInt64
	if !ok {
		return 0, false
	}
	return int64(n), true
}

// append writes v as JSON, in its original text if it has one.
func (v value) append(b []byte) []byte {
	if v.raw != nil {
		return append(b, v.raw...)
	}
	switch v.kind {
	case kindBoolean:
		return strconv.AppendBool(b, v.truth)
	case kindNumber:
		return appendNumber(b, v.number)
	case kindString:
		return appendQuoted(b, v.text)
	}
	return append(b, "null"...)
}

// json is v as JSON; the text of a document is not copied.
func (v value) json() json.RawMessage {
	if v.raw != nil {
		return v.raw
	}
	return v.append(nil)
}

func appendNumber(b []byte, n float64) []byte {
	if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return strconv.AppendInt(b, int64(n), 10)
	}
	return strconv.AppendFloat(b, n, 'g', -1, 64)
}

// array makes an array of the defined values.
func array(values []value) value {
	b := []byte{'['}
	for _, v := range values {
		if !v.defined() {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = v.append(b)
	}
	return value{kind: kindArray, raw: append(b, ']')}
}

// items are the elements of an array.
func (v value) items() []value {
	var items []value
	for raw := range elements(v.raw) {
		items = append(items, parseValue(raw))
	}
	return items
}

// property is v[name], undefined unless v is an object that has it.
func (v value) property(name string) value {
	if v.kind != kindObject {
		return undefined
	}
	return lookup(v.raw, name)
}

// element is v[i], undefined unless v is an array that has it.
func (v value) element(i int64) value {
	if v.kind != kindArray || i < 0 {
		return undefined
	}
	for raw := range elements(v.raw) {
		if i == 0 {
			return parseValue(raw)
		}
		i--
	}
	return undefined
}

// compare orders any two values: by type, then by value. Arrays compare element
// by element, objects by their canonical text.
func compare(a, b value) int {
	if c := cmp.Compare(a.kind, b.kind); c != 0 {
		return c
	}
	switch a.kind {
	case kindBoolean:
		return cmp.Compare(rank(a.truth), rank(b.truth))
	case kindNumber:
		return compareNumbers(a, b)
	case kindString:
		return strings.Compare(a.text, b.text)
	case kindArray:
		return slices.CompareFunc(a.items(), b.items(), compare)
	case kindObject:
		return bytes.Compare(a.canonical(nil), b.canonical(nil))
	}
	return 0
}

// compareNumbers compares numbers as doubles. If these are equal but too large to be
// exact, it compares whole numbers by their text.
func compareNumbers(a, b value) int {
	if a.number != b.number || math.Abs(a.number) < 1<<53 {
		return cmp.Compare(a.number, b.number)
	}
	x, okX := a.integer()
	y, okY := b.integer()
	if !okX || !okY {
		return 0
	}
	return cmp.Compare(x, y)
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// equal reports whether two values are deeply equal. Objects are even if their
// properties are in different orders.
func equal(a, b value) bool {
	if a.kind != b.kind {
		return false
	}
	if a.kind < kindArray {
		return compare(a, b) == 0
	}
	return bytes.Equal(a.canonical(nil), b.canonical(nil))
}

// canonical appends text that is the same if and only if values are equal. Undefined
// has a text, too.
func (v value) canonical(b []byte) []byte {
	switch v.kind {
	case kindUndefined:
		return append(b, '?')
	case kindString:
		return appendQuoted(b, v.text)
	case kindNumber:
		if n, ok := v.integer(); ok {
			return strconv.AppendInt(b, n, 10)
		}
		return appendNumber(b, v.number)
	case kindArray:
		return v.canonicalArray(b)
	case kindObject:
		return v.canonicalObject(b)
	}
	return v.append(b)
}

func (v value) canonicalArray(b []byte) []byte {
	b = append(b, '[')
	for raw := range elements(v.raw) {
		b = append(parseValue(raw).canonical(b), ',')
	}
	return append(b, ']')
}

func (v value) canonicalObject(b []byte) []byte {
	var properties []string
	for name, raw := range members(v.raw) {
		p := append(appendQuoted(nil, unquote(name)), ':')
		properties = append(properties, string(parseValue(raw).canonical(p)))
	}
	slices.Sort(properties)
	b = append(b, '{')
	for _, p := range properties {
		b = append(append(b, p...), ',')
	}
	return append(b, '}')
}

// exact is a whole number that keeps all its digits.
func exact(n int64) value {
	return value{kind: kindNumber, number: float64(n), raw: strconv.AppendInt(nil, n, 10)}
}

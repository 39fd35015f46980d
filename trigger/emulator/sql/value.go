package sql

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"halley/trigger/emulator/jsonform"
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

// parseValue reads valid JSON without space around it. The value keeps raw.
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

// maxNesting is how many arrays and objects may lie in each other, as in documents.
// Reading a part of a value takes time proportional to its depth.
const maxNesting = 128

// parseText reads JSON. It returns false if s is not valid JSON or nests too deeply.
func parseText(s string) (value, bool) {
	raw := bytes.TrimSpace([]byte(s))
	if depth(raw) > maxNesting || !json.Valid(raw) {
		return undefined, false
	}
	return parseValue(raw), true
}

// size is about how many bytes of text the value has.
func (v value) size() int { return max(len(v.text), len(v.raw)) }

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
		return jsonform.AppendNumber(b, v.number)
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

// read is parseValue for a part of a larger value.
func (r *run) read(raw []byte) value {
	v := parseValue(raw)
	if v.kind == kindString && !r.produceAll(len(v.text)) {
		return undefined
	}
	return v
}

// property is v[name], undefined unless v is an object that has it.
func (r *run) property(v value, name string) value {
	if v.kind != kindObject {
		return undefined
	}
	raw, passed := lookup(v.raw, name)
	if !r.spend(expressionWork + passed) {
		return undefined
	}
	return r.read(raw)
}

// element is v[i], undefined unless v is an array that has it.
func (r *run) element(v value, i int64) value {
	if v.kind != kindArray || i < 0 {
		return undefined
	}
	passed := 0
	for raw := range elements(v.raw) {
		passed += len(raw) + 1
		if i == 0 {
			r.spend(expressionWork + passed)
			return r.read(raw)
		}
		i--
	}
	r.spend(expressionWork + passed)
	return undefined
}

// compare orders any two values: by type, then by value. Arrays compare element
// by element, objects by their canonical text.
func (r *run) compare(a, b value) int {
	if c := cmp.Compare(a.kind, b.kind); c != 0 || !r.spend(min(a.size(), b.size())) {
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
		return r.compareArrays(a, b)
	case kindObject:
		return bytes.Compare(r.canonical(nil, a), r.canonical(nil, b))
	}
	return 0
}

func (r *run) compareArrays(a, b value) int {
	x, i := nextElement(a.raw, 1)
	y, j := nextElement(b.raw, 1)
	for x != nil && y != nil && r.spend(expressionWork) {
		if c := r.compare(parseValue(x), parseValue(y)); c != 0 {
			return c
		}
		x, i = nextElement(a.raw, i)
		y, j = nextElement(b.raw, j)
	}
	return rank(x != nil) - rank(y != nil)
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
func (r *run) equal(a, b value) bool {
	if a.kind != b.kind {
		return false
	}
	if a.kind < kindArray {
		return r.compare(a, b) == 0
	}
	return bytes.Equal(r.canonical(nil, a), r.canonical(nil, b))
}

// canonical appends text that is the same if and only if values are equal. Undefined
// has a text, too.
func (r *run) canonical(b []byte, v value) []byte {
	if !r.spend(2*expressionWork + v.size()) {
		return b
	}
	switch v.kind {
	case kindUndefined:
		return append(b, '?')
	case kindString:
		return appendQuoted(b, v.text)
	case kindNumber:
		if n, ok := v.integer(); ok {
			return strconv.AppendInt(b, n, 10)
		}
		return jsonform.AppendNumber(b, v.number)
	case kindArray:
		return r.canonicalArray(b, v)
	case kindObject:
		return r.canonicalObject(b, v)
	}
	return v.append(b)
}

func (r *run) canonicalArray(b []byte, v value) []byte {
	b = append(b, '[')
	for raw := range elements(v.raw) {
		b = append(r.canonical(b, parseValue(raw)), ',')
	}
	return append(b, ']')
}

func (r *run) canonicalObject(b []byte, v value) []byte {
	var properties []string
	for name, raw := range members(v.raw) {
		p := append(appendQuoted(nil, unquote(name)), ':')
		properties = append(properties, string(r.canonical(p, parseValue(raw))))
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

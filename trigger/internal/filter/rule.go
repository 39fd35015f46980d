package filter

import "bytes"

// scalarValue is a text, a number, true, false or null of a document. Its bytes are the
// document's.
type scalarValue struct {
	valueKind valueKind
	rawBytes  []byte // of a text without its quotes
}

type valueKind int8

const (
	literalValue valueKind = iota // true, false or null
	numberValue
	textValue
	escapedText // a text with escapes
)

// valueAt returns the value at i, and the index after it.
func valueAt(b []byte, i int) (v scalarValue, end int) {
	switch b[i] {
	case '"':
		quote := closingQuote(b, i+1)
		if quote == notJSON {
			return v, notJSON
		}
		v = scalarValue{textValue, b[i+1 : quote]}
		if bytes.IndexByte(v.rawBytes, '\\') >= 0 {
			v.valueKind = escapedText
		}
		return v, quote + 1
	case 't', 'f', 'n':
	default:
		v.valueKind = numberValue
	}
	if end = skipScalar(b, i); end != notJSON {
		v.rawBytes = b[i:end]
	}
	return v, end
}

// valueRule is a rule about one value.
type valueRule struct {
	ruleKind     ruleKind
	text         string        // of literals and texts
	numberLimits []numberLimit // of numbers: all must hold
	excluded     []valueRule   // of anything-but: none may match

	holdsReplacement bool // the text has U+FFFD, to which bytes that are no character are decoded
}

type ruleKind int8

const (
	isLiteral ruleKind = iota
	isText
	hasPrefix
	hasSuffix
	foldsTo // equals-ignore-case
	isNumber
	isNoneOf // anything-but
)

// numberLimit compares a number with a limit.
type numberLimit struct {
	limit                   decimalNumber
	smaller, equal, greater bool // which of them hold
}

func (c *numberLimit) holds(d *decimalNumber) bool {
	switch sign := d.compare(&c.limit); {
	case sign < 0:
		return c.smaller
	case sign > 0:
		return c.greater
	}
	return c.equal
}

func (r *valueRule) matches(v scalarValue) bool {
	switch r.ruleKind {
	case isLiteral:
		return v.valueKind == literalValue && string(v.rawBytes) == r.text
	case isNumber:
		return v.valueKind == numberValue && r.comparesWith(v.rawBytes)
	case isNoneOf:
		for i := range r.excluded {
			if r.excluded[i].matches(v) {
				return false
			}
		}
		return true
	}
	return (v.valueKind == textValue || v.valueKind == escapedText) && r.matchesText(v)
}

// comparesWith reports whether all numberLimits with a number hold.
func (r *valueRule) comparesWith(number []byte) bool {
	d, ok := parseDecimal(number)
	for i := range r.numberLimits {
		if ok = ok && r.numberLimits[i].holds(&d); !ok {
			return false
		}
	}
	return ok
}

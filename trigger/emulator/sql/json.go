package sql

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// This file reads values out of JSON text without decoding the rest. The text is
// valid JSON: documents are checked when they are stored, parameters when a query
// is run.

// skipSpace is the index of the first byte at or after i that is not space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue is the index after the value that begins at i.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipContainer(b, i)
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func skipContainer(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

// members iterates over the properties of an object: quoted name and value.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := skipSpace(object, 1); i < len(object) && object[i] == '"'; {
			nameEnd := skipString(object, i)
			name := object[i:nameEnd]
			i = skipSpace(object, skipSpace(object, nameEnd)+1) // over the colon
			end := skipValue(object, i)
			if i > end || !yield(name, object[i:end]) {
				return
			}
			i = skipSpace(object, skipSpace(object, end)+1) // over the comma
		}
	}
}

// elements iterates over the elements of an array.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for raw, i := nextElement(array, 1); raw != nil && yield(raw); {
			raw, i = nextElement(array, i)
		}
	}
}

// nextElement returns the element of an array at or after byte i, nil if there is
// none, and the byte from which to look for the one after it.
func nextElement(array []byte, i int) (raw []byte, next int) {
	i = skipSpace(array, i)
	if i >= len(array) || array[i] == ']' {
		return nil, i
	}
	end := skipValue(array, i)
	if end <= i {
		return nil, i
	}
	return array[i:end], skipSpace(array, end) + 1
}

// lookup returns the value of a property of an object, nil if it is missing, and
// about how many bytes were passed until it was found.
func lookup(object []byte, name string) (raw []byte, passed int) {
	for quoted, v := range members(object) {
		passed += len(quoted) + len(v) + 2
		if sameName(quoted, name) {
			return v, passed
		}
	}
	return nil, passed
}

// depth is how many arrays and objects of a JSON text lie in each other.
func depth(b []byte) int {
	open, deepest := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
	}
	return deepest
}

// sameName reports whether a quoted JSON string says name.
func sameName(quoted []byte, name string) bool {
	inner := quoted[1 : len(quoted)-1]
	return string(inner) == name || bytes.IndexByte(inner, '\\') >= 0 && unquote(quoted) == name
}

// unquote decodes a JSON string.
func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // valid JSON
	return s
}

const hexDigits = "0123456789abcdef"

// appendQuoted encodes a JSON string. A character is escaped only if it must be.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

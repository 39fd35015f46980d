package filter

import "bytes"

// The functions of this file find their way through a JSON text. They check no more
// than they need: the caller has split the page, so strings end and brackets are closed.
// An index may be that of the end of the text.

// notJSON is the index that stands for a text that is not JSON.
const notJSON = -1

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	return i
}

// byteAt returns the byte at i, or 0, which is not JSON, behind the end.
func byteAt(b []byte, i int) byte {
	if i >= len(b) {
		return 0
	}
	return b[i]
}

// skipValue returns the index after the value at i.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return notJSON
	}
	switch b[i] {
	case '"':
		if end := closingQuote(b, i+1); end != notJSON {
			return end + 1
		}
		return notJSON
	case '{', '[':
		return skipBrackets(b, i)
	}
	return skipScalar(b, i)
}

// skipScalar returns the index after the number or literal at i.
func skipScalar(b []byte, i int) int {
	for from := i; i < len(b); i++ {
		if c := b[i]; c == ',' || c == '}' || c == ']' || c <= ' ' {
			if i == from {
				return notJSON
			}
			return i
		}
	}
	return notJSON
}

// skipBrackets returns the index after the object or array at i.
func skipBrackets(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = closingQuote(b, i+1); i == notJSON {
				return notJSON
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return notJSON
}

// closingQuote returns the index of the quote that ends the string whose text begins
// at i.
func closingQuote(b []byte, i int) int {
	for from := i; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return notJSON
		}
		if i += n; i == from || b[i-1] != '\\' {
			return i
		}
		slashes := 0
		for i-slashes > from && b[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// nameEnd returns the index of the quote that ends the name whose text begins at i, and
// whether the name has escapes.
func nameEnd(b []byte, i int) (end int, escaped bool) {
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i, false
		case '\\':
			return closingQuote(b, i), true
		}
	}
	return notJSON, false
}

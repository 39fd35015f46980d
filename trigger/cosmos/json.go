package cosmos

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf8"
)

// text is JSON text (RFC 8259). Its methods and the functions of this file skip a part of it and
// check its grammar and its UTF-8, but decode nothing. Each begins at an index of b and returns
// the index after the part. If the part is not JSON, it returns the complement of the index of the
// first wrong byte, which is len(b) or more if the text is truncated.
type text struct {
	b []byte
	marks
}

// tooDeep is returned for text that nests deeper than maxDepth.
const tooDeep = math.MinInt

// maxDepth is the limit of encoding/json. Cosmos DB itself stores 128 levels.
const maxDepth = 10000

// skipValue skips a value that is inside depth others. If it is an object, it shows its
// properties to found, which may be nil.
func (t *text) skipValue(i, depth int, found *foundProperties) int {
	b := t.b
	if i >= len(b) {
		return ^i
	}
	switch b[i] {
	case '"':
		return t.skipString(i + 1)
	case '{':
		return t.skipObject(i+1, depth+1, found)
	case '[':
		return t.skipArray(i+1, depth+1)
	case 't':
		return skipLiteral(b, i, "true")
	case 'f':
		return skipLiteral(b, i, "false")
	case 'n':
		return skipLiteral(b, i, "null")
	}
	return skipNumber(b, i)
}

// skipObject skips an object after its opening brace.
func (t *text) skipObject(i, depth int, found *foundProperties) int {
	b := t.b
	if depth > maxDepth {
		return tooDeep
	}
	if i = skipSpace(b, i); byteAt(b, i) == '}' {
		return i + 1
	}
	for {
		if byteAt(b, i) != '"' {
			return ^i
		}
		name := i + 1
		nameEnd, value, end := t.skipPlainProperty(name)
		isPlain := nameEnd >= 0
		if !isPlain {
			if nameEnd, value = t.skipName(name); value < 0 {
				return value
			}
		}
		if end < 0 {
			if end = t.skipValue(value, depth, nil); end < 0 {
				return end
			}
		}
		if found != nil && (!isPlain || found.mayBe(nameEnd-name)) {
			found.property(b[name:nameEnd], b[value:end], value, isPlain)
		}
		if i = end; i+1 < len(b) && b[i] == ',' && b[i+1] == '"' {
			i++
			continue
		}
		i = skipSpace(b, i)
		switch byteAt(b, i) {
		case ',':
			i = skipSpace(b, i+1)
		case '}':
			return i + 1
		default:
			return ^i
		}
	}
}

// skipPlainProperty skips the most frequent form of a property after the opening quote of its name
// with few looks at the text: it has no space, the name is plain and short, and so is the value if it
// is a string. nameEnd and end are negative if the text up to there has another form.
func (t *text) skipPlainProperty(name int) (nameEnd, value, end int) {
	marks := t.marksFrom(name)
	nameEnd = name + bits.TrailingZeros64(marks)
	if marks == 0 || nameEnd+4 > len(t.b) {
		return -1, 0, -1
	}
	w := word32(t.b, nameEnd)
	if uint16(w) != quoteColon || byte(w>>16) <= ' ' {
		return -1, 0, -1
	}
	value = nameEnd + 2
	marks &= marks - 1
	marks &= marks - 1 // the opening quote of the value has had the second mark
	end = name + bits.TrailingZeros64(marks)
	if byte(w>>16) != '"' || marks == 0 || byteAt(t.b, end) != '"' {
		return nameEnd, value, -1
	}
	return nameEnd, value, end + 1
}

// quoteColon is the end of a name and a colon, little-endian.
const quoteColon = '"' | ':'<<8

// word32 returns four bytes, little-endian.
func word32(b []byte, i int) uint32 {
	_ = b[i+3]
	return uint32(b[i]) | uint32(b[i+1])<<8 | uint32(b[i+2])<<16 | uint32(b[i+3])<<24
}

// skipName skips a name after its opening quote, and the colon that follows. It returns the index of
// the closing quote, and that of the value.
func (t *text) skipName(i int) (end, value int) {
	i = t.skipString(i)
	if i < 0 {
		return i, i
	}
	colon := skipSpace(t.b, i)
	if byteAt(t.b, colon) != ':' {
		return ^colon, ^colon
	}
	return i - 1, skipSpace(t.b, colon+1)
}

// skipArray skips an array after its opening bracket.
func (t *text) skipArray(i, depth int) int {
	b := t.b
	if depth > maxDepth {
		return tooDeep
	}
	if i = skipSpace(b, i); byteAt(b, i) == ']' {
		return i + 1
	}
	for {
		if i = t.skipValue(i, depth, nil); i < 0 {
			return i
		}
		i = skipSpace(b, i)
		switch byteAt(b, i) {
		case ',':
			i = skipSpace(b, i+1)
		case ']':
			return i + 1
		default:
			return ^i
		}
	}
}

// byteAt returns the byte at an index, or 0, which is not JSON, behind the end.
func byteAt(b []byte, i int) byte {
	if i >= len(b) {
		return 0
	}
	return b[i]
}

func skipLiteral(b []byte, i int, literal string) int {
	for j := range len(literal) {
		if i+j >= len(b) || b[i+j] != literal[j] {
			return ^(i + j)
		}
	}
	return i + len(literal)
}

func skipNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = skipDigits(b, i); i < 0 {
		return i
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return i
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits skips one digit or more.
func skipDigits(b []byte, i int) int {
	from := i
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		if w&0xF0F0F0F0F0F0F0F0 != 0x3030303030303030 || (w+0x0606060606060606)&0xF0F0F0F0F0F0F0F0 != 0x3030303030303030 {
			break
		}
		i += 8
	}
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return ^i
	}
	return i
}

// skipString skips the text of a string and its closing quote.
func (t *text) skipString(i int) int {
	if i = t.skipPlain(i); byteAt(t.b, i) == '"' {
		return i + 1
	}
	return t.skipOther(i)
}

// skipPlain skips plain bytes.
func (t *text) skipPlain(i int) int {
	for {
		if !t.has(i) {
			t.mark(t.b, i)
		}
		if marks := t.marksFrom(i); marks != 0 {
			return i + bits.TrailingZeros64(marks)
		}
		i = i&^7 + 64
	}
}

// skipOther is skipString from a byte on that is not plain.
func (t *text) skipOther(i int) int {
	for i < len(t.b) {
		switch c := t.b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i = skipEscape(t.b, i+1)
		case c < ' ':
			return ^i
		default:
			i = skipRunes(t.b, i)
		}
		if i < 0 {
			return i
		}
		i = t.skipPlain(i)
	}
	return ^i
}

// skipEscape skips an escape sequence after its backslash.
func skipEscape(b []byte, i int) int {
	if i >= len(b) {
		return ^i
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		for range 4 {
			if i++; i >= len(b) || !isHex(b[i]) {
				return ^i
			}
		}
		return i + 1
	}
	return ^i
}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20-'a' < 6 }

// skipRunes skips characters that are not ASCII.
func skipRunes(b []byte, i int) int {
	for i < len(b) && b[i] >= utf8.RuneSelf {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			if !utf8.FullRune(b[i:]) {
				return ^len(b)
			}
			return ^i
		}
		i += n
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

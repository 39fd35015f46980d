package cosmos

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf8"
)

// The functions of this file skip JSON text (RFC 8259) and check its grammar and its
// UTF-8, but decode nothing. Each begins at an index of b and returns the index after
// the text. If the text is not JSON, it returns the complement of the index of the
// first wrong byte, which is len(b) or more if the text is truncated.

// tooDeep is returned for text that nests deeper than maxDepth.
const tooDeep = math.MinInt

// maxDepth is the limit of encoding/json. Cosmos DB itself stores 128 levels.
const maxDepth = 10000

// skipValue skips a value that is inside depth others. If it is an object, it shows its
// properties to found, which may be nil.
func skipValue(b []byte, i, depth int, found *foundProperties) int {
	if i >= len(b) {
		return ^i
	}
	switch b[i] {
	case '"':
		return skipString(b, i+1)
	case '{':
		return skipObject(b, i+1, depth+1, found)
	case '[':
		return skipArray(b, i+1, depth+1)
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
func skipObject(b []byte, i, depth int, found *foundProperties) int {
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
		nameEnd := skipString(b, name)
		if nameEnd < 0 {
			return nameEnd
		}
		if i = skipSpace(b, nameEnd); byteAt(b, i) != ':' {
			return ^i
		}
		value := skipSpace(b, i+1)
		if i = skipValue(b, value, depth, nil); i < 0 {
			return i
		}
		if found != nil {
			found.property(b[name:nameEnd-1], b[value:i:i])
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

// skipArray skips an array after its opening bracket.
func skipArray(b []byte, i, depth int) int {
	if depth > maxDepth {
		return tooDeep
	}
	if i = skipSpace(b, i); byteAt(b, i) == ']' {
		return i + 1
	}
	for {
		if i = skipValue(b, i, depth, nil); i < 0 {
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
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return ^i
	}
	return i
}

// skipString skips the text of a string and its closing quote.
func skipString(b []byte, i int) int {
	for {
		if i = skipPlain(b, i); i >= len(b) {
			return ^i
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i = skipEscape(b, i+1)
		case c < ' ':
			return ^i
		default:
			i = skipRunes(b, i)
		}
		if i < 0 {
			return i
		}
	}
}

// skipPlainWords skips bytes of a string that are ASCII and neither a quote, a backslash
// nor a control character, eight at a time.
func skipPlainWords(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		if n := plainBytes(binary.LittleEndian.Uint64(b[i:])); n < 8 {
			return i + n
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// plainBytes returns how many of the first bytes of a little-endian word are ASCII
// and neither a quote, a backslash nor a control character. The expressions are those
// of Bit Twiddling Hacks ("Determine if a word has a zero byte", "has a byte less than
// n"): bytes above the first that matches may match wrongly.
func plainBytes(w uint64) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^(each*'"'), w^(each*'\\')
	match := ((quote-each)&^quote | (backslash-each)&^backslash | (w-each*' ')&^w | w) & high
	return bits.TrailingZeros64(match) / 8
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

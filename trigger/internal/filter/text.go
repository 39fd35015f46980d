package filter

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// matchesText applies a rule about texts.
func (r *valueRule) matchesText(v scalarValue) bool {
	if v.valueKind == textValue && !r.holdsReplacement { // bytes are equal if and only if the texts are
		switch n := len(v.rawBytes) - len(r.text); r.ruleKind {
		case isText:
			return string(v.rawBytes) == r.text
		case hasPrefix:
			return n >= 0 && string(v.rawBytes[:len(r.text)]) == r.text
		case hasSuffix:
			return n >= 0 && string(v.rawBytes[n:]) == r.text
		}
	}
	switch r.ruleKind {
	case isText:
		return sameText(v.rawBytes, r.text, sameRune)
	case hasPrefix:
		_, ok := cutPrefix(v.rawBytes, r.text, sameRune)
		return ok
	case hasSuffix:
		tail, ok := lastRunes(v.rawBytes, utf8.RuneCountInString(r.text))
		return ok && sameText(tail, r.text, sameRune)
	}
	return sameText(v.rawBytes, r.text, foldedRune)
}

// sameText reports whether a string of a document, without its quotes, is decoded to the
// text.
func sameText(raw []byte, text string, same func(a, b rune) bool) bool {
	remainder, ok := cutPrefix(raw, text, same)
	return ok && len(remainder) == 0
}

// cutPrefix returns the rest of a string after the text, and whether it begins with it.
func cutPrefix(raw []byte, text string, same func(a, b rune) bool) (remainder []byte, ok bool) {
	for _, want := range text {
		if len(raw) == 0 {
			return raw, false
		}
		r, size := decodeRune(raw)
		if !same(r, want) {
			return raw, false
		}
		raw = raw[size:]
	}
	return raw, true
}

// lastRunes returns the end of a string that is decoded to that many characters.
func lastRunes(raw []byte, count int) (end []byte, ok bool) {
	all := 0
	for i := 0; i < len(raw); all++ {
		_, size := decodeRune(raw[i:])
		i += size
	}
	for ; all > count; all-- {
		_, size := decodeRune(raw)
		raw = raw[size:]
	}
	return raw, all == count
}

func sameRune(a, b rune) bool { return a == b }

// foldedRune reports whether two characters are equal without regard to case, as in
// [strings.EqualFold].
func foldedRune(a, b rune) bool {
	for r := unicode.SimpleFold(a); r != a; r = unicode.SimpleFold(r) {
		if r == b {
			return true
		}
	}
	return a == b
}

// decodeRune returns the first character of a string that is not empty, and its size in
// bytes. As in encoding/json, bytes and surrogates that are no character are U+FFFD.
func decodeRune(raw []byte) (r rune, size int) {
	if raw[0] != '\\' || len(raw) == 1 {
		return utf8.DecodeRune(raw)
	}
	if raw[1] == 'u' {
		return decodeEscape(raw)
	}
	if i := strings.IndexByte("bfnrt", raw[1]); i >= 0 {
		return rune("\b\f\n\r\t"[i]), 2
	}
	return rune(raw[1]), 2
}

// decodeEscape decodes \uXXXX, or two of them that are a pair of surrogates.
func decodeEscape(raw []byte) (r rune, size int) {
	first := hexRune(raw)
	if !utf16.IsSurrogate(first) {
		return first, min(6, len(raw))
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if r = utf16.DecodeRune(first, hexRune(raw[6:])); r != unicode.ReplacementChar {
			return r, 12
		}
	}
	return unicode.ReplacementChar, min(6, len(raw))
}

// hexRune decodes the digits of \uXXXX.
func hexRune(raw []byte) rune {
	if len(raw) < 6 {
		return unicode.ReplacementChar
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return unicode.ReplacementChar
	}
	return rune(n)
}

package sql

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxReplicate is the longest result of REPLICATE,
// BuiltinFunctionEvaluator in azure-cosmos-dotnet-v3.
const maxReplicate = 10_000

// Positions and lengths in strings count characters (Unicode code points).
var stringFunctions = map[string]*function{
	"CONTAINS":     matching(strings.Contains),
	"STARTSWITH":   matching(strings.HasPrefix),
	"ENDSWITH":     matching(strings.HasSuffix),
	"STRINGEQUALS": matching(func(x, y string) bool { return x == y }),
	"REGEXMATCH":   {2, 3, false, regexMatch},
	"CONCAT":       ofRun(2, -1, concatAll),
	"INDEX_OF":     ofAny(2, 3, indexOf),
	"LENGTH":       ofString(func(s string) value { return integer(utf8.RuneCountInString(s)) }),
	"LOWER":        ofString(func(s string) value { return text(strings.ToLower(s)) }),
	"UPPER":        ofString(func(s string) value { return text(strings.ToUpper(s)) }),
	"REVERSE":      ofString(reverse),
	"LEFT": ofAny(2, 2, func(a []value) value {
		return substring(a[0], integer(0), a[1])
	}),
	"RIGHT":       ofAny(2, 2, right),
	"SUBSTRING":   ofAny(3, 3, func(a []value) value { return substring(a[0], a[1], a[2]) }),
	"REPLACE":     ofRun(3, 3, replace),
	"REPLICATE":   ofAny(2, 2, replicate),
	"TRIM":        trimming(strings.TrimSpace, strings.Trim),
	"LTRIM":       trimming(func(s string) string { return strings.TrimLeft(s, spaces) }, strings.TrimLeft),
	"RTRIM":       trimming(func(s string) string { return strings.TrimRight(s, spaces) }, strings.TrimRight),
	"LASTINDEXOF": ofAny(2, 3, lastIndexOf),

	"SUBSTRINGAFTER":      cutting(strings.Index, true),
	"SUBSTRINGBEFORE":     cutting(strings.Index, false),
	"LASTSUBSTRINGAFTER":  cutting(strings.LastIndex, true),
	"LASTSUBSTRINGBEFORE": cutting(strings.LastIndex, false),

	"STRINGJOIN":  ofRun(2, 2, stringJoin),
	"STRINGSPLIT": ofRun(2, 2, stringSplit),
}

const spaces = " \t\r\n\v\f"

// matching is a predicate on two strings; true as third argument ignores case.
func matching(f func(x, y string) bool) *function {
	return ofAny(2, 3, func(a []value) value {
		if !all(kindString, a[:2]) || len(a) == 3 && a[2].kind != kindBoolean {
			return undefined
		}
		if len(a) == 3 && a[2].truth {
			return boolean(f(fold(a[0].text), fold(a[1].text)))
		}
		return boolean(f(a[0].text, a[1].text))
	})
}

func ofString(f func(string) value) *function {
	return of1(func(v value) value {
		if v.kind != kindString {
			return undefined
		}
		return f(v.text)
	})
}

func concatAll(r *run, a []value) value {
	length := 0
	for _, v := range a {
		length += len(v.text)
	}
	if !all(kindString, a) || !r.fits(length) {
		return undefined
	}
	var b strings.Builder
	b.Grow(length)
	for _, v := range a {
		b.WriteString(v.text)
	}
	return text(b.String())
}

// indexOf returns the position of the first match, at or after a start if one is
// given.
func indexOf(a []value) value {
	if !all(kindString, a[:2]) {
		return undefined
	}
	skipped, start := 0, a[0].text
	if len(a) == 3 {
		n, ok := a[2].integer()
		if !ok {
			return undefined
		}
		skipped = clamp(n, utf8.RuneCountInString(start))
		start = slice(start, skipped, len(start))
	}
	match := strings.Index(start, a[1].text)
	if match < 0 {
		return integer(-1)
	}
	return integer(skipped + utf8.RuneCountInString(start[:match]))
}

// lastIndexOf returns the position of the last match that ends at or before a position,
// the end of the string if none is given.
func lastIndexOf(a []value) value {
	if !all(kindString, a[:2]) {
		return undefined
	}
	searched := a[0].text
	if len(a) == 3 {
		n, ok := a[2].integer()
		if !ok {
			return undefined
		}
		searched = slice(searched, 0, clamp(n, len(searched))+rank(n >= 0))
	}
	match := strings.LastIndex(searched, a[1].text)
	if match < 0 {
		return integer(-1)
	}
	return integer(utf8.RuneCountInString(searched[:match]))
}

// cutting is a function that returns the text after or before a delimiter, undefined
// if the text does not have it.
func cutting(find func(s, part string) int, wantsSuffix bool) *function {
	return ofAny(2, 2, func(a []value) value {
		if !all(kindString, a) {
			return undefined
		}
		s, delimiter := a[0].text, a[1].text
		match := find(s, delimiter)
		switch {
		case match < 0:
			return undefined
		case wantsSuffix:
			return text(s[match+len(delimiter):])
		}
		return text(s[:match])
	})
}

// clamp brings n into [0, limit].
func clamp(n int64, limit int) int { return int(min(max(n, 0), int64(limit))) }

// slice returns count characters of s from number start on, or fewer if s ends.
func slice(s string, start, count int) string {
	for ; start > 0 && s != ""; start-- {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	end := 0
	for ; count > 0 && end < len(s); count-- {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end]
}

// substring returns "" if the start is outside of the string.
func substring(s, start, length value) value {
	from, okFrom := start.integer()
	n, okLength := length.integer()
	switch {
	case s.kind != kindString || !okFrom || !okLength:
		return undefined
	case from < 0 || n <= 0:
		return text("")
	}
	return text(slice(s.text, clamp(from, len(s.text)), clamp(n, len(s.text))))
}

func right(a []value) value {
	n, ok := a[1].integer()
	if a[0].kind != kindString || !ok {
		return undefined
	}
	length := utf8.RuneCountInString(a[0].text)
	return text(slice(a[0].text, length-clamp(n, length), length))
}

// replace returns undefined if the text to replace is empty.
func replace(r *run, a []value) value {
	if !all(kindString, a) || a[1].text == "" {
		return undefined
	}
	found := strings.Count(a[0].text, a[1].text)
	if !r.fits(len(a[0].text) + found*(len(a[2].text)-len(a[1].text))) {
		return undefined
	}
	return text(strings.ReplaceAll(a[0].text, a[1].text, a[2].text))
}

func replicate(a []value) value {
	n, ok := a[1].integer()
	if a[0].kind != kindString || !ok || n < 0 || n > maxReplicate || len(a[0].text)*int(n) > maxReplicate {
		return undefined
	}
	return text(strings.Repeat(a[0].text, int(n)))
}

func reverse(s string) value {
	runes := []rune(s)
	slices.Reverse(runes)
	return text(string(runes))
}

// trimming removes white space, or the characters of the second argument.
func trimming(space func(string) string, cut func(s, cut string) string) *function {
	return ofRun(1, 2, func(r *run, a []value) value {
		switch {
		case !all(kindString, a):
			return undefined
		case len(a) == 1:
			return text(space(a[0].text))
		case !r.spend(len(a[0].text) * len(a[1].text) / 8): // each character is looked up in the second text
			return undefined
		}
		return text(cut(a[0].text, a[1].text))
	})
}

func stringJoin(r *run, a []value) value {
	if a[0].kind != kindArray || a[1].kind != kindString {
		return undefined
	}
	var b strings.Builder
	separator := ""
	for raw := range elements(a[0].raw) {
		item := parseValue(raw)
		if item.kind != kindString || !r.fits(b.Len()+len(separator)+len(item.text)) {
			return undefined
		}
		b.WriteString(separator)
		b.WriteString(item.text)
		separator = a[1].text
	}
	return text(b.String())
}

func stringSplit(r *run, a []value) value {
	if !all(kindString, a) || a[1].text == "" {
		return undefined
	}
	parts := arrayBuilder{run: r}
	for part := range strings.SplitSeq(a[0].text, a[1].text) {
		if !parts.add(text(part)) {
			break
		}
	}
	return parts.value()
}

package sql

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// tokenKind is the kind of a token.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenKeyword
	tokenParameter
	tokenNumber
	tokenString
	tokenSymbol
)

// token is one word of a query.
type token struct {
	kind tokenKind
	text string // as written; a keyword in upper case
	span
	value value // of a number or string
}

// keywords cannot name anything, not even a property after a dot, as in the
// grammar of azure-cosmos-dotnet-v3 (sql.g4).
var keywords = wordSet(`AND ARRAY AS ASC BETWEEN BY DESC DISTINCT ESCAPE EXISTS FALSE FROM GROUP IN JOIN
	LIKE LIMIT NOT NULL OFFSET OR ORDER SELECT TOP TRUE UDF UNDEFINED VALUE WHERE`)

func wordSet(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// symbols are in the order of matching: if one begins another, it comes later.
var symbols = []string{
	">>>", "<<", ">>", "<=", ">=", "<>", "!=", "||", "??",
	"=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "~", "?", ":",
	"(", ")", "[", "]", "{", "}", ",", ".",
}

// lexer cuts the text of a query into tokens.
type lexer struct {
	text string
	at   int
}

func (l *lexer) next() (token, *Error) {
	if err := l.skipBlank(); err != nil {
		return token{}, err
	}
	start := l.at
	if start == len(l.text) {
		return token{kind: tokenEnd, span: span{start, start + 1}}, nil
	}
	switch c := l.text[start]; {
	case isLetter(c):
		return l.word(), nil
	case isDigit(c) || c == '.' && start+1 < len(l.text) && isDigit(l.text[start+1]):
		return l.number()
	case c == '"' || c == '\'':
		return l.quoted()
	case c == '@' && start+1 < len(l.text) && isLetter(l.text[start+1]):
		l.at++
		l.skipWord()
		return l.token(tokenParameter, start), nil
	}
	for _, s := range symbols {
		if strings.HasPrefix(l.text[start:], s) {
			l.at += len(s)
			return l.token(tokenSymbol, start), nil
		}
	}
	_, size := utf8.DecodeRuneInString(l.text[start:])
	character := span{start, start + size}
	return token{}, character.errorf(codeToken, "Syntax error, invalid token '%s'.", l.text[start:start+size])
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (l *lexer) token(kind tokenKind, start int) token {
	return token{kind: kind, text: l.text[start:l.at], span: span{start, l.at}}
}

// skipBlank passes over space and comments, which end with their line: the service refuses
// others (recorded answers of a hosted account, October 2026).
func (l *lexer) skipBlank() *Error {
	for l.at < len(l.text) {
		remainder := l.text[l.at:]
		switch {
		case strings.IndexByte(" \t\r\n", remainder[0]) >= 0:
			l.at++
		case strings.HasPrefix(remainder, "--"):
			line, _, _ := strings.Cut(remainder, "\n")
			l.at += len(line)
		case strings.HasPrefix(remainder, "/*"):
			return span{l.at, l.at + 1}.errorf(codeSyntax, "Syntax error, incorrect syntax near '/'.")
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) skipWord() {
	for l.at < len(l.text) && (isLetter(l.text[l.at]) || isDigit(l.text[l.at])) {
		l.at++
	}
}

func (l *lexer) word() token {
	start := l.at
	l.skipWord()
	t := l.token(tokenName, start)
	if upper := strings.ToUpper(t.text); keywords[upper] {
		t.kind, t.text = tokenKeyword, upper
	}
	return t
}

// hexadecimal is a number such as 0x1F,
// https://learn.microsoft.com/azure/cosmos-db/nosql/query/constants.
var hexadecimal = regexp.MustCompile(`^0[xX][0-9a-fA-F]+`)

func (l *lexer) skipDigits() {
	for l.at < len(l.text) && isDigit(l.text[l.at]) {
		l.at++
	}
}

func (l *lexer) number() (token, *Error) {
	start := l.at
	if n := hexadecimal.FindString(l.text[start:]); n != "" {
		l.at += len(n)
		t := l.token(tokenNumber, start)
		v, err := strconv.ParseUint(n[2:], 16, 64)
		if err != nil {
			return token{}, t.errorf(codeSyntax, "Syntax error, number '%s' has more than 64 bits.", n)
		}
		t.value = number(float64(v))
		return t, nil
	}
	l.skipDigits()
	if l.at < len(l.text) && l.text[l.at] == '.' {
		l.at++
		l.skipDigits()
	}
	l.skipExponent()
	t := l.token(tokenNumber, start)
	n, err := strconv.ParseFloat(t.text, 64)
	if err != nil || math.IsInf(n, 0) {
		return token{}, t.errorf(codeSyntax, "Syntax error, number '%s' is outside the range of a double.", t.text)
	}
	t.value = number(n)
	if v, ok := parseText(t.text); ok { // else it is written as JSON does not, like .5
		t.value = v
	}
	return t, nil
}

// skipExponent skips an exponent such as e+10. If no digits follow the e, it begins
// the next word.
func (l *lexer) skipExponent() {
	mark := l.at
	if l.at < len(l.text) && l.text[l.at]|0x20 == 'e' {
		l.at++
		if l.at < len(l.text) && (l.text[l.at] == '+' || l.text[l.at] == '-') {
			l.at++
		}
		digits := l.at
		if l.skipDigits(); l.at > digits {
			return
		}
	}
	l.at = mark
}

func (l *lexer) quoted() (token, *Error) {
	start, quote := l.at, l.text[l.at]
	var s []byte
	for l.at++; l.at < len(l.text); {
		switch c := l.text[l.at]; c {
		case quote:
			l.at++
			t := l.token(tokenString, start)
			t.value = text(string(s))
			return t, nil
		case '\\':
			decoded, size := unescape(l.text[l.at:])
			if size == 0 {
				return token{}, span{l.at, l.at + 1}.errorf(codeSyntax, "Syntax error, invalid escape sequence in a string.")
			}
			s, l.at = append(s, decoded...), l.at+size
		default:
			s, l.at = append(s, c), l.at+1
		}
	}
	return token{}, span{start, len(l.text)}.errorf(codeSyntax, "Syntax error, the string is not closed.")
}

// unescape decodes the escape sequence at the start of s and returns its size, 0 if
// it is invalid.
func unescape(s string) (string, int) {
	if len(s) < 2 {
		return "", 0
	}
	if i := strings.IndexByte(`"'\/bfnrt`, s[1]); i >= 0 {
		return "\"'\\/\b\f\n\r\t"[i : i+1], 2
	}
	first, ok := unicodeEscape(s)
	if !ok {
		return "", 0
	}
	if utf16.IsSurrogate(first) {
		if second, ok := unicodeEscape(s[6:]); ok && utf16.DecodeRune(first, second) != utf8.RuneError {
			return string(utf16.DecodeRune(first, second)), 12
		}
	}
	return string(first), 6
}

// unicodeEscape reads \uXXXX.
func unicodeEscape(s string) (rune, bool) {
	if len(s) < 6 || s[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

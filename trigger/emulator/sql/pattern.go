package sql

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxPattern bounds the text of a pattern, maxPatterns the number of patterns that
// one run keeps compiled. RE2 matches in time linear in pattern and text.
const (
	maxPattern  = 4096
	maxPatterns = 64
)

// pattern is a compiled LIKE or RegexMatch pattern.
type pattern struct{ *regexp.Regexp }

func (p *pattern) match(s string) bool { return p.MatchString(s) }

// compile returns the pattern for source, from the run if it is there: most patterns
// are constants. When the run has too many, it drops them all.
func (r *run) compile(function, source string) (*pattern, error) {
	if p := r.patterns[source]; p != nil {
		return p, nil
	}
	if len(source) > maxPattern {
		return nil, &Error{Code: codeValue, Message: fmt.Sprintf("The pattern of %s is longer than %d bytes.", function, maxPattern)}
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, &Error{Code: codeValue, Message: fmt.Sprintf("The pattern of %s is not supported: %v.", function, err)}
	}
	if len(r.patterns) == maxPatterns {
		clear(r.patterns)
	}
	p := &pattern{re}
	r.patterns[source] = p
	return p, nil
}

// likePattern compiles a LIKE pattern: % is any text, _ any character, [a-f] and
// [^a-f] one of a set. The escape character makes the next one literal.
func (r *run) likePattern(like, escape string) (*pattern, error) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for like != "" {
		if escape != "" && strings.HasPrefix(like, escape) && len(like) > len(escape) {
			like = like[len(escape):]
			like = cutLiteral(&b, like)
			continue
		}
		switch like[0] {
		case '%':
			b.WriteString(`.*`)
			like = like[1:]
		case '_':
			b.WriteString(`.`)
			like = like[1:]
		case '[':
			like = cutSet(&b, like)
		default:
			like = cutLiteral(&b, like)
		}
	}
	b.WriteString(`\z`)
	return r.compile("LIKE", b.String())
}

// cutLiteral writes the first character of s to match itself.
func cutLiteral(b *strings.Builder, s string) string {
	_, size := utf8.DecodeRuneInString(s)
	b.WriteString(regexp.QuoteMeta(s[:size]))
	return s[size:]
}

// cutSet writes the set at the start of s. If its bracket is not closed, or closed
// at once, the bracket matches itself.
func cutSet(b *strings.Builder, s string) string {
	end := strings.IndexByte(s, ']')
	set := strings.TrimPrefix(s[1:max(end, 1)], "^")
	if set == "" {
		return cutLiteral(b, s)
	}
	b.WriteByte('[')
	if s[1] == '^' {
		b.WriteByte('^')
	}
	b.WriteString(strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`, `&`, `\&`, `~`, `\~`).Replace(set))
	b.WriteByte(']')
	return s[end+1:]
}

// regexMatch is RegexMatch(text, pattern[, modifiers]).
func regexMatch(r *run, a []value) value {
	flags := ""
	if len(a) == 3 {
		if a[2].kind != kindString {
			return undefined
		}
		flags = a[2].text
	}
	if a[0].kind != kindString || a[1].kind != kindString {
		return undefined
	}
	if strings.Trim(flags, "ims") != "" {
		return r.fail(&Error{Code: codeValue, Message: fmt.Sprintf("The modifiers %q of RegexMatch are not supported; use i, m and s.", flags)})
	}
	source := a[1].text
	if flags != "" {
		source = "(?" + flags + ")" + source
	}
	p, err := r.compile("RegexMatch", source)
	if err != nil {
		return r.fail(err)
	}
	return boolean(p.match(a[0].text))
}

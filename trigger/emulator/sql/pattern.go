package sql

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// maxPattern bounds the text of a pattern, maxPatterns the number of patterns that
// one run keeps compiled. RE2 matches in time linear in pattern and text.
const (
	maxPattern  = 4096
	maxPatterns = 16

	// maxInstructions bounds the program of a pattern: (x{1000}){1000} is short, too.
	maxInstructions = 8192
)

// pattern is a compiled LIKE or RegexMatch pattern.
type pattern struct {
	*regexp.Regexp
	instructions int // about
}

// match counts its work before it begins: a match cannot be interrupted.
func (r *run) match(p *pattern, s string) value {
	if !r.spend(expressionWork + 4*len(s)*p.instructions) {
		return undefined
	}
	return boolean(p.MatchString(s))
}

func patternTooLong(function string) *Error {
	return &Error{Code: codeValue, Message: fmt.Sprintf("The pattern of %s is longer than %d bytes.", function, maxPattern)}
}

// compile returns the pattern for source, from the run if it is there: most patterns
// are constants. When the run has too many, it drops them all.
func (r *run) compile(function, source string) (*pattern, error) {
	if p := r.patterns[source]; p != nil {
		return p, nil
	}
	if len(source) > maxPattern {
		return nil, patternTooLong(function)
	}
	instructions, err := estimate(source)
	if instructions > maxInstructions {
		return nil, &Error{Code: codeResource, Message: fmt.Sprintf("The pattern of %s needs more than %d instructions: repeat less.", function, maxInstructions)}
	}
	var re *regexp.Regexp
	if err == nil {
		r.spend(compileWork * (len(source) + instructions))
		re, err = regexp.Compile(source)
	}
	if err != nil {
		return nil, &Error{Code: codeValue, Message: fmt.Sprintf("The pattern of %s is not supported: %v.", function, err)}
	}
	if len(r.patterns) == maxPatterns {
		clear(r.patterns)
	}
	p := &pattern{re, instructions}
	r.patterns[source] = p
	return p, nil
}

// compileWork is the work to compile one byte or instruction of a pattern.
const compileWork = 256

// estimate returns about how many instructions a pattern becomes.
func estimate(source string) (int, error) {
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return instructionsOf(parsed), nil
}

func instructionsOf(e *syntax.Regexp) int {
	n := 2 + len(e.Rune)/8 // a class is one instruction, but a long one
	if e.Op == syntax.OpLiteral {
		n = len(e.Rune)
	}
	for _, sub := range e.Sub {
		n += instructionsOf(sub)
	}
	if e.Op == syntax.OpRepeat {
		n *= max(e.Max, e.Min, 1)
	}
	return n
}

// likePattern compiles a LIKE pattern: % is any text, _ any character, [a-f] and
// [^a-f] one of a set. The escape character makes the next one literal.
func (r *run) likePattern(like, escape string) (*pattern, error) {
	if len(like) > maxPattern || !r.spend(16*len(like)) {
		return nil, patternTooLong("LIKE")
	}
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
	return r.match(p, a[0].text)
}

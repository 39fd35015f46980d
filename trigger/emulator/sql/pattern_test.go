package sql

import (
	"errors"
	"testing"
)

func TestLike(t *testing.T) {
	for _, c := range []struct {
		text, pattern, escape string
		want                  bool
	}{
		{"", "", "", true},
		{"", "%", "", true},
		{"", "_", "", false},
		{"abc", "abc", "", true},
		{"abc", "ABC", "", false},
		{"abc", "%", "", true},
		{"abc", "a%", "", true},
		{"abc", "%c", "", true},
		{"abc", "%b%", "", true},
		{"abc", "b%", "", false},
		{"abc", "%b", "", false},
		{"abc", "a%c", "", true},
		{"abc", "%%", "", true},
		{"abc", "___", "", true},
		{"abc", "____", "", false},
		{"abc", "_b_", "", true},
		{"abc", "_%_", "", true},
		{"ab", "_%_%_", "", false},
		{"a\nb", "a_b", "", true},
		{"a\r\nb", "a%b", "", true},
		{"日本", "日_", "", true},
		{"😀", "_", "", true},

		// Sets and ranges.
		{"SOtPS", "%SO[t-z]PS%", "", true},
		{"SOaPS", "%SO[t-z]PS%", "", false},
		{"SOxPS", "%SO[^abc]PS%", "", true},
		{"SOaPS", "%SO[^abc]PS%", "", false},
		{"c", "[abc]", "", true},
		{"d", "[abc]", "", false},
		{"e", "[^a-d]", "", true},
		{"", "[^a-d]", "", false},
		{"ad", "[abc][def]", "", true},
		{"^", "[a^]", "", true},
		{"\\", "[\\]", "", true},
		{"&", "[&&]", "", true},

		// Wildcards in brackets stand for themselves.
		{"20-30%", "20-30[%]", "", true},
		{"20-300", "20-30[%]", "", false},
		{"_n", "[_]n", "", true},
		{"an", "[_]n", "", false},
		{"[", "[[]", "", true},
		{"]", "]", "", true},
		{"[a", "[a", "", true},

		// The character of ESCAPE makes the next one literal.
		{"20%", "20^%", "^", true},
		{"20x", "20^%", "^", false},
		{"is 20% off", "%20^%%", "^", true},
		{"a_b", "a!_b", "!", true},
		{"axb", "a!_b", "!", false},
		{"a!b", "a!!b", "!", true},
		{"[a]", "![a]", "!", true},
		{"a", "![a]", "!", false},
		{"%", "é%", "é", true},
		{"x", "é%", "é", false},

		// Other characters of regular expressions are literal.
		{"a.c", "a.c", "", true},
		{"abc", "a.c", "", false},
		{"a+", "a+", "", true},
		{"aa", "a+", "", false},
		{"(a|b)*$", "(a|b)*$", "", true},
		{"a{2}", "a{2}", "", true},
		{"a\\b", "a\\b", "", true},
	} {
		text, pattern := quoted(c.text), quoted(c.pattern)
		expr := text + " LIKE " + pattern
		not := text + " NOT LIKE " + pattern
		if c.escape != "" {
			expr += " ESCAPE " + quoted(c.escape)
			not += " ESCAPE " + quoted(c.escape)
		}
		checkExpression(t, expr, string(boolean(c.want).json()))
		checkExpression(t, not, string(boolean(!c.want).json()))
	}
}

func TestRegexMatch(t *testing.T) {
	for _, c := range []struct {
		text, pattern, modifiers string
		want                     bool
	}{
		{"abcd", "ab", "", true},
		{"abcd", "AB", "", false},
		{"abcd", "AB", "i", true},
		{"abcd", "^bc", "", false},
		{"abcd", "cd$", "", true},
		{"abcd", "a.*d", "", true},
		{"abcd", "a.d", "", false},
		{"salt3824908", "salt{1}", "", true},
		{"salty", "^salt{1,2}y$", "", true},
		{"a\nb", "^b$", "", false},
		{"a\nb", "^b$", "m", true},
		{"a\nb", "a.b", "", false},
		{"a\nb", "a.b", "s", true},
		{"A\nB", "^a.b$", "is", true},
		{"A\nB", "^b$", "im", true},
		{"a1b22", `\d{2}`, "", true},
		{"héllo", `h\wllo`, "", false},
		{"héllo", `h\p{L}llo`, "", true},
		{"a-b", `\bb\b`, "", true},
		{"abab", "^(ab)+$", "", true},
		{"abab", "^(?:a|b){4}$", "", true},
		{"x", "[^a-w]", "", true},
		{"", "", "", true},
	} {
		expr := "RegexMatch(" + quoted(c.text) + ", " + quoted(c.pattern)
		want := string(boolean(c.want).json())
		if c.modifiers == "" {
			checkExpression(t, expr+")", want)
		}
		checkExpression(t, expr+", "+quoted(c.modifiers)+")", want)
	}
}

// TestPatternsThatAreRefused checks the whole text of the errors.
func TestPatternsThatAreRefused(t *testing.T) {
	for expr, want := range map[string]string{
		`RegexMatch("a", "(")`:          "The pattern of RegexMatch is not supported: error parsing regexp: missing closing ): `(`.",
		`RegexMatch("a", "a(?!b)")`:     "The pattern of RegexMatch is not supported: error parsing regexp: invalid or unsupported Perl syntax: `(?!`.",
		`RegexMatch("a", "(a)\\1")`:     "The pattern of RegexMatch is not supported: error parsing regexp: invalid escape sequence: `\\1`.",
		`RegexMatch("a", "a", "x")`:     `The modifiers "x" of RegexMatch are not supported; use i, m and s.`,
		`RegexMatch("a", "a", "i m")`:   `The modifiers "i m" of RegexMatch are not supported; use i, m and s.`,
		`"a" LIKE "[z-a]"`:              "The pattern of LIKE is not supported: error parsing regexp: invalid character class range: `z-a`.",
		`"a" LIKE REPLICATE("_", 5000)`: "The pattern of LIKE is longer than 4096 bytes.",
	} {
		_, err := query("SELECT VALUE "+expr, []string{`{}`})
		var e *Error
		if !errors.As(err, &e) || e.Code != codeValue || e.Error() != want {
			t.Errorf("%s: error %v, want %s", expr, err, want)
		}
	}
}

package lease

import (
	"cmp"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"halley/trigger/redact"
)

// MaxText bounds a text in a lease, in bytes.
const MaxText = 200

var urlQuery = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\?[^\s"'<>]*`) })

// CleanText makes an error fit for a lease: one line without control characters and
// without secrets and the queries of URLs, of at most MaxText bytes.
func CleanText(s string) string {
	s = urlQuery().ReplaceAllString(redact.Text(s), "?…")
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > MaxText {
		s = strings.ToValidUTF8(s[:MaxText-len("…")], "") + "…"
	}
	return s
}

// CompareTokens orders leases: numbers by value, and before spans of keys.
func CompareTokens(a, b string) int {
	number := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	switch x, y := number(a), number(b); {
	case x && y:
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	case x:
		return -1
	case y:
		return 1
	}
	return strings.Compare(a, b)
}

// Package redact removes secrets from texts and errors, before they are logged, printed or
// stored: those of URLs and connection strings by their form, and those of the process's
// settings, which [Learn] is told, by their value.
//
// Errors of net/http hold the whole URL of a request. If the URL has a shared
// access signature (SAS) or a password, each log line about an unreachable host
// would hold it, too. The runtime therefore passes the errors of its own clients
// and of all handlers through [Error], and the application passes its log and
// its error output through [Text].
package redact

import (
	"errors"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Mark replaces a secret.
const Mark = "[redacted]"

// Text returns s without the user info, the query and the fragment of each URL
// in it, and without the secret of each SAS token, connection string, bearer
// token and Cosmos DB signature. Scheme, host and path of a URL stay, except if
// the URL is malformed: a password may then stand in place of the host. It returns s
// without the secrets that [Learn] was told, too.
//
// Text may remove more than secrets, but it keeps each line break and, if s is
// JSON, the quotes: the result is JSON as well. Text(Text(s)) equals Text(s).
func Text(s string) string {
	s = withoutLearned(s)
	if !strings.Contains(s, "://") && !mayHoldSecret(s) {
		return s
	}
	var out strings.Builder
	for {
		marker := strings.Index(s, "://")
		if marker < 0 {
			out.WriteString(s)
			break
		}
		begin := schemeStart(s[:marker])
		remainder := s[marker+len("://"):]
		end := urlEnd(s[:begin], remainder)
		out.WriteString(s[:marker+len("://")])
		out.WriteString(cleanURL(s[begin:marker], remainder[:end]))
		s = remainder[end:]
	}
	text := sasToken().ReplaceAllString(out.String(), "sig="+Mark)
	text = secretValue().ReplaceAllString(text, "${1}"+Mark)
	return invalidPort().ReplaceAllString(text, "${1}"+Mark)
}

// onFirstUse returns a function that compiles the pattern when it is first called: a
// process that starts logs nothing that needs most of them.
func onFirstUse(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// Secrets outside of URLs. "%3d" is "=" in the Authorization header of Cosmos DB.
var (
	secretValue = onFirstUse(`(?i)((?:\b|%26|u0026)sig(?:=|%3d)|\b(?:AccountKey|SharedAccessKey|SharedAccessSignature|client_secret|access_token)=|\bbearer )[^\s;&"'<>\\]+`)

	// sasToken finds a whole SAS token: parameters before and after the signature.
	sasToken = onFirstUse(`(?:(?:[\w-]+=[^\s;&"'<>\\]*(?:&amp;|\\+u0026|&))+|\b)sig=[^\s;&"'<>\\]+(?:(?:&amp;|\\+u0026|&)[\w-]+=[^\s;&"'<>\\]*)*`)

	// invalidPort finds what net/url quotes of a malformed URL, which may be the
	// password in a URL whose user info has no "@".
	invalidPort = onFirstUse(`(invalid port \\*")[^"\\]*`)
)

// secretNames stand before secrets outside of URLs, here in lower case.
var secretNames = []string{"sig=", "sig%3d", "key=", "signature=", "secret=", "token=", "bearer ", "invalid port"}

// mayHoldSecret reports whether s has the name of a secret. Most texts have none, and need no pattern.
func mayHoldSecret(s string) bool {
	lower := strings.ToLower(s)
	return slices.ContainsFunc(secretNames, func(name string) bool { return strings.Contains(lower, name) })
}

// schemeStart returns the index in prefix at which the scheme of a URL begins.
func schemeStart(prefix string) int {
	return strings.LastIndexFunc(prefix, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("+.-", r))
	}) + 1
}

// urlEnd returns the length of a URL at the beginning of text. A URL in quotes
// ends at the next quote that is escaped as often as the first one, so that a
// malformed URL may contain spaces and other quotes. Any other URL ends at white
// space, a double quote or an angle bracket.
func urlEnd(prefix, text string) int {
	line, _, _ := strings.Cut(text, "\n")
	if prefix != "" && strings.ContainsRune("\"'`", rune(prefix[len(prefix)-1])) {
		quote := prefix[len(prefix)-1]
		depth := backslashes(prefix[:len(prefix)-1])
		for i := range len(line) {
			// Backslashes of the URL itself are doubled as often as the quote is
			// escaped, so they come in multiples of twice depth+1.
			if line[i] == quote && backslashes(line[:i])%(2*depth+2) == depth {
				return i - depth
			}
		}
	}
	if end := strings.IndexAny(line, " \t\r\"<>"); end >= 0 {
		return end - backslashes(line[:end])
	}
	return len(line)
}

// backslashes returns the number of backslashes at the end of s.
func backslashes(s string) int { return len(s) - len(strings.TrimRight(s, `\`)) }

// cleanURL returns the part of a URL after "://" without its secrets.
func cleanURL(scheme, address string) string {
	shown, query, hidden := cutAny(address, "?#")
	tail := ""
	if hidden {
		if suffix, ok := strings.CutPrefix(query, Mark); ok && strings.Trim(suffix, closing) == "" {
			return address // clean already
		}
		tail = "?" + Mark + address[len(strings.TrimRight(address, closing)):]
	}
	web := strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
	if i := strings.LastIndexByte(address, '@'); i >= len(shown) && !web {
		return Mark // a password with a question mark
	}
	if i := strings.LastIndexByte(shown, '@'); i >= 0 {
		return Mark + "@" + shown[i+1:] + tail
	}
	if !plainAuthority(shown) {
		return Mark + tail
	}
	return shown + tail
}

// closing are the characters at the end of a URL that belong to the text around
// it.
const closing = `.,:;)]}!'`

// cutAny cuts s at the first of chars.
func cutAny(s, chars string) (head, tail string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// authority is a host with an optional port, in words of a pattern or template
// as well: https://{account}.documents.azure.com:443/.
var authority = onFirstUse(`^(?:[^\s:/\\]*|\[[0-9A-Fa-f:.%\w]*\])(?::(?:\d{0,5}|\D{0,2}$))?$`)

// plainAuthority reports whether the authority of a URL, which begins address, is a
// host with an optional port. In any other authority, a part after the colon
// may be a password.
func plainAuthority(address string) bool {
	host, _, _ := cutAny(address, "/")
	return authority().MatchString(host) || authority().MatchString(strings.TrimRight(host, closing))
}

// Error returns err with the text that [Text] makes of its text, nil if err is
// nil, and err itself if there is nothing to remove. [errors.Is] and [errors.As]
// find the same errors as before, but a [*url.Error] is found with a clean URL.
func Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := Text(text); clean != text {
		return &cleanError{clean, err}
	}
	return err
}

// cleanError shows the clean text of an error. It is immutable, and so is the
// error in it, which other goroutines may share.
type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }

// As gives a clean copy of the *url.Error in the error.
func (e *cleanError) As(target any) bool {
	to, ok := target.(**url.Error)
	var found *url.Error
	if !ok || !errors.As(e.err, &found) {
		return false
	}
	*to = &url.Error{Op: found.Op, URL: Text(found.URL), Err: Error(found.Err)}
	return true
}

// Writer returns a writer that passes [Text] of each Write to w. A Write must
// hold whole lines.
func Writer(w io.Writer) io.Writer { return textWriter{w} }

type textWriter struct{ w io.Writer }

// Write returns the length of p if w takes all of its text.
func (t textWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(t.w, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

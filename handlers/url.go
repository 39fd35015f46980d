package handlers

import (
	"fmt"
	"net/url"
	"strings"

	"halley/trigger/redact"
)

// URL is a setting with a URL that may hold secrets: a password, a token in its path or a
// key among its parameters. With every verb of fmt, in JSON and in logs it is its scheme
// and host, and [redacted] stands for each other part that it has.
type URL string

// Decode implements envconfig.Decoder. From then on, no log line, error or page repeats
// a secret part of the URL, see [redact.LearnURL].
func (u *URL) Decode(value string) error {
	redact.LearnURL(value)
	*u = URL(value)
	return nil
}

// Reveal returns the whole URL.
func (u URL) Reveal() string { return string(u) }

// String is [redacted] if the URL is not understood: a password that is not
// percent-encoded may then stand anywhere in it.
func (u URL) String() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Scheme == "" || parsed.Host == "" {
		return redact.Mark
	}
	remainder := strings.Trim(parsed.Path, "/") + parsed.RawQuery + parsed.Fragment
	if strings.Contains(remainder, "@") {
		return redact.Mark
	}
	shown := parsed.Scheme + "://"
	if parsed.User != nil {
		shown += redact.Mark + "@"
	}
	shown += parsed.Host
	if remainder != "" {
		shown += "/" + redact.Mark
	}
	return shown
}

// Format implements [fmt.Formatter].
func (u URL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(u.String())) }

// MarshalText implements [encoding.TextMarshaler].
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

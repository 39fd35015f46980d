package handlers

import (
	"fmt"

	"halley/trigger/redact"
)

// Secret is a setting whose value is never printed: with every verb of fmt, in
// JSON and in logs it is [redacted], or empty if it is not set.
type Secret string

// Decode implements envconfig.Decoder. From then on, no log line, error or page repeats
// the value, see [redact.Learn].
func (s *Secret) Decode(value string) error {
	redact.Learn(value)
	*s = Secret(value)
	return nil
}

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redact.Mark
}

// Format implements [fmt.Formatter].
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText implements [encoding.TextMarshaler].
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

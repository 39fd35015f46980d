package stream

import (
	"fmt"
	"regexp"
	"strings"
)

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// Name replaces the placeholders of a template, such as {container}, with values that
// encode has encoded. An unknown placeholder is an error that names it.
func Name(template string, values map[string]string, encode func(string) string) (string, error) {
	var unknown string
	name := placeholder.ReplaceAllStringFunc(template, func(found string) string {
		value, ok := values[strings.Trim(found, "{}")]
		if !ok && unknown == "" {
			unknown = found
		}
		return encode(value)
	})
	if unknown == "" && strings.ContainsAny(name, "{}") {
		unknown = "a brace without its other half"
	}
	if unknown != "" {
		return "", fmt.Errorf("has %s, which stands for nothing", unknown)
	}
	return name, nil
}

// Escape replaces each byte of s that is not plain with escape and two hexadecimal
// digits.
func Escape(s string, escape byte, plain func(byte) bool) string {
	var b strings.Builder
	for i := range len(s) {
		if plain(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%c%02X", escape, s[i])
		}
	}
	return b.String()
}

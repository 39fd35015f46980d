package nats

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"halley/handlers/stream"
)

// maxSubject keeps the line of a publish below the 4,096 bytes that a server reads.
const maxSubject = 2048

// subject replaces the placeholders of a template. A partition key of several values is
// as many tokens.
func subject(template, database, container string, key []byte) (string, error) {
	name, err := stream.Name(template, map[string]string{"database": token(database), "container": token(container), "key": keyTokens(key)},
		func(encoded string) string { return encoded })
	switch {
	case err != nil:
		return "", err
	case strings.ContainsAny(name, " \t\r\n*>"):
		return "", errors.New("has a space or a wildcard")
	case name == "" || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, ".."):
		return "", errors.New("has an empty token")
	case len(name) > maxSubject:
		return "", fmt.Errorf("has %d bytes, more than %d", len(name), maxSubject)
	}
	return name, nil
}

// keyTokens makes subject tokens of the values of a partition key: text as it is, other
// values as JSON.
func keyTokens(key []byte) string {
	var values []json.RawMessage
	if err := json.Unmarshal(key, &values); err != nil || len(values) == 0 {
		return token("")
	}
	tokens := make([]string, len(values))
	for i, value := range values {
		text := string(value)
		if value[0] == '"' {
			_ = json.Unmarshal(value, &text) // a JSON string
		}
		tokens[i] = token(text)
	}
	return strings.Join(tokens, ".")
}

// token encodes a value as one token of a subject. The result differs for different
// values.
func token(value string) string {
	if value == "" {
		return "%" // no other value is encoded like this
	}
	return stream.Escape(value, '%', func(b byte) bool { return b > ' ' && b != 0x7f && !strings.ContainsRune(".*>%{}", rune(b)) })
}

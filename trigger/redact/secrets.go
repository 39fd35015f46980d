package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// shortestSecret is the length from which [Text] removes a secret: a shorter one would
// be found in words and numbers that have nothing to do with it.
const shortestSecret = 6

// shortestToken is the length from which a word in a list of secrets counts as one, and a part
// of a URL whose name does not tell.
const shortestToken = 16

// learned are the forms of all learned secrets, the longest first. Readers take no lock;
// learnMutex guards the change from one slice to the next.
var (
	learned    atomic.Pointer[[]string]
	learnMutex sync.Mutex
)

// Learn makes [Text] remove a secret of the process's settings wherever it is repeated:
// as it is, URL-encoded, in base64 and escaped as in JSON. Servers repeat requests in
// their errors, so that a password would come back in a place that no pattern knows.
//
// In a connection string, a URL, the JSON of a key file and a list, each secret part is
// learned as well. Secrets of fewer than 6 characters are not.
func Learn(secret string) { learn(append(secretParts(secret), secret, strings.TrimSpace(secret))) }

// LearnURL learns the secret parts of a URL, of which scheme and host are no secrets: the
// password, or the user if there is no password, parameters with the name of a secret, and
// each parameter and segment of the path of 16 characters or more.
func LearnURL(address string) { learn(urlParts(address)) }

// learn adds the forms of secrets that are not known yet.
func learn(secrets []string) {
	learnMutex.Lock()
	defer learnMutex.Unlock()
	var forms []string
	if known := learned.Load(); known != nil {
		forms = slices.Clone(*known)
	}
	for _, secret := range secrets {
		if len(secret) < shortestSecret {
			continue
		}
		for _, text := range formsOf(secret) {
			if len(text) >= shortestSecret && !strings.Contains(Mark, text) {
				forms = insertForm(forms, text)
			}
		}
	}
	learned.Store(&forms)
}

// insertForm adds a form that is not known before the shorter ones.
func insertForm(forms []string, text string) []string {
	if slices.Contains(forms, text) {
		return forms
	}
	i := slices.IndexFunc(forms, func(known string) bool { return len(known) < len(text) })
	if i < 0 {
		i = len(forms)
	}
	return slices.Insert(forms, i, text)
}

// secretParts returns the secret parts of a value with several.
func secretParts(value string) (parts []string) {
	if strings.Contains(value, "://") {
		parts = urlParts(value)
	}
	var file map[string]any
	if json.Unmarshal([]byte(value), &file) == nil {
		for name, part := range file {
			if text, ok := part.(string); ok && namesSecret(name) {
				parts = append(append(parts, text), longWords(text)...)
			}
		}
		return parts
	}
	for _, field := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("; ,\n\t", r) }) {
		if name, part, ok := strings.Cut(field, "="); ok && namesSecret(name) {
			parts = append(parts, strings.Trim(part, `'"`))
		}
	}
	if !strings.ContainsAny(value, "=") {
		parts = append(parts, longWords(value)...)
	}
	return parts
}

// longWords returns the words of a list, or the lines of a key.
func longWords(value string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(", \n\t", r) }),
		func(word string) bool { return len(word) < shortestToken })
}

// namesSecret reports whether a part with this name is a secret.
func namesSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"key", "sig", "signature", "secret", "password", "pwd", "token", "code"},
		func(word string) bool { return strings.HasSuffix(name, word) })
}

// urlParts returns the secret parts of a URL, also of one that net/url refuses.
func urlParts(address string) (parts []string) {
	_, remainder, ok := strings.Cut(address, "://")
	if !ok {
		return nil
	}
	if i := strings.LastIndexByte(remainder, '@'); i >= 0 {
		user, password, _ := strings.Cut(remainder[:i], ":")
		parts = append(parts, cmp.Or(password, user))
		remainder = remainder[i+1:]
	}
	path, query, _ := cutAny(remainder, "?#")
	_, path, _ = strings.Cut(path, "/") // after the host
	for _, segment := range strings.Split(path, "/") {
		if len(segment) >= shortestToken {
			parts = append(parts, segment)
		}
	}
	for _, parameter := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if value = cmp.Or(value, name); namesSecret(name) || len(value) >= shortestToken {
			parts = append(parts, value)
		}
	}
	for _, part := range parts {
		if plain, err := url.QueryUnescape(part); err == nil {
			parts = append(parts, plain)
		}
		if plain, err := url.PathUnescape(part); err == nil {
			parts = append(parts, plain)
		}
	}
	return parts
}

// formsOf returns the ways to write a secret.
func formsOf(secret string) []string {
	encoded := append(base64Forms(secret), url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:])
	forms := []string{secret}
	for _, text := range encoded {
		forms = append(forms, text, url.QueryEscape(text), lowerEscapes(text))
	}
	quoted := strconv.Quote(secret)
	forms = append(forms, quoted[1:len(quoted)-1])
	for _, text := range []string{jsonString(secret, true), jsonString(secret, false)} {
		forms = append(forms, text, jsonString(text, false)) // JSON in JSON: an answer in a log line
	}
	return forms
}

// jsonString returns text as a string of JSON has it between its quotes.
func jsonString(text string, escapeHTML bool) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(escapeHTML)
	_ = encoder.Encode(text) // strings encode
	return out.String()[1 : out.Len()-len("\"\n")]
}

// base64Forms returns the characters of base64 that stand for the secret alone, for each
// of the three ways in which it can begin inside of a longer text, such as user:password.
func base64Forms(secret string) (forms []string) {
	for offset := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString([]byte(strings.Repeat("\x00", offset) + secret))
			first, end := (8*offset+5)/6, 8*(offset+len(secret))/6
			forms = append(forms, text[first:end])
		}
	}
	return forms
}

// lowerEscapes returns a URL-encoded text with escapes in lower case.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(text[i+1:i+3]))
		}
	}
	return string(b)
}

// numberCharacters are the characters of numbers of JSON.
const numberCharacters = "0123456789.eE+-"

// withoutLearned returns s without the learned secrets.
func withoutLearned(s string) string {
	forms := learned.Load()
	if forms == nil {
		return s
	}
	for _, form := range *forms {
		if strings.Contains(s, form) {
			s = removeForm(s, form)
		}
	}
	return s
}

// removeForm returns s with [Mark] in place of a secret. If s is JSON, it stays JSON: a number
// becomes a string, and no escape is cut in two.
func removeForm(s, secret string) string {
	isNumber := strings.Trim(secret, numberCharacters) == ""
	var out strings.Builder
	for {
		head, tail, found := strings.Cut(s, secret)
		if !found {
			out.WriteString(s)
			return out.String()
		}
		switch isValue := strings.HasSuffix(head, `":`) && !strings.HasSuffix(head, `\":`); {
		case isNumber && continuesNumber(head, tail):
			out.WriteString(head + secret)
		case isNumber && isValue:
			out.WriteString(head + `"` + Mark + `"`)
		case backslashes(head)%2 == 1:
			out.WriteString(head[:len(head)-1] + Mark)
		default:
			out.WriteString(head + Mark)
		}
		s = tail
	}
}

// continuesNumber reports whether a number between head and tail is a part of a longer one.
func continuesNumber(head, tail string) bool {
	return head != "" && strings.ContainsRune(numberCharacters, rune(head[len(head)-1])) ||
		tail != "" && strings.ContainsRune(numberCharacters, rune(tail[0]))
}

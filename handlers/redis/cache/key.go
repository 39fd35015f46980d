package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"halley/handlers/property"
	"halley/trigger"
)

// Key makes the key of a document.
type Key struct{ parts []keyPart }

// keyPart is a text, or one of the others if it is empty.
type keyPart struct {
	text         string
	id           bool
	partitionKey bool
	path         property.Path
}

// ParseKey parses a template: text with {/path} for the value of a property, {id} for the
// id of the document, and {key} for the values of its partition key, separated by slashes.
// Documents need different keys: an id alone is unique only within a partition key.
func ParseKey(template string) (k Key, err error) {
	remainder, variable := template, false
	for remainder != "" {
		text, suffix, opens := strings.Cut(remainder, "{")
		if strings.Contains(text, "}") {
			return k, fmt.Errorf("%q has a } without a {", template)
		}
		if text != "" {
			k.parts = append(k.parts, keyPart{text: text})
		}
		if !opens {
			break
		}
		name, suffix, closes := strings.Cut(suffix, "}")
		if !closes {
			return k, fmt.Errorf("%q has a { without a }", template)
		}
		part, err := parsePart(name)
		if err != nil {
			return k, err
		}
		k.parts, remainder, variable = append(k.parts, part), suffix, true
	}
	if !variable {
		return k, errors.New("it has no property: write a text such as product:{/category}:{id}")
	}
	return k, nil
}

func parsePart(name string) (p keyPart, err error) {
	switch name {
	case "id":
		p.id = true
	case "key":
		p.partitionKey = true
	default:
		if p.path, err = property.Parse(name); err != nil {
			return p, fmt.Errorf("{%s}: %w; {id} is the id and {key} the partition key", name, err)
		}
	}
	return p, nil
}

// of returns the key of the document that changed: by its version before, if it was
// deleted and the feed has no other.
func (k Key) of(c trigger.Change) (string, error) {
	document := c.Document
	if document == nil {
		document = c.Previous
	}
	var key strings.Builder
	for _, part := range k.parts {
		text, err := part.of(c, document)
		if err != nil {
			return "", err
		}
		key.WriteString(text)
	}
	return key.String(), nil
}

func (p keyPart) of(c trigger.Change, document json.RawMessage) (string, error) {
	switch {
	case p.text != "":
		return p.text, nil
	case p.id:
		return c.ID(), nil
	case p.partitionKey:
		return joinValues(c.PartitionKey())
	}
	text, ok := plain(p.path.Of(document))
	if !ok {
		return "", fmt.Errorf("it has no text, number, true or false at %s, which its key in the cache needs", p.path)
	}
	return text, nil
}

// joinValues separates the values of a partition key by slashes.
func joinValues(key json.RawMessage) (string, error) {
	var values []json.RawMessage
	if err := json.Unmarshal(key, &values); err != nil {
		return "", fmt.Errorf("partition key %s: %w", key, err)
	}
	texts := make([]string, len(values))
	for i, value := range values {
		var ok bool
		if texts[i], ok = plain(value); !ok {
			texts[i] = string(value) // null, or {} if it is missing
		}
	}
	return strings.Join(texts, "/"), nil
}

// plain returns a text without its quotes, and a number, true or false as it is.
func plain(value json.RawMessage) (string, bool) {
	if len(value) == 0 || value[0] == '{' || value[0] == '[' || value[0] == 'n' {
		return "", false
	}
	if value[0] != '"' {
		return string(value), true
	}
	var text string
	err := json.Unmarshal(value, &text)
	return text, err == nil
}

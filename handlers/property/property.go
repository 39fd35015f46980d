// Package property finds the properties of documents that settings name by their paths.
package property

import (
	"encoding/json"
	"fmt"
	"strings"

	"halley/trigger/cosmos"
)

// Path is the place of a property in documents: a JSON pointer (RFC 6901) such as
// /customer/name, without elements of arrays. The zero value is not a path.
type Path struct{ names []string }

// Parse parses a path. Inside of a name, ~1 stands for a slash and ~0 for a tilde.
func Parse(text string) (Path, error) {
	if !strings.HasPrefix(text, "/") || len(text) == 1 {
		return Path{}, fmt.Errorf("%q is not a path: write /name, or /outer/name for an inner property", text)
	}
	names := strings.Split(text[1:], "/")
	for i, name := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return Path{names}, nil
}

// String returns the path as [Parse] takes it.
func (p Path) String() string {
	var text strings.Builder
	for _, name := range p.names {
		text.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return text.String()
}

// Name is the last name of the path.
func (p Path) Name() string { return p.names[len(p.names)-1] }

// Of returns the value in a document as JSON, a part of document, or nil if the property
// is missing.
func (p Path) Of(document json.RawMessage) json.RawMessage {
	for _, name := range p.names {
		if document = cosmos.Property(document, name); document == nil {
			return nil
		}
	}
	return document
}

package trigger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"halley/trigger/internal/filter"
)

// Filter selects the changes that a function is called with, by patterns on their
// documents. A change passes if its document matches one of the patterns; an empty
// filter passes all changes.
//
// The patterns are those of AWS Lambda's event filters and of Amazon EventBridge
// (https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html): a JSON
// object in the shape of the documents, with a list of rules for each field, one of
// which must match:
//
//	{"status": ["open", null, ""], "total": [{"numeric": [">", 100, "<=", 500]}]}
//	{"customer": {"country": [{"anything-but": ["US", "CA"]}], "vat": [{"exists": true}]}}
//	{"$or": [{"email": [{"suffix": "@example.com"}]}, {"name": [{"prefix": "Test"}]}]}
//
// Rules are a text, a number, true, false, null, and the operators prefix, suffix,
// equals-ignore-case, anything-but (a value, a list of values, or one of the three
// operators before with a text or a list), numeric and exists. Fields that a pattern does
// not name do not matter. An array matches if one of its elements does; if the pattern
// goes on inside of an array, one object of it must match the whole inner pattern. An
// object, an empty object and an empty array count as a missing field for exists.
// Numbers are compared by their value, without rounding.
//
// A filter sees what the feed shows. In latest-version mode that is the last version of a
// document: if it stops matching, the function does not hear of it, and may also miss an
// earlier version that matched. In all-versions mode a change is judged by its document,
// and a delete by the previous version. A delete passes if the service does not give that
// version, and so does a document that is not a JSON object: nothing is dropped because
// it cannot be judged.
//
// To a function, filtered changes are as if they were not in the feed: they are neither
// delivered nor dead-lettered, they wait for no key, and checkpoints move past them
// without a write of their own. [RangeStatus], [Summary] and events of kind [EventFiltered]
// count them, each time that they are read. [Replay] does not filter.
type Filter []string

// ParseFilter parses a text that is one pattern, or a JSON array of patterns. It does not
// compile them; [Function.Validate] does.
func ParseFilter(text string) (Filter, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "[") {
		return Filter{text}, nil
	}
	var patterns []json.RawMessage
	if err := json.Unmarshal([]byte(text), &patterns); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("byte %d: it is not a JSON array of patterns: %w", syntax.Offset, err)
		}
		return nil, fmt.Errorf("it is not a JSON array of patterns: %w", err)
	}
	f := Filter{}
	for _, pattern := range patterns {
		f = append(f, string(pattern))
	}
	return f, nil
}

// String returns the filter as [ParseFilter] takes it.
func (f Filter) String() string {
	switch len(f) {
	case 0:
		return ""
	case 1:
		return f[0]
	}
	return "[" + strings.Join(f, ", ") + "]"
}

// Compile returns a function that reports whether a change passes the filter. It is safe
// for concurrent use. The error names each fault of the patterns with its place and the
// fix.
func (f Filter) Compile() (passes func(Change) bool, err error) {
	test, err := f.compile()
	if err != nil {
		return nil, err
	}
	if test == nil {
		return func(Change) bool { return true }, nil
	}
	return func(c Change) bool { return test(c.Document, c.Previous) }, nil
}

// filterTest reports whether a change passes a filter, by its document and the previous
// one, each of which may be nil. It is nil if all changes pass.
type filterTest func(document, previous []byte) bool

func (f Filter) compile() (filterTest, error) {
	compiled, err := filter.Compile(f)
	if compiled == nil || err != nil {
		return nil, err
	}
	return func(document, previous []byte) bool {
		if document == nil { // of a delete
			document = previous
		}
		return document == nil || compiled.Passes(document)
	}, nil
}

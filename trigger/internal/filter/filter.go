package filter

import (
	"errors"
	"fmt"
)

// Filter is a set of patterns, one of which must match. It is immutable and safe for
// concurrent use.
type Filter struct{ documentTest objectTest }

// Compile compiles patterns. Its error names each fault, with the number of the
// pattern, counted from 1, the path to the place, and the fix. No patterns compile to a
// nil filter, which passes everything.
func Compile(patterns []string) (*Filter, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	f := &Filter{}
	var errs []error
	for i, text := range patterns {
		p, err := parsePattern(i+1, text)
		if err == nil && !f.documentTest.addResult(p) {
			err = fmt.Errorf("pattern %d: the filter has more than %d conditions on one object: use fewer patterns, and test the rest in the handler", i+1, maxConditions)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	f.documentTest.complete()
	return f, nil
}

// Passes reports whether a document matches one of the patterns. A document that is not
// a JSON object passes: its handler then says so, and nothing is dropped because it
// could not be read. It neither keeps nor changes the bytes, and does not allocate.
func (f *Filter) Passes(document []byte) bool {
	if f == nil {
		return true
	}
	i := skipSpace(document, 0)
	if i == len(document) || document[i] != '{' {
		return true
	}
	results, end := f.documentTest.matchObject(document, i)
	return end == notJSON || results != 0
}
